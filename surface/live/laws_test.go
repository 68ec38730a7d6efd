package live_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/dsh-harness/dsh"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/surface/live"
	"github.com/dsh-harness/dsh/surface/live/livetest"
)

// TestMain looks for leaked goroutines. The law runs whole sessions, so that it is checked fewer times than others; with DSH_TEST_FULL=1
// it is checked ten times as often.
func TestMain(m *testing.M) {
	dsh.Guard()
	checks := "10"
	if os.Getenv("DSH_TEST_FULL") == "1" {
		checks = "100"
	}
	if err := flag.Set("rapid.checks", checks); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// position is a client that may be away: next is the event that it has to be told when it is there.
type position struct {
	next  int64
	watch *live.Watch // nil while it is away
}

// take takes what the client is told until done; it reports whether the session has ended.
func (p *position) take(ctx context.Context, t *rapid.T, done func() bool) (ended bool) {
	for !done() {
		i, err := p.watch.Next(ctx)
		if errors.Is(err, live.ErrClosed) {
			return true
		}
		if err != nil {
			t.Fatalf("a watch at event %d: %v", p.next, err)
		}
		if i.Event == nil {
			continue
		}
		if i.Event.Seq != p.next {
			t.Fatalf("event %d came in the place of %d", i.Event.Seq, p.next)
		}
		p.next++
	}
	return false
}

// TestClientsThatComeAndGoAreToldTheLog: whoever is there when, however much of it everybody takes, and however often the session is
// parked in between, a client that comes back with its number is told each event once, in order.
func TestClientsThatComeAndGoAreToldTheLog(t *testing.T) {
	world := livetest.New(t, livetest.Options{Park: time.Millisecond})
	rapid.Check(t, func(t *rapid.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		s, err := world.Hub.Create(ctx, dsh.AgentOptions{Dir: world.Dir})
		if err != nil {
			t.Fatal(err)
		}
		id := s.ID()
		defer func() { s.Release() }()
		var clients []*position
		come := func(p *position) {
			if p.watch, err = s.Watch(ctx, live.WatchOptions{From: p.next, Deltas: true}); err != nil {
				t.Fatal(err)
			}
		}
		pick := func(t *rapid.T) *position {
			if len(clients) == 0 {
				t.Skip("there is no client")
			}
			return rapid.SampledFrom(clients).Draw(t, "client")
		}
		prompt := func(t *rapid.T) {
			text := fmt.Sprintf("[[mock text:%d]] go", rapid.IntRange(1, 30).Draw(t, "text"))
			if err := s.Deliver(ctx, live.NewMessageID(), []llm.Block{llm.Text(text)}, rapid.Bool().Draw(t, "steer")); err != nil {
				t.Fatal(err)
			}
		}
		prompt(t) // a session that has nothing is not kept
		t.Repeat(map[string]func(*rapid.T){
			"prompt": prompt,
			"come": func(t *rapid.T) {
				p := &position{next: rapid.Int64Range(-3, 5).Draw(t, "from")}
				come(p)
				p.next = p.watch.From()
				clients = append(clients, p)
			},
			"take some": func(t *rapid.T) {
				p := pick(t)
				if p.watch == nil {
					come(p)
				}
				until := min(p.next+rapid.Int64Range(0, 20).Draw(t, "events"), p.watch.Durable())
				p.take(ctx, t, func() bool { return p.next >= until })
			},
			"go away": func(t *rapid.T) { pick(t).watch = nil },
			"park": func(t *rapid.T) {
				if err := s.WhenIdle(ctx); err != nil {
					t.Fatal(err)
				}
				s.Release()
				for world.Hub.Stats().Live > 0 {
					if ctx.Err() != nil {
						t.Fatal("it is not parked")
					}
					time.Sleep(time.Millisecond)
				}
				for _, p := range clients {
					if p.watch != nil && !p.take(ctx, t, func() bool { return false }) {
						t.Fatal("the session has not ended")
					}
					p.watch = nil
				}
				if s, err = world.Hub.Open(ctx, id, dsh.AgentOptions{}); err != nil {
					t.Fatal(err)
				}
			},
		})
		if err := s.WhenIdle(ctx); err != nil {
			t.Fatal(err)
		}
		all := &position{}
		come(all)
		end := all.watch.Durable()
		for _, p := range append(clients, all) {
			if p.watch == nil {
				come(p)
			}
			p.take(ctx, t, func() bool { return p.next >= end })
		}
	})
}

// BenchmarkWatch is the cost of an event that all watchers are told. The session is kept nowhere, so that no disk is measured.
func BenchmarkWatch(b *testing.B) {
	for _, n := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("watchers=%d", n), func(b *testing.B) {
			world := livetest.New(b, livetest.Options{})
			s, err := world.Hub.Create(b.Context(), dsh.AgentOptions{Dir: world.Dir, Ephemeral: true})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Release()
			var all sync.WaitGroup
			for range n {
				w, err := s.Watch(b.Context(), live.WatchOptions{})
				if err != nil {
					b.Fatal(err)
				}
				all.Go(func() {
					for told := 0; told < b.N; {
						i, err := w.Next(b.Context())
						if err != nil {
							b.Error(err)
							return
						}
						if i.Event != nil && i.Event.Type == session.Meta {
							told++
						}
					}
				})
			}
			b.ReportAllocs()
			b.ResetTimer()
			title := "plum"
			for range b.N {
				if err := world.Hub.Update(b.Context(), s.ID(), session.MetaData{Title: &title}); err != nil {
					b.Fatal(err)
				}
			}
			all.Wait()
		})
	}
}
