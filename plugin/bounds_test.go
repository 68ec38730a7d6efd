package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// elapsed returns how long f takes.
func elapsed(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}

// stuck returns a function that blocks whoever calls it until release is called.
func stuck() (block, release func()) {
	over := make(chan struct{})
	return func() { <-over }, func() { close(over) }
}

func TestStartIsBounded(t *testing.T) {
	waits := func(ctx context.Context, s *Scope) error { <-ctx.Done(); return context.Cause(ctx) }
	for _, c := range []struct {
		timeout time.Duration
		start   StartFunc
		want    string
	}{
		{0, waits, "start took longer than 30s: start took longer than 30s"},
		{time.Minute, waits, "start took longer than 1m0s: start took longer than 1m0s"},
		{time.Second, func(ctx context.Context, s *Scope) error { <-ctx.Done(); return errors.New("no server") },
			"start took longer than 1s: no server"},
		{time.Second, func(ctx context.Context, s *Scope) error { <-ctx.Done(); return nil }, "start took longer than 1s"},
	} {
		inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
			n := must(tr.Root().MountAll(Child{Name: "p", StartTimeout: c.timeout, Start: c.start}))[0]
			limit := c.timeout
			if limit == 0 {
				limit = DefaultStartTimeout
			}
			var err error
			if took := elapsed(func() { err = n.Settle(bg) }); took != limit {
				t.Errorf("%s: it took %v", c.want, took)
			}
			want(t, fmt.Sprint(err), c.want)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Error("not a deadline exceeded")
			}
			st, _ := n.State()
			want(t, st.String(), "failed")
		})
	}
}

// Its plugin names the limit, too.
func TestStartTimeoutOfAPlugin(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		slow := Plugin[int]{Name: "slow", StartTimeout: time.Hour, Start: func(ctx context.Context, _ *Scope, _ int) error {
			<-ctx.Done()
			return ctx.Err()
		}}.Definition()
		n := must(tr.Root().MountAll(must(slow.Bind(slow.NewConfig())).Child("slow")))[0]
		took := elapsed(func() { _ = n.Settle(bg) })
		want(t, took.String(), "1h0m0s")
	})
}

func TestAStartThatIgnoresItsContextIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged logBuffer
		tr := New(logged.logger())
		block, release := stuck()
		late := make(chan error, 1)
		n := must(tr.Root().Mount("p", nil, func(ctx context.Context, s *Scope) error {
			must(s.Defer("x", func(context.Context) error { return nil }))
			block()
			_, err := s.Defer("y", func(context.Context) error { return nil })
			late <- err
			return nil
		}))
		time.Sleep(time.Second)
		took := elapsed(func() { _ = tr.Close(bg) }) // closing cancels the start at once
		want(t, took.String(), CleanupTimeout.String())
		if st, _ := n.State(); st != Closed {
			t.Error(st)
		}
		if !strings.Contains(logged.String(), `msg="plugin code abandoned" in=p after=10s`) {
			t.Error(logged.String())
		}
		release()
		if err := <-late; !errors.Is(err, ErrScopeClosed) {
			t.Errorf("a late registration: %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		tr := New(nil)
		block, release := stuck()
		defer release()
		n := must(tr.Root().Mount("p", nil, func(context.Context, *Scope) error { block(); return nil }))
		want(t, fmt.Sprint(n.Settle(bg)), "start took longer than 30s: it ignored the end of its context and was abandoned")
		_ = tr.Close(bg)
	})
}

func TestUndoingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged logBuffer
		tr, d := New(logged.logger()), &diary{}
		block, release := stuck()
		defer release()
		n := settled(must(tr.Root().Mount("p", nil, func(_ context.Context, s *Scope) error {
			must(s.Defer("oldest", d.note("oldest")))
			must(s.Defer("late", func(ctx context.Context) error { <-ctx.Done(); d.add("late"); return ctx.Err() }))
			must(s.Defer("stuck", func(context.Context) error { block(); return nil }))
			must(0, s.Go("deaf", func(context.Context) error { block(); return nil }))
			must(ping.On(s, func(context.Context, string) error { block(); return nil }))
			must(s.Defer("newest", d.note("newest")))
			return nil
		})))
		go ping.Emit(bg, tr.Root(), "")
		synctest.Wait()
		// The listener uses up the time of the scope; each of the others still has a second, and
		// a cleanup one more to return after the end of its context.
		took := elapsed(func() { _ = n.Close(bg) })
		want(t, took.String(), "14s")
		want(t, d.take(), "newest late oldest")
		for _, s := range []string{"the end of p on ping took longer than 10s", "the end of goroutine deaf took longer than 1s",
			"the end of stuck took longer than 2s", "late: context deadline exceeded"} {
			if !strings.Contains(logged.String(), s) {
				t.Errorf("the log lacks %q:\n%s", s, &logged)
			}
		}
		_ = tr.Close(bg)
	})
}

// What others take is not counted: a slow child does not cost its parent's order.
func TestChildrenHaveTheirOwnTime(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		slow := func(what string, next StartFunc) StartFunc {
			return func(ctx context.Context, s *Scope) error {
				must(s.Defer(what, func(ctx context.Context) error {
					select {
					case <-time.After(8 * time.Second):
						d.add(what)
						return nil
					case <-ctx.Done():
						d.add(what + " was cut off")
						return ctx.Err()
					}
				}))
				if next == nil {
					return nil
				}
				_, err := s.Mount("below "+what, nil, next)
				return err
			}
		}
		n := must(tr.Root().Mount("p", nil, slow("1", slow("2", slow("3", nil)))))
		synctest.Wait()
		took := elapsed(func() { _ = n.Close(bg) })
		want(t, took.String()+" "+d.take(), "24s 3 2 1")
	})
}

func TestASetupThatOutlastsTheStopIsCleanedUp(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		n := must(tr.Root().Mount("p", nil, func(_ context.Context, s *Scope) error {
			_, err := Acquire(s, "slow", func(context.Context) (int, func(context.Context) error, error) {
				time.Sleep(time.Hour)
				return 1, func(ctx context.Context) error { d.add(fmt.Sprint("released ", ctx.Err())); return nil }, nil
			})
			return err
		}))
		synctest.Wait()
		// Both the start and what it set up are waited for, and then abandoned.
		took := elapsed(func() { _ = n.Close(bg) })
		want(t, took.String()+d.take(), "21s")
		time.Sleep(time.Hour)
		want(t, d.take(), "released <nil>")
	})
}

func TestTakingAConfigIsBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		slow := Plugin[int]{Name: "slow", Start: func(_ context.Context, s *Scope, c int) error {
			d.add(fmt.Sprint("+", c))
			return OnReconfigure(s, func(ctx context.Context, c int) error { <-ctx.Done(); return ctx.Err() })
		}}.Definition()
		l := NewLoader(tr.Root())
		apply(t, l, row("a", slow, 1))
		took := elapsed(func() { want(t, apply(t, l, row("a", slow, 2)), "a restarted") })
		want(t, took.String()+" "+d.take(), "30s +1 +2")
	})
}
