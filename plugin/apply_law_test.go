package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

// planned is a row of the law of Apply. Its config is a number; those above 7 fail.
type planned struct {
	ID       string
	Config   int
	Takes    bool // it is of the plugin that takes a new config while running
	Required bool
	Disabled bool
}

func (p planned) fails() bool { return p.Config > 7 }

// ran is what the simple model says that a row is.
type ran struct {
	planned
	active bool
}

// applied is the simple model of Apply: what runs before, what is asked for, and what
// runs after, and whether the change stands.
func applied(before map[string]ran, rows []planned) (after map[string]ran, stands bool) {
	after, stands = map[string]ran{}, true
	for _, p := range rows {
		was, existed := before[p.ID]
		switch now := (ran{p, !p.fails()}); {
		case p.Disabled:
		case existed && was.Config == p.Config && was.Takes == p.Takes: // it did not change
			after[p.ID] = ran{p, was.active}
		default:
			after[p.ID] = now
			if !now.active && (p.Required || existed && was.active) {
				stands = false
			}
		}
	}
	return after, stands
}

// Apply makes the rows what runs, or leaves what ran; it touches only what changed, and
// the order of listeners is that of the rows.
func TestLawApplyIsATransaction(t *testing.T) {
	draw := rapid.Custom(func(t *rapid.T) []planned {
		ids := rapid.Permutation([]string{"a", "b", "c", "d", "e"}).Draw(t, "ids")
		var rows []planned
		for _, id := range ids[:rapid.IntRange(0, 5).Draw(t, "n")] {
			rows = append(rows, planned{id, rapid.IntRange(0, 9).Draw(t, "config"), rapid.IntRange(0, 3).Draw(t, "takes") == 0,
				rapid.IntRange(0, 4).Draw(t, "required") == 0, rapid.IntRange(0, 6).Draw(t, "disabled") == 0})
		}
		return rows
	})
	rapid.Check(t, func(rt *rapid.T) {
		changes := rapid.SliceOfN(draw, 1, 12).Draw(rt, "changes")
		var wrong string
		synctest.Test(t, func(t *testing.T) { wrong = checkApplies(changes) })
		if wrong != "" {
			rt.Fatal(wrong)
		}
	})
}

func checkApplies(changes [][]planned) (wrong string) {
	var starts diary
	order := NewEmit[*[]string]("order")
	plugin := func(name string, takes bool) Definition {
		return Plugin[int]{Name: name, Start: func(_ context.Context, s *Scope, c int) error {
			id := s.node.name
			starts.add(id)
			if c > 7 {
				return errors.New("too big")
			}
			if _, err := order.On(s, func(_ context.Context, all *[]string) error {
				*all = append(*all, fmt.Sprint(id, c))
				return nil
			}); err != nil || !takes {
				return err
			}
			return OnReconfigure(s, func(_ context.Context, next int) error {
				if next > 7 {
					return errors.New("too big")
				}
				c = next
				return nil
			})
		}}.Definition()
	}
	definitions := map[bool]Definition{false: plugin("plain", false), true: plugin("takes", true)}
	tr := New(nil)
	l := NewLoader(tr.Root())
	before, good := map[string]ran{}, []planned(nil)
	for i, change := range changes {
		var rows []Row
		for _, p := range change {
			r := row(p.ID, definitions[p.Takes], p.Config)
			r.Required, r.Disabled = p.Required, p.Disabled
			rows = append(rows, r)
		}
		starts.take()
		report, err := l.Apply(bg, rows)
		after, stands := applied(before, change)
		if stands != (err == nil) || stands == report.Restored {
			return fmt.Sprintf("change %d: %v, but by the model it stands: %v", i, err, stands)
		}
		if !stands {
			attempted := after
			after, _ = applied(attempted, good)
			for id, was := range before { // a row that the attempt did not touch has its old state
				if now, ok := attempted[id]; ok && now.Config == was.Config && now.Takes == was.Takes {
					after[id] = was
				}
			}
			change = good
		}
		started := strings.Fields(starts.take())
		var heard, expected []string
		_ = order.Emit(bg, tr.Root(), &heard)
		for _, p := range change {
			if now, ok := after[p.ID]; ok && now.active {
				expected = append(expected, fmt.Sprint(p.ID, now.Config))
			}
		}
		if !slices.Equal(heard, expected) {
			return fmt.Sprintf("change %d: heard %v, want %v (%s)", i, heard, expected, report.outcomes())
		}
		for id, was := range before {
			if now, ok := after[id]; stands && ok && was.Config == now.Config && was.Takes == now.Takes && slices.Contains(started, id) {
				return fmt.Sprintf("change %d: %s was touched (%s)", i, id, report.outcomes())
			}
		}
		before, good = after, change
	}
	_ = tr.Close(bg)
	return strings.Join(leaks(tr), " ")
}
