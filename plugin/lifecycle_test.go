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

func TestNeedWaitsAndUndoingIsNewestFirst(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		user := must(tr.Root().Mount("user", []Need{keyA.Required()}, func(ctx context.Context, s *Scope) error {
			d.add("user+" + keyA.From(s))
			must(s.Defer("1", d.note("user-1")))
			must(s.Defer("2", d.note("user-2")))
			return nil
		}))
		synctest.Wait()
		if st, _ := user.State(); st != Pending {
			t.Fatalf("state %v", st)
		}
		prov := must(tr.Root().Mount("prov", nil, func(ctx context.Context, s *Scope) error {
			must(s.Defer("db", d.note("prov-db")))
			err := keyA.Provide(s, "x")
			must(s.Defer("late", d.note("prov-late")))
			time.Sleep(20 * time.Second) // the service stays hidden until Start returns
			d.add("prov+")
			return err
		}))
		if err := tr.Settle(bg); err != nil {
			t.Fatal(err)
		}
		want(t, d.take(), "prov+ user+x")
		if err := prov.Close(bg); err != nil {
			t.Fatal(err)
		}
		// The user is gone before the provider's older effects are undone.
		want(t, d.take(), "prov-late user-2 user-1 prov-db")
	})
}

// A plugin that needs services stays pending until all are there, says which are
// missing, starts when the last one comes and stops when one goes.
func TestS02_PendingNamesTheMissingServices(t *testing.T) {
	names := []string{"agents", "sessions", "llm", "tools", "systemPrompt"}
	var keys []Key[int]
	var needs []Need
	for _, name := range names {
		k := NewKey[int](name)
		keys, needs = append(keys, k), append(needs, k.Required())
	}
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		loop := must(tr.Root().Mount("loop", needs, func(_ context.Context, s *Scope) error {
			d.add("started")
			_, err := s.Defer("loop", d.note("stopped"))
			return err
		}))
		var providers []*Node
		for i, k := range keys {
			synctest.Wait()
			want(t, fmt.Sprint(tr.Waiting()), fmt.Sprint(map[string][]string{"root/loop": names[i:]}))
			want(t, strings.Join(tr.Dump().Children[0].Waits, " "), strings.Join(names[i:], " "))
			want(t, d.take(), "")
			providers = append(providers, settled(must(tr.Root().Mount("p", nil, provides(k, i)))))
		}
		_ = loop.Settle(bg)
		want(t, d.take(), "started")
		_ = providers[2].Close(bg)
		want(t, d.take(), "stopped")
		want(t, fmt.Sprint(tr.Waiting()), "map[root/loop:[llm]]")
	})
}

func TestReplacedProviderRestartsUsers(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		must(tr.Root().Mount("user", []Need{keyA.Required(), keyB.Tracked()}, func(ctx context.Context, s *Scope) error {
			_, ok := keyB.Current(s)
			d.add(fmt.Sprint(keyA.From(s), ok))
			return nil
		}))
		one := must(tr.Root().Mount("one", nil, provides(keyA, "1")))
		synctest.Wait()
		_ = one.Close(bg)
		must(tr.Root().Mount("two", nil, provides(keyA, "2")))
		synctest.Wait()
		must(tr.Root().Mount("b", nil, provides(keyB, 7)))
		synctest.Wait()
		want(t, d.take(), "1false 2false 2true")
	})
}

func TestStartIsCancelledWhenNeedGoes(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		prov := must(tr.Root().Mount("prov", nil, provides(keyA, "x")))
		user := must(tr.Root().Mount("user", []Need{keyA.Required()}, func(ctx context.Context, s *Scope) error {
			must(s.Defer("half", d.note("rolled-back")))
			<-ctx.Done()
			d.add(context.Cause(ctx).Error())
			return ctx.Err()
		}))
		synctest.Wait()
		_ = prov.Close(bg)
		synctest.Wait()
		want(t, d.take(), "a needed service was replaced or went away rolled-back")
		if st, err := user.State(); st != Pending || err != nil {
			t.Fatalf("%v %v: an interrupted start is not a failure", st, err)
		}
	})
}

// A start that returns nil although it was interrupted offers nothing for a moment.
func TestInterruptedStartIsNeverActive(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		n := must(tr.Root().Mount("prov", nil, func(ctx context.Context, s *Scope) error {
			<-ctx.Done()
			return keyA.Provide(s, "x")
		}))
		must(tr.Root().Mount("user", []Need{keyA.Required()}, func(context.Context, *Scope) error { d.add("started"); return nil }))
		synctest.Wait()
		_ = n.Close(bg)
		want(t, d.take(), "")
	})
}

func TestFailureRollsBackAndRetriesOnNewNeeds(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		bad := must(tr.Root().Mount("prov", nil, provides(keyA, "bad")))
		user := must(tr.Root().Mount("user", []Need{keyA.Required()}, func(ctx context.Context, s *Scope) error {
			must(s.Defer("x", d.note("undone")))
			must(s.Defer("panics", func(context.Context) error { panic("cleanup") }))
			if keyA.From(s) == "bad" {
				panic("boom")
			}
			return nil
		}))
		if err := tr.Settle(bg); err == nil || err.Error() != "root/user: panic: boom" {
			t.Fatalf("settle: %v", err)
		}
		want(t, d.take(), "undone") // the panicking cleanup did not starve the other
		_ = bad.Close(bg)
		must(tr.Root().Mount("prov", nil, provides(keyA, "good")))
		if err := tr.Settle(bg); err != nil {
			t.Fatal(err)
		}
		if st, _ := user.State(); st != Active {
			t.Fatal(st)
		}
	})
}

// Two that crash may bring each other back for ever. After a while they stay down.
func TestACrashLoopEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		starts := map[string]int{}
		crashes := func(name string, after time.Duration) Child {
			return Child{Name: name, Needs: []Need{keyA.Tracked()}, Start: func(_ context.Context, s *Scope) error {
				starts[name]++
				_ = keyA.Provide(s, name) // or the other does
				return s.Go("g", func(ctx context.Context) error {
					select {
					case <-time.After(after):
						return errors.New("crash")
					case <-ctx.Done():
						return nil
					}
				})
			}}
		}
		nodes := must(tr.Root().MountAll(crashes("one", 2*time.Second), crashes("two", 3*time.Second)))
		time.Sleep(time.Hour)
		want(t, fmt.Sprint(tr.Settle(bg)), "root/one: goroutine g: crash; after 5 failures it is tried again only when it is restarted or gets a new config; "+
			"root/two: goroutine g: crash") // nothing changes for it any more
		if starts["one"] > 10 || starts["two"] > 10 {
			t.Error(starts)
		}
		want(t, fmt.Sprint(nodes[0].Restart(bg)), "<nil>")
	})
}

// One that ran steadily before each failure is always tried again.
func TestFailuresAfterASteadyLifeDoNotCount(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		n := must(tr.Root().Mount("n", []Need{keyA.Required()}, func(_ context.Context, s *Scope) error {
			d.add("+")
			return s.Go("g", func(context.Context) error { time.Sleep(time.Minute); return errors.New("crash") })
		}))
		for range 8 {
			p := settled(must(tr.Root().Mount("p", nil, provides(keyA, "x"))))
			time.Sleep(2 * time.Minute)
			if st, _ := n.State(); st != Failed {
				t.Error(st)
			}
			_ = p.Close(bg)
		}
		want(t, d.take(), "+ + + + + + + +")
	})
}

// A life whose context was cancelled ends, even if the reason for that has gone.
func TestACancelledLifeEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		settled(must(tr.Root().Mount("prov", nil, provides(keyA, "x"))))
		n := settled(must(tr.Root().Mount("user", []Need{keyA.Required()}, func(context.Context, *Scope) error { d.add("+"); return nil })))
		tr.mu.Lock()
		p := tr.Root().node.realm.providers[keyA.id]
		p.withdrawn = true
		n.reconcileLocked()
		p.withdrawn = false // before the transition begins
		tr.mu.Unlock()
		_ = n.Settle(bg)
		want(t, d.take(), "+ +")
		if err := n.life.ctx.Err(); err != nil {
			t.Error(err)
		}
	})
}

func TestRestart(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		failing := true
		n := must(tr.Root().Mount("p", nil, func(_ context.Context, s *Scope) error {
			d.add("start")
			if failing {
				return errors.New("no")
			}
			_, err := s.Defer("", d.note("stop"))
			return err
		}))
		want(t, fmt.Sprint(n.Settle(bg), n.Restart(bg)), "no no") // a failed node tries again
		failing = false
		want(t, fmt.Sprint(n.Restart(bg), n.Restart(bg)), "<nil> <nil>")
		want(t, d.take(), "start start start stop start")

		lacks := must(tr.Root().Mount("lacks", []Need{keyA.Required()}, idle))
		_ = lacks.Restart(bg) // it has no life to end
		st, _ := lacks.State()
		want(t, st.String(), "pending")
		if err := tr.Root().Node().Restart(bg); err == nil {
			t.Error("the root restarted")
		}
	})
}

func TestClosingIsQuiescentForEveryCaller(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		n := settled(must(tr.Root().Mount("p", nil, func(_ context.Context, s *Scope) error {
			_, err := s.Defer("slow", func(context.Context) error { time.Sleep(5 * time.Second); d.add("undone"); return nil })
			return err
		})))
		closeIt := func(ctx context.Context) {
			if err := n.Close(ctx); err != nil {
				d.add(err.Error())
				return
			}
			d.add("closed")
		}
		go closeIt(bg)
		time.Sleep(time.Second)
		go closeIt(bg)
		impatient, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		closeIt(impatient)
		want(t, d.take(), "waiting for root/p: context deadline exceeded")
		closeIt(bg)
		synctest.Wait()
		want(t, d.take(), "undone closed closed closed")
		closeIt(bg)
		want(t, d.take(), "closed")
	})
}

func TestClosedTreeRefusesRegistrations(t *testing.T) {
	tr := New(nil)
	if err := tr.Close(bg); err != nil {
		t.Fatal(err)
	}
	s := tr.Root()
	_, deferring := s.Defer("x", func(context.Context) error { return nil })
	_, mounting := s.Mount("x", nil, idle)
	_, listening := ping.On(s, func(context.Context, string) error { return nil })
	_, adding := tools.Add(s, "x", "")
	_, watching := tools.Watch(s)
	_, acquiring := Acquire(s, "x", func(context.Context) (int, func(context.Context) error, error) {
		t.Error("set up")
		return 0, nil, nil
	})
	for what, err := range map[string]error{
		"defer": deferring, "mount": mounting, "on": listening, "add": adding, "watch": watching, "acquire": acquiring,
		"provide": keyA.Provide(s, "x"), "go": s.Go("x", func(context.Context) error { t.Error("ran"); return nil }),
		"reconfigure": OnReconfigure(s, func(context.Context, int) error { return nil }),
	} {
		if !errors.Is(err, ErrScopeClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	want(t, tr.Dump().String(), "root closed\n")
}

func TestRegistrationsEndWithTheirLife(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		var lives []*Scope
		n := settled(must(tr.Root().Mount("p", nil, func(ctx context.Context, s *Scope) error { lives = append(lives, s); return nil })))
		_ = n.Restart(bg)
		old, cur := lives[0], lives[1]
		if _, err := old.Defer("x", nil); !errors.Is(err, ErrScopeClosed) {
			t.Errorf("the old life accepted an effect: %v", err)
		}
		if _, err := cur.Defer("x", nil); err != nil {
			t.Error(err)
		}
	})
}

func TestRealms(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		must(tr.Root().Mount("a", nil, provides(keyA, "outer")))
		must(ping.On(tr.Root(), func(_ context.Context, p string) error { d.add("root:" + p); return nil }))
		agent := func(name string, provide bool, isolated ...Need) {
			must(tr.Root().MountRealm(name, isolated, nil, func(ctx context.Context, s *Scope) error {
				if provide {
					must(s.Mount("own", nil, provides(keyA, name)))
				}
				must(ping.On(s, func(_ context.Context, p string) error { d.add(name + ":" + p); return nil }))
				must(s.Mount("user", []Need{keyA.Required()}, func(ctx context.Context, s *Scope) error {
					return ping.Emit(ctx, s, keyA.From(s))
				}))
				return nil
			}))
			synctest.Wait()
		}
		agent("one", false)
		want(t, d.take(), "root:outer one:outer")
		agent("two", true, keyA.Required())
		want(t, d.take(), "root:two two:two")
		agent("three", false, keyA.Required())
		want(t, fmt.Sprint(tr.Waiting()), "map[root/three/user:[a]]")
	})
}

func TestOneProviderInARealm(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		settled(must(tr.Root().Mount("one", nil, provides(keyA, "1"))))
		two := must(tr.Root().Mount("two", nil, provides(keyA, "2")))
		want(t, fmt.Sprint(two.Settle(bg)), `root/two cannot provide service "a": root/one does already`)
		none := must(tr.Root().Mount("none", nil, provides(NewKey[error]("e"), nil)))
		want(t, fmt.Sprint(none.Settle(bg)), `root/none provides nil as service "e"`)
	})
}

func TestUndeclaredLookupPanics(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		n := must(tr.Root().Mount("p", nil, func(_ context.Context, s *Scope) error { keyA.Current(s); return nil }))
		want(t, fmt.Sprint(n.Settle(bg)), `panic: root/p uses service "a" without declaring it`)
		n = must(tr.Root().Mount("p", []Need{keyA.Optional()}, func(_ context.Context, s *Scope) error { keyA.From(s); return nil }))
		want(t, fmt.Sprint(n.Settle(bg)), `panic: root/p uses service "a", which need not be there; ask with Current`)
	})
}

func TestOptionalServiceRestartsNobody(t *testing.T) {
	inBubble(t, func(t *testing.T, tr *Tree, d *diary) {
		says := func(s *Scope) {
			must(ping.On(s, func(context.Context, string) error { d.add(fmt.Sprint(keyB.Current(s))); return nil }))
		}
		settled(must(tr.Root().Mount("user", []Need{keyB.Optional()}, func(_ context.Context, s *Scope) error {
			d.add("start")
			says(s)
			must(s.Mount("child", nil, func(_ context.Context, s *Scope) error { says(s); return nil })) // may use what its parent declared
			return nil
		})))
		synctest.Wait()
		_ = ping.Emit(bg, tr.Root(), "")
		n := settled(must(tr.Root().Mount("prov", nil, provides(keyB, 1))))
		_ = ping.Emit(bg, tr.Root(), "")
		_ = n.Close(bg)
		settled(must(tr.Root().Mount("prov", nil, provides(keyB, 2))))
		_ = ping.Emit(bg, tr.Root(), "")
		want(t, d.take(), "start 0 false 0 false 1 true 1 true 2 true 2 true")
	})
}
