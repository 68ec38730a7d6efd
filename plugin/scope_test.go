package plugin

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestOwnedGoroutine(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		n := must(tr.Root().Mount("ticker", nil, func(ctx context.Context, s *Scope) error {
			must(s.Defer("conn", d.note("conn-closed")))
			err := s.Go("tick", func(ctx context.Context) error {
				for tick := time.NewTicker(time.Hour); ; {
					select {
					case <-tick.C:
						d.add("tick")
					case <-ctx.Done():
						d.add("loop-over")
						return errors.New("not a failure")
					}
				}
			})
			// What is registered later may rely on the goroutine until it is undone.
			must(s.Defer("flush", func(context.Context) error { time.Sleep(time.Second); d.add("flushed"); return nil }))
			return err
		}))
		time.Sleep(150 * time.Minute)
		_ = n.Close(bg)
		want(t, d.take(), "tick tick flushed loop-over conn-closed")
	})
}

// A goroutine in a call of a newer listener cannot wait for its turn: the call would not
// end before it.
func TestGoroutineInACallOfANewerListener(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		listens := func(s *Scope) error {
			_, err := ping.On(s, func(ctx context.Context, _ string) error { <-ctx.Done(); d.add("cancelled"); return nil })
			return err
		}
		emits := func(s *Scope) error {
			return s.Go("emits", func(ctx context.Context) error { time.Sleep(time.Second); return ping.Emit(ctx, s, "") })
		}
		for what, start := range map[string]StartFunc{
			"of the same node": func(_ context.Context, s *Scope) error { return join(emits(s), listens(s)) },
			"of a child": func(_ context.Context, s *Scope) error {
				_, err := s.Mount("child", nil, func(_ context.Context, s *Scope) error { time.Sleep(time.Millisecond); return listens(s) })
				return join(emits(s), err)
			},
			"called by an older child": func(_ context.Context, s *Scope) error {
				_, err := s.Mount("child", nil, func(_ context.Context, s *Scope) error { return emits(s) })
				return join(err, listens(s))
			},
		} {
			n := must(tr.Root().Mount(what, nil, start))
			time.Sleep(2 * time.Second)
			took := elapsed(func() { _ = n.Close(bg) })
			want(t, what+": "+took.String()+" "+d.take(), what+": 0s cancelled")
		}
		// One that is not to end is only waited for.
		must(0, tr.Root().Go("outer", func(ctx context.Context) error {
			time.Sleep(time.Second)
			_ = ping.Emit(ctx, tr.Root(), "")
			d.add(fmt.Sprint(ctx.Err()))
			return nil
		}))
		n := must(tr.Root().Mount("slow", nil, func(_ context.Context, s *Scope) error {
			_, err := ping.On(s, func(ctx context.Context, _ string) error { time.Sleep(5 * time.Second); return nil })
			return err
		}))
		time.Sleep(2 * time.Second)
		_ = n.Close(bg)
		synctest.Wait()
		want(t, d.take(), "<nil>")
	})
}

func TestFailingGoroutineFailsItsNode(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		for _, startLasts := range []time.Duration{0, 10 * time.Second} {
			n := must(tr.Root().Mount("bad", nil, func(ctx context.Context, s *Scope) error {
				must(s.Defer("x", d.note("undone")))
				must(0, s.Go("fails", func(context.Context) error { time.Sleep(time.Second); return errors.New("lost") }))
				select {
				case <-time.After(startLasts):
				case <-ctx.Done(): // the start is interrupted
				}
				return nil
			}))
			time.Sleep(2 * time.Second)
			synctest.Wait()
			st, err := n.State()
			want(t, fmt.Sprint(st, " ", err, " ", d.take()), "failed goroutine fails: lost undone")
		}
		n := must(tr.Root().Mount("panics", nil, func(ctx context.Context, s *Scope) error {
			return s.Go("p", func(context.Context) error { panic("oh") })
		}))
		synctest.Wait()
		_, err := n.State()
		want(t, fmt.Sprint(err), "goroutine p: panic: oh")
	})
}

func TestWhatIsOverLeavesNothingInItsScope(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		s := tr.Root()
		for range 3 {
			dispose := must(s.Defer("x", d.note("undone")))
			_, _ = dispose(bg), dispose(bg) // once, whoever asks
			must(0, s.Go("y", func(context.Context) error { return nil }))
			dispose = must(ping.On(s, func(context.Context, string) error { return nil }))
			_ = dispose(bg)
			dispose = must(tools.Add(s, "tool", ""))
			_ = dispose(bg)
			_, err := Acquire(s, "z", func(context.Context) (int, func(context.Context) error, error) {
				return 1, nil, errors.New("no")
			})
			want(t, err.Error(), "z: no")
		}
		_ = must(s.Mount("p", nil, idle)).Close(bg)
		synctest.Wait()
		want(t, d.take(), "undone undone undone")
		if n := s.effects.Len(); n != 0 {
			t.Errorf("%d effects", n)
		}
	})
}

func TestDispose(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		// The caller's context bounds the wait, not the cleanup.
		gone, cancel := context.WithCancelCause(bg)
		cancel(errors.New("no time"))
		n := settled(must(tr.Root().Mount("p", nil, func(_ context.Context, s *Scope) error {
			dispose := must(s.Defer("slow", func(ctx context.Context) error {
				time.Sleep(3 * time.Second)
				d.add(fmt.Sprint("undone ", ctx.Err()))
				return errors.New("it broke")
			}))
			want(t, dispose(gone).Error(), "waiting for the end of slow: no time")
			return nil
		})))
		_ = n.Close(bg) // joins the cleanup
		want(t, d.take(), "undone <nil>")

		var dispose func(context.Context) error
		dispose = must(tr.Root().Defer("own", func(ctx context.Context) error { return dispose(ctx) })) // from within: at once
		want(t, fmt.Sprint(dispose(bg)), "<nil>")
		dispose = must(tr.Root().Defer("fails", func(ctx context.Context) error { return errors.New("no") }))
		want(t, fmt.Sprint(dispose(bg), dispose(bg)), "fails: no fails: no")
	})
}

func TestStopWaitsForSetupInProgress(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		n := must(tr.Root().Mount("p", nil, func(ctx context.Context, s *Scope) error {
			must(s.Defer("older", d.note("older")))
			return s.Go("later", func(context.Context) error {
				v, err := Acquire(s, "slow", func(context.Context) (int, func(context.Context) error, error) {
					time.Sleep(3 * time.Second)
					d.add("acquired")
					return 1, d.note("released"), nil
				})
				d.add(fmt.Sprint(v, err))
				return nil
			})
		}))
		time.Sleep(time.Second)
		_ = n.Close(bg)
		got := d.take()
		if got != "acquired released 1 <nil> older" && got != "acquired 1 <nil> released older" {
			t.Error(got)
		}
	})
}

func TestScopeLogNamesThePlugin(t *testing.T) {
	var buf logBuffer
	tr := New(buf.logger())
	must(tr.Root().Mount("outer", nil, func(_ context.Context, s *Scope) error {
		must(s.Mount("inner", nil, func(_ context.Context, s *Scope) error { s.Log().Info("hello"); return nil }))
		return nil
	}))
	_ = tr.Settle(bg)
	_ = tr.Close(bg)
	want(t, buf.String(), "level=INFO msg=hello plugin=root/outer/inner\n")
}
