package live_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dsh-harness/dsh"
	"github.com/dsh-harness/dsh/internal/testllm"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/protocol"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/surface/live"
	"github.com/dsh-harness/dsh/surface/live/livetest"
	"github.com/dsh-harness/dsh/workspace"
)

func create(t *testing.T, w *livetest.World) *live.Session {
	t.Helper()
	s, err := w.Hub.Create(t.Context(), dsh.AgentOptions{Dir: w.Dir})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func watch(t *testing.T, s *live.Session, from int64) *live.Watch {
	t.Helper()
	w, err := s.Watch(t.Context(), live.WatchOptions{From: from, Deltas: true, Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func prompt(t *testing.T, s *live.Session, text string) {
	t.Helper()
	if err := s.Deliver(t.Context(), live.NewMessageID(), []llm.Block{llm.Text(text)}, false); err != nil {
		t.Fatal(err)
	}
}

// until takes items until one is the event of that type, and returns all.
func until(t *testing.T, w *live.Watch, kind string) []live.Item {
	t.Helper()
	return items(t, w, func(i live.Item) bool { return i.Event != nil && i.Event.Type == kind })
}

func items(t *testing.T, w *live.Watch, last func(live.Item) bool) []live.Item {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var all []live.Item
	for {
		i, err := w.Next(ctx)
		if err != nil {
			t.Fatalf("after %d items: %v", len(all), err)
		}
		all = append(all, i)
		if last(i) {
			return all
		}
	}
}

func TestAWatchTellsTheLogAndLiveText(t *testing.T) {
	world := livetest.New(t, livetest.Options{})
	s := create(t, world)
	defer s.Release()
	w := watch(t, s, 0)
	prompt(t, s, "[[mock text:400,gap:5]] hi") // slow enough to be seen
	text, answer, next := "", "", int64(0)
	told := until(t, w, session.TurnEnd)
	for _, i := range told {
		switch {
		case i.Event != nil:
			if i.Event.Seq != next {
				t.Errorf("event %d came in the place of %d", i.Event.Seq, next)
			}
			next++
			if i.Event.Type == session.AssistantMessage {
				var d session.AssistantData
				if err := json.Unmarshal(i.Event.Data, &d); err != nil {
					t.Fatal(err)
				}
				answer = llm.PlainText(d.Message.Content)
			}
		case i.Delta != nil:
			if i.Delta.Offset != len(text) {
				t.Errorf("text at %d came after %d bytes", i.Delta.Offset, len(text))
			}
			text += i.Delta.Text
		}
	}
	// The end of the text may be told by its message alone.
	if text == "" || !strings.HasPrefix(answer, text) {
		t.Errorf("the live text is %q, and the answer %q", text, answer)
	}
	late := watch(t, s, 0)
	if n := len(until(t, late, session.TurnEnd)); int64(n) != next {
		t.Errorf("who comes later is told %d items, want the %d events", n, next)
	}
	if got := late.Durable(); got < next {
		t.Errorf("durable is %d, after event %d", got, next-1)
	}
	end := watch(t, s, -1)
	if i, err := end.Next(t.Context()); err != nil || i.Event == nil || i.Event.Seq != late.Durable()-1 {
		t.Errorf("the last event is %+v, %v", i, err)
	}
}

// TestCallersShareOneAgent also proves that a second process could not have opened it: the log is locked.
func TestCallersShareOneAgent(t *testing.T) {
	world := livetest.New(t, livetest.Options{})
	world.Model.Script(testllm.Text("one"))
	first := create(t, world)
	prompt(t, first, "hi")
	until(t, watch(t, first, 0), session.TurnEnd)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			s, err := world.Hub.Open(t.Context(), first.ID(), dsh.AgentOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Release()
			if s.Status() == "" {
				t.Error("no status")
			}
		})
	}
	all.Wait()
	first.Release()
	if n := world.Hub.Stats().Live; n != 1 {
		t.Errorf("%d agents live", n)
	}
	if _, err := world.Hub.Open(t.Context(), "019362a0-0000-7000-8000-000000000000", dsh.AgentOptions{}); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("an unknown session: %v", err)
	}
}

func TestWhatNobodyNeedsIsParkedAndGoesOn(t *testing.T) {
	world := livetest.New(t, livetest.Options{Park: 10 * time.Millisecond})
	world.Model.Script(testllm.Text("one"), testllm.Text("two"))
	s := create(t, world)
	prompt(t, s, "hi")
	until(t, watch(t, s, 0), session.TurnEnd)
	if err := errors.Join(
		s.SetMode(t.Context(), "read-only", "test"), s.SetModel(t.Context(), "scripted/large"), s.SetEffort(t.Context(), "high"),
	); err != nil {
		t.Fatal(err)
	}
	id := s.ID()
	s.Release()
	for deadline := time.Now().Add(10 * time.Second); world.Hub.Stats().Live > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it is not parked")
		}
	}
	if n := world.Hub.Stats().Parked; n != 1 {
		t.Errorf("%d sessions are parked", n)
	}
	// Many wake it at once: a second agent would find the log locked.
	all := make([]*live.Session, 8)
	var waking sync.WaitGroup
	for i := range all {
		waking.Go(func() {
			var err error
			if all[i], err = world.Hub.Open(t.Context(), id, dsh.AgentOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	waking.Wait()
	if t.Failed() {
		t.FailNow()
	}
	for _, s := range all {
		defer s.Release()
	}
	if n := world.Hub.Stats().Live; n != 1 {
		t.Errorf("%d agents live", n)
	}
	s = all[0]
	w := watch(t, s, 0)
	until(t, w, session.TurnEnd)
	if m, effort, err := s.Model(t.Context()); err != nil || m.Ref() != "scripted/large" || effort != "high" {
		t.Errorf("the model is %s with %q, %v", m.Ref(), effort, err)
	}
	prompt(t, s, "again")
	until(t, w, session.TurnEnd)
	if m, err := s.Mode(t.Context()); err != nil || m != "read-only" {
		t.Errorf("the mode is %q, %v", m, err)
	}
	if got := len(world.Model.Requests()); got != 2 {
		t.Errorf("%d requests", got)
	}
}

func TestASessionWithoutEventsIsParkedAndBeginsAgain(t *testing.T) {
	world := livetest.New(t, livetest.Options{Park: time.Millisecond})
	s := create(t, world)
	id := s.ID()
	s.Release()
	for deadline := time.Now().Add(10 * time.Second); world.Hub.Stats().Live > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it is not parked")
		}
	}
	s, err := world.Hub.Open(t.Context(), id, dsh.AgentOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	if h, err := s.Header(t.Context()); err != nil || h.ID != id || h.Cwd != world.Dir {
		t.Errorf("the header is %+v, %v", h, err)
	}
}

// TestWhatIsDeletedIsGone: also for who still holds it, and also when nothing of it was stored yet.
func TestWhatIsDeletedIsGone(t *testing.T) {
	for _, stored := range []bool{true, false} {
		t.Run(fmt.Sprintf("stored=%v", stored), func(t *testing.T) {
			world := livetest.New(t, livetest.Options{})
			world.Model.Script(testllm.Text("one"))
			s := create(t, world)
			defer s.Release()
			if stored {
				w := watch(t, s, 0)
				prompt(t, s, "hi")
				until(t, w, session.TurnEnd)
				if err := s.WhenIdle(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if err := world.Hub.Delete(t.Context(), s.ID()); err != nil {
				t.Fatal(err)
			}
			if err := s.Deliver(t.Context(), live.NewMessageID(), []llm.Block{llm.Text("again")}, false); !errors.Is(err, session.ErrNotFound) {
				t.Errorf("who holds it gets %v", err)
			}
			if _, err := world.Hub.Open(t.Context(), s.ID(), dsh.AgentOptions{}); !errors.Is(err, session.ErrNotFound) {
				t.Errorf("who opens it gets %v", err)
			}
			if all, err := world.Hub.Search(t.Context(), protocol.SearchParams{}); err != nil || len(all.Sessions) != 0 {
				t.Errorf("the list is %+v, %v", all, err)
			}
		})
	}
}

// write is a turn that writes a file, which the mode ask asks about.
func write(name, content string) testllm.Turn {
	arguments, _ := json.Marshal(map[string]string{"file_path": name, "content": content})
	return testllm.Calls(testllm.Call{ID: "p1", Name: "write", Arguments: string(arguments)})
}

// TestTrust_P06_AnAnswerCountsOnce: double, late, foreign and replayed answers.
func TestTrust_P06_AnAnswerCountsOnce(t *testing.T) {
	world := livetest.New(t, livetest.Options{})
	world.Model.Script(write("a.txt", "one"), testllm.Text("done"))
	s, other := create(t, world), create(t, world)
	defer s.Release()
	defer other.Release()
	w, second := watch(t, s, 0), watch(t, s, 0)
	prompt(t, s, "write it")
	asked := func(i live.Item) bool { return i.Asked != nil }
	all := items(t, w, asked)
	q := all[len(all)-1].Asked
	if again := items(t, second, asked); again[len(again)-1].Asked.ID != q.ID {
		t.Error("the other client was asked something else")
	}
	if late := items(t, watch(t, s, -1), asked); late[len(late)-1].Asked.ID != q.ID {
		t.Error("who came later was asked something else")
	}
	called := false
	for _, i := range all {
		called = called || i.Event != nil && i.Event.Type == session.ToolCall && i.View != nil && i.View.Title != ""
	}
	if !called {
		t.Error("the question came before the call")
	}
	if s.Status() != "waiting" {
		t.Errorf("the status is %s", s.Status())
	}
	yes := protocol.AnswerParams{ID: q.ID, Allow: true}
	if r, err := other.Answer("other", yes); err != nil || r.Accepted {
		t.Errorf("an answer in another session: %+v, %v", r, err)
	}
	if r, err := s.Answer("x", protocol.AnswerParams{ID: "none", Allow: true}); err != nil || r.Accepted {
		t.Errorf("an answer to no question: %+v, %v", r, err)
	}
	for _, wrong := range []protocol.AnswerParams{
		{ID: q.ID, Allow: true, Remember: "user", Rule: "Bash(*)"},
		{ID: q.ID, Allow: true, Remember: "always"},
		{ID: q.ID, Allow: true, Rule: "Write"},
		{ID: q.ID, Allow: false, Arguments: json.RawMessage(`{}`)},
		{ID: q.ID, Allow: true, Arguments: json.RawMessage(`{"file_path":1}`)},
	} {
		if r, err := s.Answer("x", wrong); !errors.Is(err, live.ErrAnswer) || r.Accepted {
			t.Errorf("%+v: %+v, %v", wrong, r, err)
		}
	}
	var wins, losses int
	var mu sync.Mutex
	var racing sync.WaitGroup
	for i := range 10 {
		racing.Go(func() {
			r, err := s.Answer(fmt.Sprint("client ", i), protocol.AnswerParams{ID: q.ID, Allow: i%2 == 0})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				t.Error(err)
			case r.Accepted:
				wins++
			default:
				losses++
			}
		})
	}
	racing.Wait()
	if wins != 1 || losses != 9 {
		t.Errorf("%d answers counted", wins)
	}
	told := items(t, second, func(i live.Item) bool { return i.Answered != nil })
	note := told[len(told)-1].Answered
	if note.ID != q.ID || !strings.HasPrefix(note.By, "client ") {
		t.Errorf("the others are told %+v", note)
	}
	until(t, w, session.TurnEnd)
	if r, err := s.Answer("late", yes); err != nil || r.Accepted || r.By != note.By {
		t.Errorf("a late answer: %+v, %v", r, err)
	}
	_, err := os.Stat(filepath.Join(world.Dir, "a.txt"))
	if wrote := err == nil; wrote != (note.Outcome == "allowed") {
		t.Errorf("the outcome is %s, and the file is there: %v", note.Outcome, wrote)
	}
}

func TestAQuestionWaitsForSomebodyToComeBack(t *testing.T) {
	world := livetest.New(t, livetest.Options{Park: time.Millisecond})
	world.Model.Script(write("a.txt", "one"), testllm.Text("done"))
	s := create(t, world)
	id := s.ID()
	w := watch(t, s, 0)
	prompt(t, s, "write it")
	items(t, w, func(i live.Item) bool { return i.Asked != nil })
	s.Release()
	time.Sleep(20 * time.Millisecond)
	s, err := world.Hub.Open(t.Context(), id, dsh.AgentOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	w = watch(t, s, 0)
	asked := items(t, w, func(i live.Item) bool { return i.Asked != nil })
	if r, err := s.Answer("me", protocol.AnswerParams{ID: asked[len(asked)-1].Asked.ID, Allow: true}); err != nil || !r.Accepted {
		t.Fatalf("%+v, %v", r, err)
	}
	until(t, w, session.TurnEnd)
	if _, err := os.Stat(filepath.Join(world.Dir, "a.txt")); err != nil {
		t.Error(err)
	}
}

func TestAQuestionThatNobodyCanSeeIsDenied(t *testing.T) {
	world := livetest.New(t, livetest.Options{Wait: time.Millisecond})
	world.Model.Script(write("a.txt", "one"), testllm.Text("done"))
	s := create(t, world)
	id := s.ID()
	prompt(t, s, "write it")
	s.Release()
	s, err := world.Hub.Open(t.Context(), id, dsh.AgentOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// The race is harmless: held again in time, the question stands, and then nobody answers it.
	s.Release()
	time.Sleep(50 * time.Millisecond)
	s, err = world.Hub.Open(t.Context(), id, dsh.AgentOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	until(t, watch(t, s, 0), session.TurnEnd)
	if _, err := os.Stat(filepath.Join(world.Dir, "a.txt")); err == nil {
		t.Error("it was written though nobody allowed it")
	}
}

func TestInputIsListedAndTakenBack(t *testing.T) {
	world := livetest.New(t, livetest.Options{})
	hold := make(chan struct{})
	turn := testllm.Text("one")
	turn.Wait = hold
	world.Model.Script(turn, testllm.Text("two"))
	s := create(t, world)
	defer s.Release()
	w := watch(t, s, 0)
	prompt(t, s, "first")
	until(t, w, session.StepStart)
	gone, kept := live.NewMessageID(), live.NewMessageID()
	if err := errors.Join(
		s.Deliver(t.Context(), gone, []llm.Block{llm.Text("plum")}, false),
		s.Deliver(t.Context(), kept, []llm.Block{llm.Text("pear")}, false),
	); err != nil {
		t.Fatal(err)
	}
	in, err := s.Inbox(t.Context(), gone, "nobody")
	if err != nil || len(in.Removed) != 1 || in.Removed[0] != gone || len(in.Pending) != 1 || in.Pending[0].ID != kept || in.Pending[0].Text != "pear" {
		t.Errorf("the inbox is %+v, %v", in, err)
	}
	close(hold)
	until(t, w, session.TurnEnd)
	until(t, w, session.TurnEnd)
	last := world.Model.Requests()[1]
	if body := string(last.Body); strings.Contains(body, "plum") || !strings.Contains(body, "pear") {
		t.Errorf("the model was sent %s", body)
	}
}

func TestShellIsRunAndTold(t *testing.T) {
	world := livetest.New(t, livetest.Options{})
	world.Model.Script(testllm.Text("I see."))
	s := create(t, world)
	defer s.Release()
	w := watch(t, s, 0)
	r, err := s.Shell(t.Context(), protocol.ShellParams{Command: "echo hello; exit 3"})
	if err != nil || r.Output != "hello\n" || r.Code != 3 {
		t.Fatalf("%+v, %v", r, err)
	}
	prompt(t, s, "what happened?")
	until(t, w, session.TurnEnd)
	if body := string(world.Model.Requests()[0].Body); !strings.Contains(body, "echo hello") || !strings.Contains(body, "exit code 3") {
		t.Errorf("the model was sent %s", body)
	}
}

func TestWhatWasRunIsToldAfterParking(t *testing.T) {
	world := livetest.New(t, livetest.Options{Park: time.Millisecond})
	world.Model.Script(testllm.Text("one"), testllm.Text("I see."))
	s := create(t, world)
	prompt(t, s, "hi")
	until(t, watch(t, s, 0), session.TurnEnd)
	if _, err := s.Shell(t.Context(), protocol.ShellParams{Command: "echo plum"}); err != nil {
		t.Fatal(err)
	}
	id := s.ID()
	s.Release()
	for deadline := time.Now().Add(10 * time.Second); world.Hub.Stats().Live > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it is not parked")
		}
	}
	s, err := world.Hub.Open(t.Context(), id, dsh.AgentOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	w := watch(t, s, -1)
	prompt(t, s, "what happened?")
	until(t, w, session.TurnEnd)
	if body := string(world.Model.Requests()[1].Body); !strings.Contains(body, "echo plum") {
		t.Errorf("the model was sent %s", body)
	}
}

// TestShellOutputIsToldOnceAcrossTurns: a command of the person's is not the turn's, so that its output goes on where it was.
func TestShellOutputIsToldOnceAcrossTurns(t *testing.T) {
	world := livetest.New(t, livetest.Options{})
	hold := make(chan struct{})
	turn := testllm.Text("one")
	turn.Wait = hold
	world.Model.Script(turn)
	s := create(t, world)
	defer s.Release()
	w := watch(t, s, 0)
	prompt(t, s, "hi")
	until(t, w, session.StepStart)
	done := make(chan error, 1)
	go func() {
		_, err := s.Shell(t.Context(), protocol.ShellParams{Command: "echo plum; i=0; while [ ! -e go ] && [ $i -lt 500 ]; do sleep 0.02; i=$((i+1)); done; echo pear"})
		done <- err
	}()
	output := func(word string) func(live.Item) bool {
		return func(i live.Item) bool { return i.Progress != nil && strings.Contains(i.Progress.Text, word) }
	}
	items(t, w, output("plum"))
	close(hold)
	until(t, w, session.TurnEnd)
	if err := os.WriteFile(filepath.Join(world.Dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	all := items(t, w, output("pear"))
	if p := all[len(all)-1].Progress; p.Offset != int64(len("plum\n")) || p.Text != "pear\n" {
		t.Errorf("after the turn it goes on with %q at %d", p.Text, p.Offset)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestShellIsConfinedByTheMode(t *testing.T) {
	world := livetest.New(t, livetest.Options{})
	a, err := world.Harness.Open(t.Context(), dsh.AgentOptions{Dir: world.Dir, Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	level, why := a.Workspace().Sandbox()
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if level == workspace.SandboxNone {
		t.Skip("nothing confines commands here: " + why)
	}
	s := create(t, world)
	defer s.Release()
	touch := func(name string) (protocol.ShellResult, error) {
		return s.Shell(t.Context(), protocol.ShellParams{Command: "echo hello > " + name})
	}
	there := func(name string) bool {
		_, err := os.Stat(filepath.Join(world.Dir, name))
		return err == nil
	}
	if r, err := touch("a.txt"); err != nil || r.Code != 0 || !there("a.txt") {
		t.Fatalf("in the mode ask: %+v, %v", r, err)
	}
	if err := s.SetMode(t.Context(), "read-only", "test"); err != nil {
		t.Fatal(err)
	}
	r, err := touch("b.txt")
	if there("b.txt") || (err == nil && r.Code == 0) {
		t.Errorf("a read-only session was written in: %+v, %v", r, err)
	}
}

func TestFilesAreFound(t *testing.T) {
	world := livetest.New(t, livetest.Options{})
	for name, text := range map[string]string{"main.go": "", "pkg/parser/parse.go": "", "pkg/parser/parse_test.go": "", "out/junk.go": "", ".gitignore": "out/\n"} {
		file := filepath.Join(world.Dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	s := create(t, world)
	defer s.Release()
	for query, want := range map[string]string{
		"":       ".gitignore main.go pkg/",
		"parsgo": "pkg/parser/parse.go pkg/parser/parse_test.go",
		"main":   "main.go",
		"junk":   "",
		"pkg/p/": "pkg/parser/ pkg/parser/parse.go pkg/parser/parse_test.go",
	} {
		got, err := s.Files(t.Context(), protocol.FilesParams{Query: query})
		if err != nil || strings.Join(got.Paths, " ") != want {
			t.Errorf("%q: %q, %v; want %q", query, got.Paths, err, want)
		}
	}
}

func TestProjectionsFollow(t *testing.T) {
	world := livetest.New(t, livetest.Options{})
	world.Model.Script(testllm.Text("one"))
	s := create(t, world)
	defer s.Release()
	w := watch(t, s, 0)
	prompt(t, s, "hi")
	told := items(t, w, func(i live.Item) bool {
		return i.Projected != nil && i.Projected.Name == "usage" && strings.Contains(string(i.Projected.Value), `"requests":1`)
	})
	if p := told[len(told)-1].Projected; p.Panel == nil || p.Update.Kind == "" {
		t.Errorf("the projection has no panel or no update: %+v", p)
	}
	all, err := s.Projections(t.Context(), "usage")
	if err != nil || len(all) != 1 || !strings.Contains(string(all[0].Value), `"requests":1`) {
		t.Errorf("%+v, %v", all, err)
	}
	unknown := (*live.UnknownError)(nil)
	if _, err := s.Projections(t.Context(), "usag"); !errors.As(err, &unknown) || unknown.Known[0] != "usage" {
		t.Errorf("an unknown projection: %v", err)
	}
}
