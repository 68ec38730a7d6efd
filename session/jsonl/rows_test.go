package jsonl

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/session/sessiontest"
)

// TestS19 goes through the seam's seven operations over the one event type, and sees that
// the header is no event and never reaches the history.
func TestS19_PersistenceIsASeamAndTheHeaderIsNoEvent(t *testing.T) {
	ctx := t.Context()
	for name, p := range map[string]session.Persistence{
		"files":  newBackend(t.TempDir(), system{}, time.Now),
		"memory": sessiontest.NewMemory(),
	} {
		t.Run(name, func(t *testing.T) {
			h := sessiontest.Header("s")
			h.Cwd, h.Parent = "/home/me/app", "older"
			log, err := p.Create(ctx, h, nil)
			noError(t, err)
			if has, err := p.Has(ctx, "s"); has || err != nil {
				t.Errorf("before the first event the session is there: %v, %v", has, err)
			}
			events := sessiontest.Events(t, 0, sessiontest.Turn(1)...)
			noError(t, log.Append(ctx, events))
			noError(t, log.Close())
			title := "A title"
			noError(t, p.Update(ctx, "s", session.MetaData{Title: &title}))

			view, err := p.Load(ctx, "s")
			noError(t, err)
			if view.Header.Version != session.Version || view.Header.Cwd != h.Cwd || view.Header.Parent != h.Parent {
				t.Errorf("the header is %+v", view.Header)
			}
			n := 0
			for e, err := range view.Events(ctx, 0) {
				noError(t, err)
				if n < len(events) && e.Type != events[n].Type || e.Seq != int64(n) {
					t.Errorf("event %d is %s with seq %d", n, e.Type, e.Seq)
				}
				n++
			}
			if n != len(events)+1 {
				t.Errorf("%d events are stored, want what was appended and the update", n)
			}
			sum, err := view.Summary(ctx)
			noError(t, err)
			if sum.State.Title != title {
				t.Errorf("load folds the title %q", sum.State.Title)
			}
			for _, m := range sum.History.Messages() {
				if m.Role != llm.RoleUser && m.Role != llm.RoleAssistant && m.Role != llm.RoleTool {
					t.Errorf("the history holds %+v", m)
				}
			}
			if sum.History.Len() != len(roles(events)) {
				t.Errorf("the history has %d messages, want %d", sum.History.Len(), len(roles(events)))
			}
			listed := 0
			for info, err := range p.List(ctx, session.Filter{}) {
				noError(t, err)
				if info.Header.ID == "s" {
					listed++
				}
			}
			if listed != 1 {
				t.Errorf("the session is listed %d times", listed)
			}
			noError(t, p.Delete(ctx, "s"))
			if has, err := p.Has(ctx, "s"); has || err != nil {
				t.Errorf("after the deletion the session is there: %v, %v", has, err)
			}
		})
	}
}

// roles are the events that the model sees.
func roles(events []session.Event) (seen []string) {
	for _, e := range events {
		if e.Surface != nil {
			seen = append(seen, e.Type)
		}
	}
	return seen
}

// TestS20 writes, tears and resumes a log of files. That every write is whole or not there is
// shown under faults by TestTrust_L01 to L05 and L09.
func TestS20_FilesAreAppendOnlyLazyAndMended(t *testing.T) {
	dir := t.TempDir()
	env := start(t, dir)
	s, err := env.Store.Prepare(t.Context(), session.PrepareOptions{ID: "s"})
	noError(t, err)
	detach, err := env.Store.Enter(s)
	noError(t, err)
	path := filepath.Join(dir, "s", logName)
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Fatalf("before the first event there is a log: %v", err)
	}
	var before []byte
	for n := 1; n <= 3; n++ {
		turns(t, s, n, n)
		now, err := os.ReadFile(path)
		noError(t, err)
		if !bytes.HasPrefix(now, before) {
			t.Fatalf("turn %d changed what was written before", n)
		}
		before = now
	}
	noError(t, detach(t.Context()))

	torn := append(bytes.Clone(before), `{"seq":99,"time":1,"type":"turn/st`...)
	noError(t, os.WriteFile(path, torn, 0o600))
	again, err := env.Store.Restore(t.Context(), "s", session.RestoreOptions{})
	noError(t, err)
	if next := again.Next(); next != s.Next() {
		t.Errorf("the log goes on with %d, want %d", next, s.Next())
	}
	turns(t, again, 4, 4)
	if got, want := prompts(again), 4; len(got) != want {
		t.Errorf("the replayed history has %d prompts, want %d", len(got), want)
	}
	now, err := os.ReadFile(path)
	noError(t, err)
	if !bytes.HasPrefix(now, before) || bytes.Contains(now, []byte(`"seq":99`)) {
		t.Error("the torn tail is still there, or more than it is gone")
	}
	seq := int64(0)
	for e, err := range again.Events(t.Context(), 0) {
		noError(t, err)
		if e.Seq != seq {
			t.Fatalf("event %d has seq %d", seq, e.Seq)
		}
		seq++
	}
	noError(t, again.Close(t.Context()))
}
