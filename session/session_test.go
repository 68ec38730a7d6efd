package session_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/session/sessiontest"
)

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestS17_PrepareEnterAnnounce(t *testing.T) {
	e := sessiontest.Run(t, sessiontest.NewMemory())
	var told []string
	_, err := session.Created.On(e.Scope, func(_ context.Context, s *session.Session) error {
		told = append(told, "created "+s.ID())
		return nil
	})
	noError(t, err)
	_, err = session.Gone.On(e.Scope, func(_ context.Context, s *session.Session) error {
		told = append(told, "gone "+s.ID())
		return nil
	})
	noError(t, err)

	first, err := e.Store.Prepare(t.Context(), session.PrepareOptions{ID: "s"})
	noError(t, err)
	stale, err := e.Store.Prepare(t.Context(), session.PrepareOptions{ID: "S"})
	noError(t, err)
	if _, ok := e.Store.Get("s"); ok || len(e.Store.List()) != 0 {
		t.Error("a prepared session is visible")
	}
	if err := e.Store.Announce(t.Context(), first); err == nil {
		t.Error("a session that was not entered was announced")
	}
	detach, err := e.Store.Enter(first)
	noError(t, err)
	if _, err := e.Store.Enter(stale); !errors.Is(err, session.ErrExists) {
		t.Errorf("entering a second session of one id gives %v", err)
	}
	if _, err := e.Store.Prepare(t.Context(), session.PrepareOptions{ID: "s"}); !errors.Is(err, session.ErrExists) {
		t.Errorf("preparing a live id gives %v", err)
	}
	noError(t, e.Store.Announce(t.Context(), first))
	if err := e.Store.Announce(t.Context(), first); err == nil {
		t.Error("a session was announced twice")
	}
	if live, ok := e.Store.Get("s"); !ok || live != first {
		t.Error("the entered session is not live")
	}

	noError(t, detach(t.Context()))
	next := e.New(session.PrepareOptions{ID: "s"}) // nothing was stored under the id
	noError(t, detach(t.Context()))                // late, and again
	noError(t, stale.Close(t.Context()))
	if live, ok := e.Store.Get("s"); !ok || live != next {
		t.Error("a stale detach removed the live session")
	}
	if got := e.Store.List(); !slices.Equal(got, []*session.Session{next}) {
		t.Errorf("the live sessions are %v", got)
	}
	if want := []string{"created s", "gone s", "created s"}; !slices.Equal(told, want) {
		t.Errorf("listeners heard %q, want %q", told, want)
	}
	if _, err := e.Store.Enter(first); err == nil {
		t.Error("a closed session was entered")
	}
}

func TestS17_AStalePreparedSessionDoesNotShadowAStoredOne(t *testing.T) {
	e := sessiontest.Run(t, sessiontest.NewMemory())
	stale, err := e.Store.Prepare(t.Context(), session.PrepareOptions{ID: "s"})
	noError(t, err)
	s := e.New(session.PrepareOptions{ID: "s"})
	openTurn(t, s, 1)
	noError(t, s.Close(t.Context()))
	if _, err := e.Store.Enter(stale); !errors.Is(err, session.ErrExists) {
		t.Errorf("entering it gives %v", err)
	}
}

func TestS08_EveryCloserReturnsAfterTheTeardown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := sessiontest.NewMemory()
		slow := &slowBackend{Persistence: memory, delay: time.Second}
		e := sessiontest.Run(t, slow)
		s := e.New(session.PrepareOptions{ID: "s"})
		openTurn(t, s, 1)
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if err := s.Close(t.Context()); err != nil {
					t.Error(err)
				}
				if _, ok := e.Store.Get("s"); ok {
					t.Error("a closer returned while the session was live")
				}
				if l, _, err := memory.Open(t.Context(), "s", nil); err != nil {
					t.Errorf("a closer returned while the log was held: %v", err)
				} else if err := l.Close(); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second) // fake time: the others look at another moment
			})
			time.Sleep(100 * time.Millisecond)
		}
		wg.Wait()
		if s.Durable() != 2 {
			t.Errorf("closing left the events from %d on unsaved", s.Durable())
		}
	})
}

// slowBackend takes its time with each append, and counts them.
type slowBackend struct {
	session.Persistence
	delay   time.Duration
	appends atomic.Int32
	fail    atomic.Pointer[error]
}

func (b *slowBackend) Create(ctx context.Context, h session.Header, seed iter.Seq2[session.Event, error]) (session.Log, error) {
	l, err := b.Persistence.Create(ctx, h, seed)
	return &slowLog{l, b}, err
}

func (b *slowBackend) Open(ctx context.Context, id string, v session.Visitor) (session.Log, session.Opening, error) {
	l, o, err := b.Persistence.Open(ctx, id, v)
	if err != nil {
		return nil, o, err
	}
	return &slowLog{l, b}, o, nil
}

type slowLog struct {
	session.Log
	b *slowBackend
}

func (l *slowLog) Append(ctx context.Context, events []session.Event) error {
	l.b.appends.Add(1)
	if l.b.delay > 0 {
		time.Sleep(l.b.delay) // in fake time
	}
	if fail := l.b.fail.Load(); fail != nil && *fail != nil {
		return *fail
	}
	return l.Log.Append(ctx, events)
}

func (b *slowBackend) failWith(err error) { b.fail.Store(&err) }

func queue(id string) session.Draft {
	return session.Draft{Type: session.InboxQueued, Data: session.InboxData{ID: id, Message: llm.UserText(id)}}
}

func TestS06_RestoreWithoutPersistenceSaysSo(t *testing.T) {
	e := sessiontest.Run(t, nil)
	_, err := e.Store.Restore(t.Context(), "s", session.RestoreOptions{})
	if !errors.Is(err, session.ErrNoPersistence) || !strings.Contains(err.Error(), "session-jsonl") {
		t.Errorf("the error is %v", err)
	}
	s := e.New(session.PrepareOptions{}) // nothing else needs one
	openTurn(t, s, 1)
	noError(t, s.Flush(t.Context()))
	if s.Dir() != "" {
		t.Errorf("a session that is not kept has the folder %s", s.Dir())
	}
	if _, err := e.Store.Fork(t.Context(), session.ForkOptions{ID: s.ID()}); !errors.Is(err, session.ErrNoPersistence) {
		t.Errorf("forking gives %v", err)
	}
}

func TestS06_RestoreGoesOnWithTheSameSession(t *testing.T) {
	e := files(t)
	s := e.New(session.PrepareOptions{ID: "s"})
	fill(t, s, 2)
	history := s.History().Messages()
	noError(t, s.Close(t.Context()))
	s = e.Resume("s", session.RestoreOptions{})
	if s.ID() != "s" || s.State().Turn != 1 {
		t.Errorf("the session goes on as %s after turn %d", s.ID(), s.State().Turn)
	}
	if d := cmp.Diff(history, s.History().Messages()); d != "" {
		t.Errorf("the history differs (-before +after):\n%s", d)
	}
	openTurn(t, s, 2)
	if _, err := e.Store.Restore(t.Context(), "s", session.RestoreOptions{}); !errors.Is(err, session.ErrExists) {
		t.Errorf("restoring a live session gives %v", err)
	}
}

func TestANewSessionIsNamedAndPlaced(t *testing.T) {
	e := sessiontest.Run(t, nil)
	real := filepath.Join(t.TempDir(), "real")
	noError(t, os.Mkdir(real, 0o700))
	real, err := filepath.EvalSymlinks(real)
	noError(t, err)
	link := filepath.Join(filepath.Dir(real), "link")
	noError(t, os.Symlink(real, link))
	s := e.New(session.PrepareOptions{Cwd: link, Parent: "p", Origin: session.OriginSubagent, Depth: 2})
	h := s.Header()
	if len(s.ID()) != 36 || h.Cwd != real || h.Parent != "p" || h.Origin != session.OriginSubagent || h.Depth != 2 || h.Version != session.Version {
		t.Errorf("the header is %+v, want the folder %s", h, real)
	}
	if _, err := e.Store.Prepare(t.Context(), session.PrepareOptions{ID: "no/slash"}); err == nil {
		t.Error("an id with a slash was taken")
	}
	if _, err := e.Store.Prepare(t.Context(), session.PrepareOptions{Cwd: filepath.Join(real, "none")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder that is not there gives %v", err)
	}
}

func TestAppendTakesAllOrNothing(t *testing.T) {
	e := sessiontest.Run(t, nil)
	s := e.New(session.PrepareOptions{})
	openTurn(t, s, 1)
	state, history := s.State(), s.History().Messages()
	for name, last := range map[string]session.Draft{
		"out of order": {Type: session.TurnStart, Data: session.TurnStartData{Turn: 9}},
		"no object":    {Type: session.InboxCleared, Data: []string{"x"}},
		"not JSON":     {Type: session.InboxCleared, Data: map[string]any{"f": func() {}}},
		"unknown":      {Type: "nobody/knows"},
	} {
		_, err := s.Append(
			session.Draft{Type: session.UserMessage, Data: session.InputData{ID: "x"}},
			session.Draft{Type: session.StepStart, Data: session.StepData{Turn: 1, Step: 1}},
			session.Draft{Type: session.AssistantMessage, Data: session.AssistantData{Turn: 1, Step: 1, Message: session.AssistantContent{Content: []llm.Block{{Type: llm.BlockToolCall, CallID: "c"}}}}},
			session.Draft{Type: session.ToolCall, Data: session.ToolCallData{Turn: 1, Step: 1, CallID: "c"}},
			queue("q"), last)
		if err == nil || !strings.Contains(err.Error(), last.Type) || !strings.Contains(err.Error(), s.ID()) {
			t.Errorf("%s: the error is %v, want one that names the type and the session", name, err)
		}
	}
	if s.Next() != 2 || !cmp.Equal(s.State(), state) || !cmp.Equal(s.History().Messages(), history) {
		t.Errorf("refused drafts left %d events and the state %+v", s.Next(), s.State())
	}
	events, err := s.Append(queue("a"), queue("b"))
	noError(t, err)
	if events[0].Seq != 2 || events[1].Seq != 3 {
		t.Errorf("the next events are %d and %d", events[0].Seq, events[1].Seq)
	}
	if none, err := s.Append(); none != nil || err != nil {
		t.Errorf("appending nothing gives %v, %v", none, err)
	}
}

func TestARefusedBatchLeavesCallsAsTheyWere(t *testing.T) {
	s := sessiontest.Run(t, nil).New(session.PrepareOptions{})
	openTurn(t, s, 1)
	batches := readStep(1, 1)
	mustAppend(t, s, batches[0]...)
	mustAppend(t, s, batches[1][0])
	call := batches[1][1]
	if _, err := s.Append(call, call); err == nil {
		t.Error("a call started twice")
	}
	mustAppend(t, s, call)
	if _, err := s.Append(append(batches[2], batches[0]...)...); err == nil {
		t.Error("a step began twice")
	}
	mustAppend(t, s, batches[2]...)
}

func TestWhatWasAppendedIsTheLogsOwn(t *testing.T) {
	e := sessiontest.Run(t, nil)
	s := e.New(session.PrepareOptions{})
	content := []llm.Block{llm.Text("before\xff"), {Type: llm.BlockOpaque, Opaque: []byte(`{ "a" : "<" }`)}}
	mustAppend(t, s, session.Draft{Type: session.UserMessage, Data: session.InputData{ID: "u", Content: content}})
	content[0].Text = "after"
	got := s.History().At(0).Content
	// The history is what the log says, so a restored session has the very same.
	if got[0].Text != "before\ufffd" || string(got[1].Opaque) != `{"a":"<"}` {
		t.Errorf("the history has %q, %s", got[0].Text, got[1].Opaque)
	}
}

func TestAnEventTooLargeForALineIsRefused(t *testing.T) {
	e := sessiontest.Run(t, nil)
	s := e.New(session.PrepareOptions{})
	text := func(n int) session.Draft {
		return session.Draft{Type: session.UserMessage, Data: session.InputData{ID: "u", Content: []llm.Block{llm.Text(strings.Repeat("x", n))}}}
	}
	_, err := s.Append(text(session.MaxLine))
	var large *session.TooLargeError
	if !errors.As(err, &large) || large.Type != session.UserMessage || large.Size < session.MaxLine {
		t.Errorf("the error is %v", err)
	}
	mustAppend(t, s, text(session.MaxLine-1000))
}

func TestTypesOfPluginsAreDeclaredAndIgnorable(t *testing.T) {
	e := sessiontest.Run(t, nil)
	_, err := session.Types.Add(e.Scope, "note/shown", session.EventType{Doc: "a note", Surface: true})
	noError(t, err)
	s := e.New(session.PrepareOptions{})
	events, err := s.Append(session.Draft{Type: "note/shown", Data: map[string]any{"message": llm.UserText("note")}, Surface: &session.SurfaceOp{Op: session.OpAppend}})
	noError(t, err)
	if !events[0].Ignorable || s.History().Len() != 1 {
		t.Errorf("the event is %+v and the history has %d messages", events[0], s.History().Len())
	}
}

// TestS15_ListenersHearEachEventInOrder also shows that they do not hold up who appends.
func TestS15_ListenersHearEachEventInOrder(t *testing.T) {
	for _, kept := range []bool{true, false} {
		t.Run(fmt.Sprintf("kept %v", kept), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := sessiontest.Run(t, sessiontest.NewMemory())
				var heard []int64
				_, err := session.Committed.On(e.Scope, func(_ context.Context, n session.EventNotice) error {
					heard = append(heard, n.Event.Seq)
					time.Sleep(time.Second) // fake time
					if n.Event.Seq == 3 {
						_, err := n.Session.Append(queue("from a listener"))
						return errors.Join(err, errors.New("and it fails"))
					}
					if n.Event.Seq == 4 {
						panic("and it panics")
					}
					return nil
				})
				noError(t, err)
				s, err := e.Store.Prepare(t.Context(), session.PrepareOptions{NoPersist: !kept})
				noError(t, err)
				mustAppend(t, s, queue("before it is announced"))
				synctest.Wait()
				if heard != nil {
					t.Error("events were told before the session was announced")
				}
				e.Go(s)
				began := time.Now()
				for i := range 199 {
					mustAppend(t, s, queue(fmt.Sprint("d", i)))
					noError(t, s.Flush(t.Context()))
				}
				if took := time.Since(began); took != 0 {
					t.Errorf("a slow listener held the appender up for %v", took)
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				if len(heard) != 201 || !slices.IsSorted(heard) || heard[0] != 0 {
					t.Errorf("the listener heard %d events: %v", len(heard), heard)
				}
			})
		})
	}
}

func TestAListenerOfASlowSessionReadsFromDisk(t *testing.T) {
	e := files(t)
	release := make(chan struct{})
	var heard []string
	done := make(chan struct{})
	_, err := session.Committed.On(e.Scope, func(_ context.Context, n session.EventNotice) error {
		<-release
		heard = append(heard, string(n.Event.Line()))
		if n.Event.Type == session.TurnEnd {
			close(done)
		}
		return nil
	})
	noError(t, err)
	s := e.New(session.PrepareOptions{})
	openTurn(t, s, 1)
	big := strings.Repeat("x", 256<<10)
	for i := range 12 {
		mustAppend(t, s, session.Draft{Type: session.UserMessage, Data: session.InputData{ID: fmt.Sprint(i), Content: []llm.Block{llm.Text(big)}}})
		noError(t, s.Flush(t.Context()))
	}
	closeTurn(t, s, 1)
	noError(t, s.Flush(t.Context()))
	if n := session.InMemory(s); n > 6 {
		t.Errorf("%d events are in memory although they are on disk", n)
	}
	close(release)
	<-done
	if d := cmp.Diff(sessiontest.Lines(t, s.Events(t.Context(), 0)), heard); d != "" {
		t.Error("what the listener heard is not the log")
	}
}

func TestAListenerMayCloseItsSession(t *testing.T) {
	e := sessiontest.Run(t, sessiontest.NewMemory())
	gone := make(chan struct{})
	_, err := session.Gone.On(e.Scope, func(context.Context, *session.Session) error {
		close(gone)
		return nil
	})
	noError(t, err)
	_, err = session.Committed.On(e.Scope, func(ctx context.Context, n session.EventNotice) error {
		return n.Session.Close(ctx)
	})
	noError(t, err)
	s := e.New(session.PrepareOptions{})
	openTurn(t, s, 1)
	select {
	case <-gone:
	case <-time.After(5 * time.Second):
		t.Fatal("the session and its listener wait for each other")
	}
	if _, err := s.Append(queue("x")); !errors.Is(err, session.ErrClosed) {
		t.Errorf("appending to a closed session gives %v", err)
	}
}

func TestClosingLetsListenersHearEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := sessiontest.Run(t, sessiontest.NewMemory())
		var heard int
		_, err := session.Committed.On(e.Scope, func(context.Context, session.EventNotice) error {
			time.Sleep(10 * time.Millisecond) // fake time
			heard++
			return nil
		})
		noError(t, err)
		_, err = session.Gone.On(e.Scope, func(context.Context, *session.Session) error {
			if heard != 100 {
				t.Errorf("the end was told after %d of 100 events", heard)
			}
			return nil
		})
		noError(t, err)
		s := e.New(session.PrepareOptions{})
		for i := range 100 {
			mustAppend(t, s, queue(fmt.Sprint(i)))
		}
		noError(t, s.Close(t.Context()))
		if heard != 100 {
			t.Errorf("closing returned after %d of 100 events", heard)
		}
	})
}

func TestEventsAreSavedWithoutAFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := sessiontest.NewMemory()
		backend := &slowBackend{Persistence: memory}
		e := sessiontest.Run(t, backend)
		s := e.New(session.PrepareOptions{})
		openTurn(t, s, 1)
		if s.Durable() != 0 || backend.appends.Load() != 0 {
			t.Error("an append did I/O")
		}
		time.Sleep(session.SaveDelay)
		synctest.Wait()
		if s.Durable() != 2 {
			t.Errorf("after %v the events from %d on are not saved", session.SaveDelay, s.Durable())
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if session.Busy(s) {
			t.Error("an idle session holds a goroutine")
		}
		mustAppend(t, s, queue("later"))
		time.Sleep(session.SaveDelay)
		synctest.Wait()
		if s.Durable() != 3 {
			t.Error("after a pause events are not saved any more")
		}
	})
}

func TestFlushesShareAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := &slowBackend{Persistence: sessiontest.NewMemory(), delay: 10 * time.Millisecond}
		e := sessiontest.Run(t, backend)
		s := e.New(session.PrepareOptions{})
		mustAppend(t, s, queue("first"))
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				if i > 0 {
					mustAppend(t, s, queue(fmt.Sprint(i)))
				}
				if err := s.Flush(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := backend.appends.Load(); n > 3 {
			t.Errorf("50 concurrent flushes made %d writes", n)
		}
		before := backend.appends.Load()
		noError(t, s.Flush(t.Context()))
		if backend.appends.Load() != before {
			t.Error("a flush with nothing new wrote")
		}
	})
}

func TestAFlushDoesNotWaitForOthersLongerThanItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := &slowBackend{Persistence: sessiontest.NewMemory(), delay: 3 * time.Second}
		e := sessiontest.Run(t, backend)
		s := e.New(session.PrepareOptions{})
		mustAppend(t, s, queue("first"))
		done := make(chan error)
		go func() { done <- s.Flush(context.Background()) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := s.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("after %v the flush gives %v", time.Since(began), err)
		}
		noError(t, <-done)
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		mustAppend(t, s, queue("second"))
		if err := s.Flush(cancelled); !errors.Is(err, context.Canceled) {
			t.Errorf("a flush with a cancelled context gives %v", err)
		}
	})
}

func TestASaveThatFailsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backend := &slowBackend{Persistence: sessiontest.NewMemory()}
		e := sessiontest.Run(t, backend)
		s := e.New(session.PrepareOptions{})
		full := errors.New("no space left on device")
		backend.failWith(full)
		openTurn(t, s, 1)
		var storage *session.StorageError
		if err := s.Flush(t.Context()); !errors.As(err, &storage) || !errors.Is(err, full) || storage.ID != s.ID() {
			t.Errorf("the error is %v", err)
		}
		time.Sleep(time.Second) // the automatic save fails as well, and gives up until the next event
		if s.Durable() != 0 {
			t.Error("what was not written counts as durable")
		}
		backend.failWith(nil)
		noError(t, s.Flush(t.Context()))
		if s.Durable() != 2 {
			t.Errorf("after the disk has space again the events from %d on are not saved", s.Durable())
		}
	})
}

func TestTrust_L02_APoisonedLogAcknowledgesNothing(t *testing.T) {
	backend := &slowBackend{Persistence: sessiontest.NewMemory()}
	e := sessiontest.Run(t, backend)
	s, err := e.Store.Prepare(t.Context(), session.PrepareOptions{ID: "s"})
	noError(t, err)
	backend.failWith(&session.PoisonedError{Path: "/log", Err: errors.New("input/output error")})
	openTurn(t, s, 1)
	var poisoned *session.PoisonedError
	first := s.Flush(t.Context())
	if !errors.As(first, &poisoned) {
		t.Fatalf("the error is %v", first)
	}
	backend.failWith(nil)
	writes := backend.appends.Load()
	mustAppend(t, s, queue("later"))
	if err := s.Flush(t.Context()); !errors.As(err, &poisoned) || s.Durable() != 0 || backend.appends.Load() != writes {
		t.Errorf("after that a flush gives %v, %d events are durable, and there were %d more writes", err, s.Durable(), backend.appends.Load()-writes)
	}
	if err := s.Close(t.Context()); !errors.As(err, &poisoned) {
		t.Errorf("closing gives %v", err)
	}
}

func TestFlushRunsTheOtherListenersOfTheBarrier(t *testing.T) {
	e := sessiontest.Run(t, nil)
	broken := errors.New("the mirror is gone")
	var ran int
	for _, err := range []error{nil, broken} {
		_, failed := session.Flushing.On(e.Scope, func(_ context.Context, s *session.Session) error {
			if s.Next() != 2 {
				t.Errorf("the listener sees %d events", s.Next())
			}
			if err == nil {
				ran++
			}
			return err
		})
		noError(t, failed)
	}
	s := e.New(session.PrepareOptions{})
	openTurn(t, s, 1)
	if err := s.Flush(t.Context()); !errors.Is(err, broken) || ran != 1 {
		t.Errorf("the flush gives %v after %d other listeners", err, ran)
	}
}

func TestBoundSessionsAreHeardInTheirRealm(t *testing.T) {
	e := sessiontest.Run(t, nil)
	heard := make(chan string, 10)
	var agent *plugin.Scope
	n, err := e.Scope.MountRealm("agent", nil, nil, func(_ context.Context, s *plugin.Scope) error {
		agent = s
		_, err := session.Committed.On(s, func(_ context.Context, n session.EventNotice) error {
			heard <- n.Session.ID()
			return nil
		})
		return err
	})
	noError(t, err)
	noError(t, n.Settle(t.Context()))
	other := e.New(session.PrepareOptions{ID: "other"})
	openTurn(t, other, 1)
	s, err := e.Store.Prepare(t.Context(), session.PrepareOptions{ID: "mine"})
	noError(t, err)
	s.Bind(agent)
	if s.Scope() != agent {
		t.Error("the session is not bound")
	}
	e.Go(s)
	openTurn(t, s, 1)
	noError(t, other.Close(t.Context()))
	noError(t, s.Close(t.Context()))
	close(heard)
	n1 := 0
	for id := range heard {
		if n1++; id != "mine" {
			t.Errorf("the agent's listener heard session %s", id)
		}
	}
	if n1 != 2 {
		t.Errorf("the agent's listener heard %d events, want 2", n1)
	}
}

func TestFollowersSeeOnlyWhatIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := sessiontest.Run(t, &slowBackend{Persistence: sessiontest.NewMemory(), delay: time.Millisecond})
		s := e.New(session.PrepareOptions{ID: "s"})
		var seen atomic.Int64
		done := make(chan error, 1)
		go func() {
			for ev, err := range s.Follow(t.Context(), 0) {
				switch {
				case err != nil:
					done <- err
					return
				case ev.Seq >= s.Durable():
					done <- fmt.Errorf("event %d was seen before it was durable", ev.Seq)
					return
				case ev.Seq != seen.Load():
					done <- fmt.Errorf("event %d was seen where %d comes next", ev.Seq, seen.Load())
					return
				}
				seen.Add(1)
			}
			done <- nil
		}()
		for i := range 30 {
			mustAppend(t, s, queue(fmt.Sprint(i)))
			synctest.Wait()
			if i%3 == 0 {
				noError(t, s.Flush(t.Context()))
				synctest.Wait()
				if seen.Load() != s.Next() {
					t.Errorf("after a flush %d of %d events were seen", seen.Load(), s.Next())
				}
			}
		}
		noError(t, s.Close(t.Context()))
		noError(t, <-done)
		if seen.Load() != 30 {
			t.Errorf("the follower saw %d of 30 events", seen.Load())
		}
	})
}

func TestAFollowerEndsWithItsContext(t *testing.T) {
	e := sessiontest.Run(t, nil)
	s := e.New(session.PrepareOptions{})
	openTurn(t, s, 1)
	stop := errors.New("the client has gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var n int
	var last error
	for _, err := range s.Follow(ctx, 1) {
		if last = err; err == nil {
			n++
			cancel(stop)
		}
	}
	if n != 1 || !errors.Is(last, stop) {
		t.Errorf("the follower saw %d events and ended with %v", n, last)
	}
	for range s.Follow(t.Context(), 0) {
		break
	}
}

func TestEventsComeFromMemoryAndDiskAlike(t *testing.T) {
	e := files(t)
	s := e.New(session.PrepareOptions{})
	fill(t, s, 300)
	noError(t, s.Flush(t.Context()))
	fillMore := s.Next()
	openTurn(t, s, 2)
	if n := session.InMemory(s); n > 500 {
		t.Errorf("%d of %d events are in memory", n, s.Next())
	}
	var all []string
	for ev, err := range s.Events(t.Context(), 0) {
		noError(t, err)
		if ev.Seq != int64(len(all)) {
			t.Fatalf("event %d comes where %d is next", ev.Seq, len(all))
		}
		all = append(all, string(ev.Line()))
	}
	if int64(len(all)) != s.Next() {
		t.Errorf("there are %d events, want %d", len(all), s.Next())
	}
	for _, from := range []int64{-1, 1, 700, 1400, fillMore, s.Next(), s.Next() + 3} {
		want := all[min(max(from, 0), s.Next()):]
		if got := sessiontest.Lines(t, s.Events(t.Context(), from)); !slices.Equal(got, want) {
			t.Errorf("from event %d there are %d events, want %d", from, len(got), len(want))
		}
	}
}

// TestLaw_SeqIsContiguousUnderAnyInterleaving is the second law of the session log.
func TestLaw_SeqIsContiguousUnderAnyInterleaving(t *testing.T) {
	e := files(t)
	s := e.New(session.PrepareOptions{})
	var wg sync.WaitGroup
	for w := range 6 {
		wg.Go(func() {
			for i := range 50 {
				if _, err := s.Append(queue(fmt.Sprintf("%d_%d", w, i)), queue(fmt.Sprintf("%d_%d_b", w, i))); err != nil {
					t.Error(err)
				}
				if i%10 == 0 {
					if err := s.Flush(t.Context()); err != nil {
						t.Error(err)
					}
				}
				_ = s.State().Pending
				_ = s.History().Len()
			}
		})
	}
	wg.Wait()
	var next int64
	for ev, err := range s.Events(t.Context(), 0) {
		noError(t, err)
		if ev.Seq != next {
			t.Fatalf("event %d comes where %d is next", ev.Seq, next)
		}
		next++
	}
	if next != 600 || len(s.State().Pending) != 600 {
		t.Errorf("there are %d events and %d deliveries", next, len(s.State().Pending))
	}
}

func TestTrust_L12_OrderIsBySeqWhateverTheClockSays(t *testing.T) {
	e := files(t)
	s := e.New(session.PrepareOptions{ID: "s"})
	now := time.UnixMilli(1_764_540_000_000)
	session.SetClock(s, func() time.Time { return now })
	for i, jump := range []time.Duration{0, -24 * time.Hour, 366 * 24 * time.Hour, 0, -366 * 24 * time.Hour} {
		now = now.Add(jump)
		mustAppend(t, s, queue(fmt.Sprint(i)))
		noError(t, s.Flush(t.Context()))
	}
	noError(t, s.Close(t.Context()))
	s = e.Resume("s", session.RestoreOptions{})
	var order []string
	for _, p := range s.State().Pending {
		order = append(order, p.ID)
	}
	if !slices.Equal(order, []string{"0", "1", "2", "3", "4"}) {
		t.Errorf("the order is %v", order)
	}
	r, err := e.Store.Verify(t.Context(), "s")
	noError(t, err)
	if !r.Sound() {
		t.Errorf("a log with clock jumps is not sound: %v", r.Problems)
	}
}

func TestUpdateReachesLiveAndStoredSessions(t *testing.T) {
	e := files(t)
	title, other := "first", "second"
	s := e.New(session.PrepareOptions{ID: "s"})
	openTurn(t, s, 1)
	noError(t, e.Store.Update(t.Context(), "s", session.MetaData{Title: &title}))
	if s.State().Title != title || s.Durable() != s.Next() {
		t.Errorf("the live session is called %q", s.State().Title)
	}
	noError(t, s.Close(t.Context()))
	noError(t, e.Store.Update(t.Context(), "s", session.MetaData{Title: &other}))
	if err := e.Store.Update(t.Context(), "none", session.MetaData{}); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("updating no session gives %v", err)
	}
	if got := e.Resume("s", session.RestoreOptions{}).State().Title; got != other {
		t.Errorf("the stored session is called %q", got)
	}
}

func TestForkingRefusesWhatCannotBeForked(t *testing.T) {
	e := files(t)
	s := e.New(session.PrepareOptions{ID: "s"})
	empty := e.New(session.PrepareOptions{ID: "empty"})
	fill(t, s, 1) // events 0 to 8: one turn
	openTurn(t, s, 2)
	at := func(n int64) *int64 { return &n }
	for _, test := range []struct {
		name string
		o    session.ForkOptions
		want error
	}{
		{"the new id is live", session.ForkOptions{ID: "none", NewID: "EMPTY"}, session.ErrExists},
		{"the new id is stored", session.ForkOptions{ID: "none", NewID: "s"}, session.ErrExists},
		{"there is no source", session.ForkOptions{ID: "none"}, session.ErrNotFound},
		{"the source has no events", session.ForkOptions{ID: empty.ID(), At: at(0)}, session.ErrNotFound},
		{"before the beginning", session.ForkOptions{ID: "s", At: at(-1)}, session.ErrBoundary},
		{"behind the end", session.ForkOptions{ID: "s", At: at(99)}, session.ErrBoundary},
		{"within a turn", session.ForkOptions{ID: "s", At: at(3)}, session.ErrOpenTurn},
		{"the last turn is open", session.ForkOptions{ID: "s"}, session.ErrOpenTurn},
	} {
		_, err := e.Store.Fork(t.Context(), test.o)
		if !errors.Is(err, test.want) {
			t.Errorf("%s: the error is %v, want %v", test.name, err, test.want)
		}
	}
	closeTurn(t, s, 2)
	h, err := e.Store.Fork(t.Context(), session.ForkOptions{ID: "s"})
	noError(t, err)
	again, err := e.Store.Fork(t.Context(), session.ForkOptions{ID: h.ID})
	noError(t, err)
	f, g := e.Resume(h.ID, session.RestoreOptions{}), e.Resume(again.ID, session.RestoreOptions{})
	if f.Next() != g.Next() || !cmp.Equal(f.History().Messages(), s.History().Messages()) || !cmp.Equal(g.History().Messages(), s.History().Messages()) {
		t.Errorf("the fork has %d events and its fork %d: the mark of a seed is written once", f.Next(), g.Next())
	}
	if f.State().Turn != 2 || f.Header().Parent != "s" || g.Header().Parent != h.ID {
		t.Errorf("the fork goes on after turn %d; the parents are %s and %s", f.State().Turn, f.Header().Parent, g.Header().Parent)
	}
}

func TestWhatARestoreMendsIsDurableAndNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := sessiontest.NewMemory()
		e := sessiontest.Run(t, memory)
		s := e.New(session.PrepareOptions{ID: "s"})
		session.SetClock(s, func() time.Time { return time.UnixMilli(5000) })
		openTurn(t, s, 1)
		noError(t, s.Close(t.Context()))
		session.SetClock(s, func() time.Time { return time.UnixMilli(9000) })
		var heard []string
		_, err := session.Committed.On(e.Scope, func(_ context.Context, n session.EventNotice) error {
			heard = append(heard, n.Event.Type)
			return nil
		})
		noError(t, err)
		s, err = e.Store.Restore(t.Context(), "s", session.RestoreOptions{})
		noError(t, err)
		if s.Next() != 3 || s.Durable() != 3 || s.State().TurnOpen {
			t.Errorf("after mending %d of %d events are durable, and the state is %+v", s.Durable(), s.Next(), s.State())
		}
		v, err := memory.Load(t.Context(), "s")
		noError(t, err)
		for ev, err := range v.Events(t.Context(), 2) {
			noError(t, err)
			if ev.Type != session.TurnEnd || ev.Time != 5000 {
				t.Errorf("the turn is ended by %s, at %d: two repairs would differ", ev.Type, ev.Time)
			}
		}
		e.Go(s)
		mustAppend(t, s, queue("d"))
		synctest.Wait()
		if !slices.Equal(heard, []string{session.InboxQueued}) {
			t.Errorf("listeners heard %q of what happened before this life", heard)
		}
	})
}

func TestContinueTurnLeavesTheTurnOpen(t *testing.T) {
	e := files(t)
	s := e.New(session.PrepareOptions{ID: "s"})
	openTurn(t, s, 1)
	mustAppend(t, s, readStep(1, 1)[0]...)
	mustAppend(t, s, readStep(1, 1)[1]...)
	// A crash: the log ends here. Closing writes no more than what is there.
	noError(t, s.Close(t.Context()))
	s = e.Resume("s", session.RestoreOptions{ContinueTurn: true})
	state := s.State()
	if !state.TurnOpen || state.StepOpen || state.Step != 1 || s.Recovery().Calls != 1 {
		t.Errorf("the state is %+v after mending %+v", state, s.Recovery())
	}
	mustAppend(t, s, readStep(1, 2)[0]...)
}

func TestWorkPerStepDoesNotGrowWithTheLog(t *testing.T) {
	cost := func(steps int) float64 {
		s := files(t).New(session.PrepareOptions{})
		openTurn(t, s, 1)
		n := 0
		step := func() {
			n++
			for _, batch := range readStep(1, n) {
				mustAppend(t, s, batch...)
			}
			_ = s.History()
			_ = s.State()
		}
		for range steps {
			step()
			if n%100 == 0 {
				noError(t, s.Flush(t.Context()))
			}
		}
		return testing.AllocsPerRun(50, step)
	}
	short, long := cost(100), cost(3000)
	if long > short*1.5+10 {
		t.Errorf("a step allocates %v times in a short log and %v times in a long one", short, long)
	}
}
