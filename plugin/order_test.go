package plugin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// world is a tree to build: the same one, however long its plugins take to start.
type world struct {
	name   string
	stages []Stage // of its listeners, as registered
	late   bool    // it needs what the last plugin provides
	below  []world
}

func drawWorld(t *rapid.T, name string, depth int) world {
	w := world{name: name, late: rapid.IntRange(0, 2).Draw(t, "late") == 0}
	w.stages = rapid.SliceOfN(rapid.SampledFrom([]Stage{early, middle, late}), 1, 2).Draw(t, "stages")
	if depth < 3 {
		for i := range rapid.IntRange(0, 3).Draw(t, "children") {
			w.below = append(w.below, drawWorld(t, fmt.Sprint(name, ".", i), depth+1))
		}
	}
	return w
}

// registrations are those of a world, in the order of rows and registration.
func (w world) registrations() (names []string, stages []Stage) {
	for i, st := range w.stages {
		names, stages = append(names, fmt.Sprint(w.name, "#", i)), append(stages, st)
	}
	for _, c := range w.below {
		n, s := c.registrations()
		names, stages = append(names, n...), append(stages, s...)
	}
	return names, stages
}

// child is the world as a plugin. Each takes a while to start, and children are mounted
// before their parent registers anything.
func (w world) child(delay func() time.Duration, gate Key[int], order Waterfall[string, string], shelf Set[Stage]) Child {
	before, between := delay(), delay()
	var below []Child
	for _, c := range w.below {
		below = append(below, c.child(delay, gate, order, shelf))
	}
	c := Child{Name: w.name}
	if w.late {
		c.Needs = []Need{gate.Required()}
	}
	c.Start = func(ctx context.Context, s *Scope) error {
		time.Sleep(before)
		for _, c := range below {
			must(s.MountAll(c))
		}
		for i, st := range w.stages {
			me := fmt.Sprint(w.name, "#", i)
			must(order.On(s, func(ctx context.Context, p string, next Next[string, string]) (string, error) {
				return next(ctx, strings.TrimSpace(p+" "+me))
			}, At(st)))
			must(shelf.Add(s, me, st))
			time.Sleep(between)
		}
		return nil
	}
	return c
}

// Listeners run by stage, row and registration, and entries show by row and registration,
// whoever started first.
func TestLawOrderDoesNotDependOnStarting(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := drawWorld(rt, "n", 0)
		names, stages := w.registrations()
		var heard []string
		for _, st := range []Stage{early, middle, late} {
			for i, name := range names {
				if stages[i] == st {
					heard = append(heard, name)
				}
			}
		}
		restart := rapid.Bool().Draw(rt, "restart")
		delay := func() time.Duration { return time.Duration(rapid.IntRange(0, 50).Draw(rt, "delay")) * time.Millisecond }
		last := delay()
		gate, shelf := NewKey[int]("gate"), NewSet[Stage]("shelf")
		order := NewWaterfall[string, string]("order", early, middle, late)
		child := w.child(delay, gate, order, shelf)
		synctest.Test(t, func(t *testing.T) {
			tr := New(nil)
			n := must(tr.Root().MountAll(child))[0]
			must(tr.Root().Mount("gate", nil, func(_ context.Context, s *Scope) error { time.Sleep(last); return gate.Provide(s, 1) }))
			err := tr.Settle(bg)
			if restart {
				_ = n.Restart(bg)
				err = join(err, tr.Settle(bg))
			}
			got, _ := order.Run(bg, tr.Root(), "", func(_ context.Context, p string) (string, error) { return p, nil })
			var shown []string
			for name := range shelf.Visible(tr.Root()) {
				shown = append(shown, name)
			}
			if err != nil || got != strings.Join(heard, " ") || !slices.Equal(shown, names) {
				rt.Errorf("%v\nheard %s\nwant  %s\nshown %s\nwant  %s", err, got, heard, shown, names)
			}
			_ = tr.Close(bg)
		})
	})
}
