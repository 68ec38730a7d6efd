package plugin

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// refuses returns a function that says whether a wait was refused, and that no time passed.
func refuses(t *testing.T, d *diary, wait func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		began := time.Now()
		if err := wait(ctx); !errors.Is(err, ErrWouldDeadlock) || time.Since(began) > 0 {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		d.add("refused")
		return nil
	}
}

// Every wait that cannot end is refused, at once, and what was asked for happens.
func TestWaitingForOneselfIsRefused(t *testing.T) {
	for what, mount := range map[string]func(t *testing.T, tr *Tree, d *diary) (closes *Node){
		"a start closes its own node": func(t *testing.T, tr *Tree, d *diary) *Node {
			return must(tr.Root().Mount("p", nil, func(ctx context.Context, s *Scope) error { return refuses(t, d, s.Node().Close)(ctx) }))
		},
		"a child closes its parent": func(t *testing.T, tr *Tree, d *diary) *Node {
			return must(tr.Root().Mount("parent", nil, func(ctx context.Context, s *Scope) error {
				parent := s.Node()
				must(s.Mount("child", nil, func(ctx context.Context, s *Scope) error { return refuses(t, d, parent.Close)(ctx) }))
				return nil
			}))
		},
		"a guest closes its host": func(t *testing.T, tr *Tree, d *diary) *Node {
			host := make(chan *Scope, 1)
			n := must(tr.Root().Mount("host", nil, func(_ context.Context, s *Scope) error { host <- s; return nil }))
			must(tr.Root().MountAll(Child{Name: "guest", In: <-host, Start: func(ctx context.Context, s *Scope) error { return refuses(t, d, n.Close)(ctx) }}))
			return n
		},
		"an owned goroutine closes its node": func(t *testing.T, tr *Tree, d *diary) *Node {
			return must(tr.Root().Mount("p", nil, func(_ context.Context, s *Scope) error { return s.Go("g", refuses(t, d, s.Node().Close)) }))
		},
		"a listener closes its node, called by another": func(t *testing.T, tr *Tree, d *diary) *Node {
			n := settled(must(tr.Root().Mount("p", nil, func(_ context.Context, s *Scope) error {
				_, err := ping.On(s, func(ctx context.Context, _ string) error { return refuses(t, d, s.Node().Close)(ctx) })
				return err
			})))
			must(tr.Root().Mount("caller", nil, func(ctx context.Context, s *Scope) error { return ping.Emit(ctx, s, "") }))
			return n
		},
		"a start dispatches to a listener that closes the caller": func(t *testing.T, tr *Tree, d *diary) *Node {
			var caller *Node
			settled(must(tr.Root().Mount("p", nil, func(_ context.Context, s *Scope) error {
				_, err := ping.On(s, func(ctx context.Context, _ string) error { return refuses(t, d, caller.Close)(ctx) })
				return err
			})))
			return must(tr.Root().Mount("caller", nil, func(ctx context.Context, s *Scope) error { caller = s.Node(); return ping.Emit(ctx, s, "") }))
		},
		"a cleanup of a user closes the provider": func(t *testing.T, tr *Tree, d *diary) *Node {
			prov := settled(must(tr.Root().Mount("prov", nil, provides(keyA, "x"))))
			settled(must(tr.Root().Mount("user", []Need{keyA.Required()}, func(_ context.Context, s *Scope) error {
				_, err := s.Defer("closes the provider", refuses(t, d, prov.Close))
				return err
			})))
			go prov.Close(bg)
			return prov
		},
		"a setup closes its node": func(t *testing.T, tr *Tree, d *diary) *Node {
			return must(tr.Root().Mount("p", nil, func(_ context.Context, s *Scope) error {
				_, err := Acquire(s, "a", func(ctx context.Context) (int, func(context.Context) error, error) {
					return 0, nil, refuses(t, d, s.Node().Close)(ctx)
				})
				return err
			}))
		},
		"a start closes the tree": func(t *testing.T, tr *Tree, d *diary) *Node {
			must(tr.Root().Mount("p", nil, func(ctx context.Context, s *Scope) error { return refuses(t, d, tr.Close)(ctx) }))
			return tr.Root().Node()
		},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
				n := mount(t, tr, d)
				synctest.Wait()
				want(t, d.take(), "refused")
				if st, _ := n.State(); st != Closed {
					t.Errorf("the stop was not carried out: %v", st)
				}
			})
		})
	}
}

// Two that close each other do not both wait: one is refused, and both end.
func TestTwoThatCloseEachOther(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		var nodes [2]*Node
		for i := range nodes {
			nodes[i] = settled(must(tr.Root().Mount(fmt.Sprint(i), nil, func(_ context.Context, s *Scope) error {
				_, err := s.Defer("closes the other", func(ctx context.Context) error {
					time.Sleep(time.Second)
					if err := nodes[1-i].Close(ctx); errors.Is(err, ErrWouldDeadlock) {
						d.add("refused")
					}
					return nil
				})
				return err
			})))
		}
		go nodes[0].Close(bg)
		took := elapsed(func() { _ = nodes[1].Close(bg) })
		want(t, took.String()+" "+d.take(), "1s refused")
	})
}

func TestSettlingFromWithinIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		n := must(tr.Root().Mount("p", nil, func(ctx context.Context, s *Scope) error { return tr.Settle(ctx) }))
		want(t, fmt.Sprint(n.Settle(bg)), "root/p waits for the whole tree: waiting here would deadlock")
		starts := 0
		n = must(tr.Root().Mount("p", nil, func(ctx context.Context, s *Scope) error {
			if starts++; starts > 1 {
				return nil
			}
			return refuses(t, d, s.Node().Restart)(ctx)
		}))
		want(t, fmt.Sprint(n.Settle(bg), starts, d.take()), "<nil> 2refused")
	})
}

// An owned goroutine may wait for its own node and for the tree: its context ends first.
func TestSettlingFromAGoroutine(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		n := must(tr.Root().Mount("p", nil, func(ctx context.Context, s *Scope) error {
			for _, settle := range []func(context.Context) error{s.Node().Settle, tr.Settle} {
				must(0, s.Go("g", func(ctx context.Context) error { d.add(fmt.Sprint(settle(ctx))); return nil }))
			}
			time.Sleep(time.Second)
			return nil
		}))
		_ = n.Settle(bg)
		synctest.Wait()
		want(t, d.take(), "<nil> <nil>")

		// While it waits, its node may be closed.
		must(tr.Root().Mount("slow", nil, takes(20*time.Second)))
		n = settled(must(tr.Root().Mount("p", nil, func(ctx context.Context, s *Scope) error {
			return s.Go("g", func(ctx context.Context) error { d.add(fmt.Sprint(tr.Settle(ctx))); return nil })
		})))
		synctest.Wait()
		took := elapsed(func() { _ = n.Close(bg) })
		want(t, took.String()+" "+d.take(), "0s waiting for root/slow: the plugin is stopping")
	})
}

// A parent may wait for its children while it starts.
func TestWaitingForOthersIsAllowed(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		other := must(tr.Root().Mount("other", nil, func(context.Context, *Scope) error { time.Sleep(time.Second); return nil }))
		n := must(tr.Root().Mount("p", nil, func(ctx context.Context, s *Scope) error {
			child := must(s.Mount("child", nil, func(context.Context, *Scope) error { time.Sleep(3 * time.Second); return nil }))
			return join(child.Settle(ctx), other.Settle(ctx), child.Close(ctx))
		}))
		if err := n.Settle(bg); err != nil {
			t.Error(err)
		}
	})
}
