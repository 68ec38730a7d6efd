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

// The original of this kernel is a TypeScript framework that had to be patched. What it
// was patched for, where no other test here shows it.

// A stop that begins during a setup waits for it and for all that it set up.
func TestPrecedent_StopBegunDuringSetup(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		n := must(tr.Root().Mount("p", nil, func(_ context.Context, s *Scope) error {
			must(s.Defer("older", d.note("older")))
			_, err := Acquire(s, "conn", func(ctx context.Context) (int, func(context.Context) error, error) {
				if err := s.Node().Close(ctx); !errors.Is(err, ErrWouldDeadlock) {
					t.Error(err)
				}
				time.Sleep(time.Second)
				d.add("set-up")
				return 1, d.note("cleaned-up"), nil
			})
			return err
		}))
		synctest.Wait()
		_ = n.Close(bg)
		want(t, d.take(), "set-up cleaned-up older")
	})
}

// What fails half-way is undone, in order, and its cleanups do not starve one another.
func TestPrecedent_FailedSetupIsRolledBack(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		n := must(tr.Root().Mount("p", nil, func(_ context.Context, s *Scope) error {
			must(s.Defer("1", d.note("1")))
			must(s.Defer("2", func(context.Context) error { d.add("2"); return errors.New("no") }))
			must(s.Defer("3", func(context.Context) error { d.add("3"); panic("no") }))
			must(s.Mount("child", nil, func(_ context.Context, s *Scope) error { _, err := s.Defer("child", d.note("child")); return err }))
			time.Sleep(time.Second)
			return errors.New("half-way")
		}))
		want(t, fmt.Sprint(n.Settle(bg)), "half-way")
		want(t, d.take(), "child 3 2 1")
	})
}

// Nothing is registered from within a cleanup: it would escape the stop.
func TestPrecedent_NoRegistrationWhileStopping(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		n := settled(must(tr.Root().Mount("p", nil, func(_ context.Context, s *Scope) error {
			_, err := s.Defer("x", func(context.Context) error {
				_, deferring := s.Defer("late", d.note("late"))
				_, mounting := s.Mount("late", nil, idle)
				for _, err := range []error{deferring, mounting, keyA.Provide(s, "x"), s.Go("late", func(context.Context) error { return nil })} {
					d.add(fmt.Sprint(errors.Is(err, ErrScopeClosed)))
				}
				return nil
			})
			return err
		})))
		_ = n.Close(bg)
		want(t, d.take(), "true true true true")
	})
}

// A child belongs to its parent from the first moment: a parent that fails at once
// takes it along, and it does not start.
func TestPrecedent_ChildOfAParentThatEndsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		var child *Node
		n := must(tr.Root().Mount("p", nil, func(_ context.Context, s *Scope) error {
			child = must(s.Mount("child", []Need{keyA.Required()}, func(context.Context, *Scope) error { d.add("started"); return nil }))
			return errors.New("no")
		}))
		_ = n.Settle(bg)
		st, _ := child.State()
		want(t, st.String()+d.take(), "closed")
	})
}

// All candidates of a change are awaited before it is undone, and additions go with it.
func TestPrecedent_EveryOutcomeIsAwaited(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		slow := Plugin[int]{Name: "slow", Start: func(_ context.Context, s *Scope, _ int) error {
			time.Sleep(5 * time.Second)
			d.add("slow+")
			_, err := s.Defer("", d.note("slow-"))
			return err
		}}.Definition()
		l := NewLoader(tr.Root())
		took := elapsed(func() {
			want(t, refuse(t, l, row("bad", serve("p", d), "bad wolf").required(), row("slow", slow, 1)),
				`bad failed: bad wolf, slow started | required row "bad" failed: bad wolf`)
		})
		want(t, took.String()+" "+d.take(), "5s slow+ slow-")
		want(t, tr.Dump().String(), "root active\n")
	})
}

// A row whose teardown waits for another change does not hang the change that tears it down.
func TestPrecedent_TeardownThatAsksForAChange(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		l := NewLoader(tr.Root())
		watcher := Plugin[int]{Name: "watcher", Start: func(_ context.Context, s *Scope, _ int) error {
			_, err := s.Defer("drain", func(ctx context.Context) error {
				_, err := l.Apply(ctx, nil)
				d.add(fmt.Sprint(errors.Is(err, ErrWouldDeadlock)))
				return nil
			})
			return err
		}}.Definition()
		took := elapsed(func() {
			refuse(t, l, row("watcher", watcher, 1), row("bad", serve("p", d), "bad wolf").required())
		})
		want(t, took.String()+" "+d.take(), "0s true")
	})
}

// A config that waits for services is used when they come; a newer one takes its place.
func TestPrecedent_ConfigOfAPendingRow(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		l, user, prov := NewLoader(tr.Root()), serve("user", d, keyA.Required()), offer("prov", d)
		want(t, apply(t, l, row("user", user, "1")), "user pending: it waits for a")
		want(t, apply(t, l, row("user", user, "bad one")), "user pending: it waits for a")
		want(t, apply(t, l, row("user", user, "2")), "user pending: it waits for a")
		want(t, apply(t, l, row("user", user, "2"), row("prov", prov, "x")), "user started, prov started")
		want(t, d.take(), "+provx +user2")
	})
}

// An observer that fails while a plugin is torn down starves neither the others nor the stop.
func TestPrecedent_ObserversOfATeardown(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		gone := NewEmit[string]("gone")
		must(gone.On(tr.Root(), func(context.Context, string) error { panic("observer") }))
		must(gone.On(tr.Root(), func(context.Context, string) error { d.add("told"); return nil }))
		n := settled(must(tr.Root().Mount("p", nil, func(_ context.Context, s *Scope) error {
			must(s.Defer("older", d.note("older")))
			_, err := s.Defer("tells", func(ctx context.Context) error { return gone.Emit(ctx, s, "p") })
			return err
		})))
		synctest.Wait()
		_ = n.Close(bg)
		want(t, d.take(), "told older")
	})
}

// Two changes at the same time do not interleave.
func TestPrecedent_ConcurrentChanges(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		slow := Plugin[string]{Name: "slow", Start: func(_ context.Context, s *Scope, c string) error {
			d.add(s.node.name + c + "(")
			time.Sleep(time.Second)
			d.add(")" + s.node.name + c)
			return nil
		}}.Definition()
		l := NewLoader(tr.Root())
		for _, c := range []string{"1", "2", "3"} {
			go l.Apply(bg, []Row{row("a", slow, c)})
		}
		time.Sleep(time.Minute)
		got := strings.Fields(d.take())
		if len(got) != 6 {
			t.Fatal(got)
		}
		for i := 0; i < len(got); i += 2 {
			if strings.Trim(got[i], "()") != strings.Trim(got[i+1], "()") {
				t.Errorf("they interleave: %v", got)
			}
		}
	})
}
