package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// row is a row of a plugin with a config, which is also its fingerprint.
func row[C any](id string, d Definition, config C) Row {
	return Row{ID: id, Plugin: d.Name(), Prepared: must(d.Bind(&config)), Fingerprint: fmt.Sprint(config)}
}

func (r Row) required() Row { r.Required = true; return r }
func (r Row) disabled() Row { r.Disabled = true; return r }

// outcomes is a report in one line.
func (r Report) outcomes() string {
	var all []string
	for _, row := range r.Rows {
		all = append(all, row.String())
	}
	return strings.Join(all, ", ")
}

// apply applies rows, which must succeed, and returns the outcomes.
func apply(t *testing.T, l *Loader, rows ...Row) string {
	t.Helper()
	report, err := l.Apply(bg, rows)
	if err != nil || report.Restored {
		t.Errorf("apply: %v", err)
	}
	return report.outcomes()
}

// refuse applies rows, which must fail and be restored, and returns the outcomes and the error.
func refuse(t *testing.T, l *Loader, rows ...Row) string {
	t.Helper()
	report, err := l.Apply(bg, rows)
	if err == nil || !report.Restored {
		t.Errorf("it was not refused")
	}
	return fmt.Sprint(report.outcomes(), " | ", err)
}

// serve is a plugin that notes its lives. A config that begins with "bad" fails.
func serve(name string, d *diary, needs ...Need) Definition {
	return Plugin[string]{Name: name, Needs: needs, Start: func(_ context.Context, s *Scope, c string) error {
		if strings.HasPrefix(c, "bad") {
			return errors.New(c)
		}
		d.add("+" + s.node.name + c)
		_, err := s.Defer("life", d.note("-"+s.node.name+c))
		return err
	}}.Definition()
}

// offer is serve for a plugin that provides its config as keyA.
func offer(name string, d *diary) Definition {
	return Plugin[string]{Name: name, Start: func(_ context.Context, s *Scope, c string) error {
		if strings.HasPrefix(c, "bad") {
			return errors.New(c)
		}
		d.add("+" + s.node.name + c)
		must(s.Defer("life", d.note("-"+s.node.name+c)))
		if c == "nothing" {
			return nil
		}
		return keyA.Provide(s, c)
	}}.Definition()
}

func TestApply(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		p, l := serve("p", d), NewLoader(tr.Root())
		want(t, apply(t, l, row("a", p, "1"), row("b", p, "1"), row("c", p, "1").disabled()), "a started, b started, c disabled")
		d.take()
		want(t, apply(t, l, row("a", p, "1"), row("b", p, "2"), row("c", p, "1")), "a kept, b restarted, c started")
		got := d.take()
		if got != "-b1 +b2 +c1" && got != "+c1 -b1 +b2" && got != "-b1 +c1 +b2" {
			t.Error(got)
		}
		want(t, apply(t, l, row("c", p, "1"), row("a", p, "1").disabled()), "c kept, a stopped, b stopped")
		want(t, d.take(), "-b2 -a1")
		want(t, apply(t, l, row("c", serve("q", d), "1")), "c started") // another plugin: another node
		want(t, d.take(), "-c1 +c1")
		want(t, apply(t, l, row("c", serve("q", d), "1")), "c kept")
		want(t, apply(t, l), "c stopped")
	})
}

func TestApplyChecksRowsFirst(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		p, l := serve("p", d), NewLoader(tr.Root())
		apply(t, l, row("a", p, "1"))
		d.take()
		for _, c := range []struct {
			rows []Row
			want string
		}{
			{[]Row{row("a", p, "2"), row("a", p, "3")}, `two rows have the id "a"`},
			{[]Row{row("", p, "2")}, "a row has no id"},
			{[]Row{{ID: "x", Plugin: "p"}}, `row "x" has no prepared plugin`},
		} {
			_, err := l.Apply(bg, c.rows)
			want(t, fmt.Sprint(err), c.want)
		}
		want(t, d.take(), "")
	})
}

// A row that fails is reported and the rest runs.
func TestApplyReportsFailuresAndTheRestRuns(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		p, l := serve("p", d), NewLoader(tr.Root())
		needs := serve("needs", d, keyA.Required())
		want(t, apply(t, l, row("x", p, "bad wolf"), row("y", p, "1"), row("z", needs, "1")),
			"x failed: bad wolf, y started, z pending: it waits for a")
		want(t, d.take(), "+y1")
		// One that is added by a reload, or failed before, is none of a reason to go back.
		want(t, apply(t, l, row("x", p, "bad again"), row("y", p, "1"), row("z", needs, "1"), row("new", p, "bad too")),
			"x failed: bad again, y kept, z pending: it waits for a, new failed: bad too")
		want(t, apply(t, l, row("x", p, "2"), row("y", p, "1"), row("z", needs, "1")), "x started, y kept, z pending: it waits for a, new stopped")
	})
}

// Nothing runs without a required row, on the first apply; later the last good rows do.
func TestRequiredRows(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		p, l := serve("p", d), NewLoader(tr.Root())
		needs := serve("needs", d, keyA.Required())
		want(t, refuse(t, l, row("x", p, "1"), row("y", p, "bad wolf").required()),
			`x started, y failed: bad wolf | required row "y" failed: bad wolf`)
		want(t, d.take(), "+x1 -x1")
		want(t, refuse(t, l, row("z", needs, "1").required()),
			`z pending: it waits for a | required row "z" waits for a, which nothing provides`)
		apply(t, l, row("x", p, "1"))
		d.take()
		want(t, refuse(t, l, row("x", p, "2"), row("y", p, "bad wolf").required()),
			`x restarted, y failed: bad wolf | required row "y" failed: bad wolf`)
		want(t, d.take(), "-x1 +x2 -x2 +x1")

		// Taking away what a required row needs fails too.
		prov := offer("prov", d)
		apply(t, l, row("z", needs, "1").required(), row("prov", prov, "v"))
		d.take()
		want(t, refuse(t, l, row("z", needs, "1").required()),
			`z pending: it waits for a, prov stopped | required row "z" waits for a, which nothing provides`)
		want(t, d.take(), "-z1 -provv +provv +z1")
		want(t, apply(t, l, row("z", needs, "1"), row("prov", prov, "v")), "z kept, prov kept") // it is required no more
		want(t, tr.Dump().String(), "root active\n  z (needs) active\n  prov active, provides a\n")
		want(t, apply(t, l, row("z", needs, "1")), "z pending: it waits for a, prov stopped")
	})
}

// A row that ran before must run after, else the last good rows are restored.
func TestApplyRestoresTheLastGoodRows(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		p, l := serve("p", d), NewLoader(tr.Root())
		apply(t, l, row("a", p, "1"), row("b", p, "1"), row("c", p, "1"))
		d.take()
		want(t, refuse(t, l, row("new", p, "1"), row("b", p, "bad wolf"), row("a", p, "2")),
			`new started, b failed: bad wolf, a restarted, c stopped | row "b" failed: bad wolf`)
		d.take()
		want(t, tr.Dump().String(), "root active\n  a (p) active\n  b (p) active\n  c (p) active\n")
		want(t, apply(t, l, row("a", p, "1"), row("b", p, "1"), row("c", p, "1")), "a kept, b kept, c kept")
		want(t, d.take(), "")
	})
}

// One that did not change itself counts too, when the change restarted it.
func TestApplyJudgesWhoRestartsForAChange(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		picky := Plugin[string]{Name: "picky", Needs: []Need{keyA.Required()}, Start: func(_ context.Context, s *Scope, c string) error {
			if v := keyA.From(s); v != "good" {
				return fmt.Errorf("%s is not good", v)
			}
			return nil
		}}.Definition()
		prov, l := offer("prov", d), NewLoader(tr.Root())
		apply(t, l, row("picky", picky, ""), row("prov", prov, "good"))
		want(t, refuse(t, l, row("picky", picky, ""), row("prov", prov, "evil")),
			`picky failed: evil is not good, prov restarted | row "picky" failed: evil is not good`)
		want(t, apply(t, l, row("picky", picky, ""), row("prov", prov, "nothing")), "picky pending: it waits for a, prov restarted")
	})
}

// A failure elsewhere, before the change or during it, does not undo it, and nobody
// waits for what the change does not touch.
func TestApplyMindsOnlyWhatItTouches(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		p, l := serve("p", d), NewLoader(tr.Root())
		flaky := Plugin[int]{Name: "flaky", Start: func(_ context.Context, s *Scope, _ int) error {
			return s.Go("dies", func(context.Context) error { time.Sleep(time.Minute); return errors.New("line cut") })
		}}.Definition()
		slow := Plugin[int]{Name: "slow", Start: func(ctx context.Context, s *Scope, _ int) error {
			return takes(20*time.Second)(ctx, s)
		}}.Definition()
		change := func(c string) string {
			return apply(t, l, row("flaky", flaky, 1).required(), row("slow", slow, 1), row("p", p, c))
		}
		want(t, change("1"), "flaky started, slow started, p started")
		time.Sleep(time.Minute)
		go l.live["slow"].Restart(bg)
		synctest.Wait()
		took := elapsed(func() { want(t, change("2"), "flaky failed: goroutine dies: line cut, slow kept, p restarted") })
		want(t, took.String(), "0s")
		want(t, change("2"), "flaky failed: goroutine dies: line cut, slow kept, p kept") // it is not tried again either
	})
}

func TestApplyFromWithin(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		l := NewLoader(tr.Root())
		p := serve("p", d)
		// A start would wait for itself.
		self := Plugin[string]{Name: "self", Start: func(ctx context.Context, s *Scope, _ string) error {
			_, err := l.Apply(ctx, nil)
			return err
		}}.Definition()
		want(t, apply(t, l, row("self", self, "")), "self failed: root/self waits for rows to be applied: waiting here would deadlock")

		// A running row may ask for a change that restarts it: the change goes on without it.
		var server Definition
		server = Plugin[string]{Name: "server", Start: func(ctx context.Context, s *Scope, c string) error {
			d.add("+server" + c)
			return s.Go("reload", func(ctx context.Context) error {
				if c == "1" {
					_, err := l.Apply(ctx, []Row{row("server", server, "2"), row("p", p, "1")})
					d.add(err.Error())
				}
				return nil
			})
		}}.Definition()
		apply(t, l, row("server", server, "1"))
		synctest.Wait()
		got := strings.Join(slices.DeleteFunc(strings.Fields(d.take()), func(s string) bool { return s == "+p1" }), " ")
		want(t, got, "+server1 the rows are still being applied: the plugin is stopping +server2")
		want(t, apply(t, l, row("server", server, "2"), row("p", p, "1")), "server kept, p kept")
	})
}

func TestApplyNested(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		p := serve("p", d)
		group := Plugin[string]{Name: "group", Start: func(ctx context.Context, s *Scope, c string) error {
			report, err := NewLoader(s).Apply(ctx, []Row{row("x", p, c), row("y", p, c)})
			d.add(report.outcomes())
			return err
		}}.Definition()
		l := NewLoader(tr.Root())
		want(t, apply(t, l, row("g", group, "1")), "g started")
		got := strings.Fields(d.take())
		slices.Sort(got[:2])
		want(t, strings.Join(got, " "), "+x1 +y1 x started, y started")
	})
}

// Changes are applied one after the other.
func TestAppliesTakeTurns(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		slow := Plugin[string]{Name: "slow", Start: func(ctx context.Context, s *Scope, c string) error {
			d.add("start" + c)
			time.Sleep(10 * time.Second)
			d.add("started" + c)
			return nil
		}}.Definition()
		l := NewLoader(tr.Root())
		go l.Apply(bg, []Row{row("a", slow, "1")})
		time.Sleep(time.Second)
		impatient, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		_, err := l.Apply(impatient, []Row{row("a", slow, "2")})
		want(t, fmt.Sprint(err), "rows are being applied already: context deadline exceeded")
		want(t, apply(t, l, row("a", slow, "3")), "a restarted")
		want(t, d.take(), "start1 started1 start3 started3")

		// A caller who leaves does not stop a change that has begun.
		impatient, cancel = context.WithTimeout(bg, time.Second)
		defer cancel()
		_, err = l.Apply(impatient, []Row{row("a", slow, "4")})
		want(t, fmt.Sprint(err), "the rows are still being applied: context deadline exceeded")
		want(t, apply(t, l, row("a", slow, "4")), "a kept")
		want(t, d.take(), "start4 started4")
	})
}

func TestApplyEndsWithItsScope(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		slow := Plugin[string]{Name: "slow", Start: func(ctx context.Context, s *Scope, c string) error {
			<-ctx.Done()
			d.add("cancelled")
			return ctx.Err()
		}}.Definition()
		l := NewLoader(tr.Root())
		errs := make(chan error, 1)
		go func() {
			_, err := l.Apply(bg, []Row{row("a", slow, "1").required()})
			errs <- err
		}()
		synctest.Wait()
		took := elapsed(func() { _ = tr.Close(bg) })
		want(t, fmt.Sprint(took, " ", d.take()), "0s cancelled")
		if err := <-errs; err == nil {
			t.Error("the rows were applied")
		}
		if _, err := l.Apply(bg, nil); !errors.Is(err, ErrScopeClosed) {
			t.Error(err)
		}
	})
}

func TestReconfigure(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		p := Plugin[string]{Name: "p", Start: func(_ context.Context, s *Scope, c string) error {
			d.add("+" + c)
			must(s.Defer("life", d.note("-"+c)))
			if c == "deaf" {
				return nil
			}
			return OnReconfigure(s, func(_ context.Context, next string) error {
				if next == "hard" {
					return errors.New("it needs a new life")
				}
				d.add(c + ">" + next)
				return nil
			})
		}}.Definition()
		l := NewLoader(tr.Root())
		change := func(c string) string { return apply(t, l, row("a", p, c)) + ": " + d.take() }
		want(t, change("x"), "a started: +x")
		want(t, change("y"), "a reconfigured: x>y")
		want(t, change("y"), "a kept: ")
		_ = l.live["a"].Restart(bg)
		want(t, d.take(), "-x +y") // a later life starts with the new config
		want(t, change("hard"), "a restarted: -y +hard")
		want(t, change("deaf"), "a reconfigured: hard>deaf")
		_ = l.live["a"].Restart(bg)
		want(t, d.take(), "-hard +deaf")
		want(t, change("w"), "a restarted: -deaf +w") // this life does not take one
	})
}

// A config that comes while the provider of a need goes is not lost, and is taken before the stop.
func TestReconfigureExcludesStopping(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		prov := settled(must(tr.Root().Mount("prov", nil, provides(keyA, "x"))))
		slow := Plugin[string]{Name: "slow", Needs: []Need{keyA.Required()}, Start: func(_ context.Context, s *Scope, c string) error {
			d.add("+" + c)
			must(s.Defer("listen", d.note("-"+c)))
			return OnReconfigure(s, func(_ context.Context, next string) error {
				time.Sleep(8 * time.Second)
				d.add("took " + next)
				return nil
			})
		}}.Definition()
		l := NewLoader(tr.Root())
		apply(t, l, row("a", slow, "1"))
		go l.Apply(bg, []Row{row("a", slow, "2")})
		time.Sleep(time.Second)
		go prov.Close(bg)
		time.Sleep(2 * time.Second)
		want(t, d.take(), "+1")
		time.Sleep(8 * time.Second)
		want(t, d.take(), "took 2 -1")
		must(tr.Root().Mount("prov", nil, provides(keyA, "x")))
		_ = tr.Settle(bg)
		want(t, d.take(), "+2")
	})
}

// One change may concern a provider and its user: each restarts once.
func TestApplyRestartsEachOnce(t *testing.T) {
	for range 20 {
		inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
			user, prov, l := serve("user", d, keyA.Required()), offer("prov", d), NewLoader(tr.Root())
			for _, c := range []string{"1", "2"} {
				apply(t, l, row("user", user, c), row("prov", prov, c))
			}
			want(t, d.take(), "+prov1 +user1 -user1 -prov1 +prov2 +user2")
		})
	}
}

// A config that comes while a failed life is still ending starts the next one.
func TestReconfigureWhileFailing(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		p := Plugin[string]{Name: "p", Start: func(_ context.Context, s *Scope, c string) error {
			d.add("+" + c)
			must(s.Defer("slow", func(context.Context) error { time.Sleep(time.Second); return nil }))
			if c == "dying" {
				must(0, s.Go("fails", func(context.Context) error { time.Sleep(time.Second); return errors.New("lost") }))
			}
			return OnReconfigure(s, func(context.Context, string) error { d.add("took"); return nil })
		}}.Definition()
		l := NewLoader(tr.Root())
		apply(t, l, row("p", p, "dying"))
		time.Sleep(1500 * time.Millisecond)
		apply(t, l, row("p", p, "good"))
		want(t, d.take(), "+dying +good")
	})
}

// A row that closed itself is mounted again by the next change.
func TestARowThatClosedItself(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		p, l := serve("p", d), NewLoader(tr.Root())
		apply(t, l, row("a", p, "1"))
		_ = l.live["a"].Close(bg)
		want(t, apply(t, l, row("a", p, "1")), "a started")
	})
}

// After a change the order is that of the new rows, as after a fresh start.
func TestApplyOrdersByRow(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		says := Plugin[string]{Name: "says", Start: func(_ context.Context, s *Scope, c string) error {
			must(tools.Add(s, s.node.name, c))
			_, err := ping.On(s, func(context.Context, string) error { d.add(s.node.name + c); return nil })
			return err
		}}.Definition()
		l := NewLoader(tr.Root())
		order := func(ids ...string) string {
			var rows []Row
			for _, id := range ids {
				name, config, _ := strings.Cut(id, "=")
				rows = append(rows, row(name, says, config))
			}
			apply(t, l, rows...)
			_ = ping.Emit(bg, tr.Root(), "")
			return d.take() + ": " + visible(tr.Root())
		}
		want(t, order("a", "c", "d"), "a c d: a= c= d=")
		want(t, order("a=2", "b", "c", "d"), "a2 b c d: a=2 b= c= d=")
		want(t, order("d", "c", "a=2", "e"), "d c a2 e: d= c= a=2 e=")
	})
}

type limits struct{ Max int }

func (l *limits) Validate() error {
	if l.Max < 0 {
		return errors.New("max must not be negative")
	}
	return nil
}

func TestDefinition(t *testing.T) {
	d := Plugin[limits]{
		Name: "p", Doc: "It limits.", Needs: []Need{keyA.Required(), keyB.Optional()},
		Default: func() limits { return limits{Max: 3} },
		Start:   func(context.Context, *Scope, limits) error { return nil },
	}.Definition()
	want(t, fmt.Sprint(d.Name(), " ", d.Doc(), " ", d.Needs()[0].Service(), d.Needs()[1].Service()), "p It limits. ab")
	c := d.NewConfig().(*limits)
	want(t, fmt.Sprint(c.Max), "3")
	c.Max = -1
	_, err := d.Bind(c)
	want(t, fmt.Sprint(err), "max must not be negative")
	_, err = d.Bind("text")
	want(t, fmt.Sprint(err), "plugin p: the config is a string, not a *plugin.limits")
	_, err = d.Bind((*limits)(nil))
	want(t, fmt.Sprint(err), "plugin p: the config is a *plugin.limits, not a *plugin.limits")
	defer func() { want(t, fmt.Sprint(recover()), `plugin "" lacks a name or a Start`) }()
	Plugin[int]{}.Definition()
}
