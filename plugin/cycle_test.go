package plugin

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// node is a plugin that counts its lives, for cycles.
type counted struct {
	child  Child
	starts int
}

func counts(name string, provide func(*Scope) error, needs ...Need) *counted {
	c := &counted{child: Child{Name: name, Needs: needs}}
	c.child.Start = func(ctx context.Context, s *Scope) error {
		if c.starts++; c.starts > 20 {
			<-ctx.Done() // it is enough
			return nil
		}
		return provide(s)
	}
	return c
}

func TestACycleOfRestartsFails(t *testing.T) {
	keyC, keyD := NewKey[int]("c"), NewKey[int]("d")
	offers := func(k Key[int]) func(*Scope) error { return func(s *Scope) error { return k.Provide(s, 1) } }
	nothing := func(*Scope) error { return nil }
	for what, c := range map[string]struct {
		nodes []*counted
		want  string
	}{
		"what it tracks requires it": {
			[]*counted{counts("one", offers(keyB), keyC.Tracked()), counts("two", offers(keyC), keyB.Required())},
			`root/one: service "c" comes from root/two, which needs "b" of root/one: they would restart each other for ever; let one of them declare its need optional`,
		},
		"they track each other": {
			[]*counted{counts("one", offers(keyB), keyC.Tracked()), counts("two", offers(keyC), keyB.Tracked())},
			`root/one: service "c" comes from root/two, which needs "b" of root/one: they would restart each other for ever; let one of them declare its need optional`,
		},
		"through a third": {
			[]*counted{counts("one", offers(keyB), keyD.Tracked()), counts("two", offers(keyC), keyB.Required()), counts("three", offers(keyD), keyC.Required())},
			`root/one: service "d" comes from root/three, which needs "c" of root/two, which needs "b" of root/one: they would restart each other for ever; let one of them declare its need optional`,
		},
		"through a child": {
			[]*counted{counts("one", offers(keyB), keyC.Tracked()), counts("two", func(s *Scope) error {
				_, err := s.Mount("inner", nil, func(_ context.Context, s *Scope) error { return keyC.Provide(s, 1) })
				return err
			}, keyB.Required())},
			`root/one: service "c" comes from root/two/inner, which stands in root/two, which needs "b" of root/one: they would restart each other for ever; let one of them declare its need optional`,
		},
		"no cycle": {
			[]*counted{counts("one", offers(keyB), keyC.Tracked()), counts("two", offers(keyC)), counts("three", nothing, keyB.Required(), keyC.Tracked())},
			"<nil>",
		},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
				var children []Child
				for _, n := range c.nodes {
					children = append(children, n.child)
				}
				nodes := must(tr.Root().MountAll(children...))
				synctest.Wait()
				want(t, fmt.Sprint(tr.Settle(bg)), c.want)
				for i, n := range c.nodes {
					if n.starts > 5 {
						t.Errorf("%s started %d times", n.child.Name, n.starts)
					}
					if st, _ := nodes[i].State(); c.want == "<nil>" && st != Active {
						t.Errorf("%s is %v", n.child.Name, st)
					}
				}
				// When one of the others goes, the failed one starts again.
				if c.want != "<nil>" {
					_ = nodes[1].Close(bg)
					if err := tr.Settle(bg); err != nil {
						t.Error(err)
					}
					if st, _ := nodes[0].State(); st != Active {
						t.Errorf("one is %v after its cycle is broken", st)
					}
				}
			})
		})
	}
}

// Also when the nearest of two providers is the one that depends on the user.
func TestACycleThroughANearerProvider(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		settled(must(tr.Root().Mount("outer", nil, provides(keyA, "outer"))))
		user, shadow := counts("user", func(s *Scope) error { return keyB.Provide(s, 1) }, keyA.Required()),
			counts("shadow", func(s *Scope) error { return keyA.Provide(s, "inner") }, keyB.Required())
		must(tr.Root().MountRealm("agent", nil, nil, func(_ context.Context, s *Scope) error {
			_, err := s.MountAll(user.child, shadow.child)
			return err
		}))
		synctest.Wait()
		want(t, fmt.Sprint(tr.Settle(bg)), `root/agent/user: service "a" comes from root/agent/shadow, which needs "b" of root/agent/user: they would restart each other for ever; let one of them declare its need optional`)
	})
}

// When the provider goes at which it was, the user stops; the one that depends on it is
// no provider then, and no cycle.
func TestNoCycleWhenTheProviderGoes(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		outer := counts("outer", func(s *Scope) error { return keyA.Provide(s, "outer") }, keyB.Required())
		var user *Node
		var inner *Scope
		settled(must(tr.Root().MountRealm("agent", nil, nil, func(_ context.Context, s *Scope) error { inner = s; return nil })))
		first := settled(must(inner.Mount("first", nil, provides(keyA, "inner"))))
		user = settled(must(inner.Mount("user", []Need{keyA.Required()}, idle)))
		// The outer provider hangs on the user's service in the root realm.
		must(tr.Root().MountAll(outer.child))
		must(user.life.MountAll(Child{Name: "lift", In: tr.Root(), Start: provides(keyB, 1)}))
		_ = tr.Settle(bg)
		_ = first.Close(bg)
		_ = tr.Settle(bg)
		st, err := user.State()
		want(t, fmt.Sprint(st, err), "pending <nil>")
	})
}

func TestAProviderBelowItsUserIsNone(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		must(tr.Root().Mount("p", []Need{keyA.Tracked()}, func(ctx context.Context, s *Scope) error {
			d.add("start")
			_, err := s.Mount("inner", nil, provides(keyA, "x"))
			return err
		}))
		synctest.Wait()
		want(t, d.take(), "start")
	})
}

// A new config for one that is part of the cycle lets the failed one try again.
func TestAReloadBreaksACycle(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		one := Plugin[string]{Name: "one", Needs: []Need{keyA.Tracked()}, Start: func(_ context.Context, s *Scope, _ string) error { return keyB.Provide(s, 1) }}.Definition()
		two := Plugin[string]{Name: "two", Needs: []Need{keyB.Required()}, Start: func(_ context.Context, s *Scope, c string) error {
			if c == "quiet" {
				return nil
			}
			return keyA.Provide(s, c)
		}}.Definition()
		l := NewLoader(tr.Root())
		report, _ := l.Apply(bg, []Row{row("one", one, ""), row("two", two, "loud")})
		if report.Rows[0].Outcome != RowFailed || report.Rows[1].Outcome != RowPending {
			t.Error(report.outcomes())
		}
		time.Sleep(time.Second)
		want(t, apply(t, l, row("one", one, ""), row("two", two, "quiet")), "one started, two started")
	})
}
