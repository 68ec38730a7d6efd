package sessiontest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/session"
)

// Contract runs the tests that every backend must pass, each on a storage of its
// own. newStorage makes an empty one and returns what opens it: each call as
// another process, or the same one after a restart, would.
func Contract(t *testing.T, newStorage func(t *testing.T) (open func() session.Persistence)) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, open func() session.Persistence)
	}{
		{"what was appended is loaded, byte for byte", roundTrip},
		{"nothing is stored before the first event", lazy},
		{"events are contiguous", contiguous},
		{"a suffix is read without a change", suffix},
		{"an id is taken once, whatever its case", collision},
		{"one writer at a time", oneWriter},
		{"opening shows the log and goes on at its end", reopen},
		{"a visitor that fails changes nothing", visitorFails},
		{"a seeded log is stored whole or not at all", seeded},
		{"delete", remove},
		{"update appends", update},
		{"lists are newest first and filtered", lists},
		{"a call whose context is over does nothing", cancelled},
		{"foreign events are kept", foreign},
		{"a closed log is not written", closedLog},
		{"a large event", large},
		{"the store resumes where it stopped", resumes},
		{"a crash is mended once", mends},
		{"a live session outlasts its backend", adopted},
		{"events that were written without an acknowledgement are not written again", twiceWritten},
		{"a live session does not take over another log", notAdopted},
		{"a live session does not go on with a log that lost events", notShortened},
		{"concurrent flushes", concurrent},
		{"closing saves everything", drains},
		{"a fork is a copy", forks},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, newStorage(t)) })
	}
}

// Header returns a header for tests.
func Header(id string) session.Header {
	return session.Header{Version: session.Version, ID: id, Created: 1_764_540_000_123}
}

// Turn returns the drafts of a whole turn that calls one tool.
func Turn(n int) []session.Draft {
	call := fmt.Sprintf("c%d_1_1", n)
	return []session.Draft{
		{Type: session.TurnStart, Data: session.TurnStartData{Turn: n}},
		{Type: session.UserMessage, Data: session.InputData{ID: fmt.Sprint("u", n), Content: []llm.Block{llm.Text("look into <main.go> & \u2028 say 你好")}}},
		{Type: session.StepStart, Data: session.StepData{Turn: n, Step: 1}},
		{Type: session.RequestHeader, Data: llm.Header{Provider: "p", Model: "m", System: "be brief"}},
		{Type: session.AssistantMessage, Data: session.AssistantData{
			Turn: n, Step: 1, Provider: "p", Model: "m", Finish: llm.FinishToolCalls, Usage: &llm.Usage{Input: 10, Output: 5},
			Message: session.AssistantContent{ID: fmt.Sprint("m", n), Content: []llm.Block{
				llm.Text("Reading.\n"), {Type: llm.BlockToolCall, CallID: call, Name: "read", Arguments: `{"path":"main.go"}`},
			}},
		}},
		{Type: session.ToolCall, Data: session.ToolCallData{Turn: n, Step: 1, CallID: call, Name: "read", Effect: session.EffectRead}},
		{Type: session.ToolResult, Data: session.ToolResultData{Turn: n, Step: 1, CallID: call, Content: []llm.Block{llm.Text("package main")}}},
		{Type: session.StepEnd, Data: session.StepData{Turn: n, Step: 1}},
		{Type: session.TurnEnd, Data: session.TurnEndData{Turn: n, Reason: session.Completed}},
	}
}

// Events returns drafts as events beginning with the number from.
func Events(t testing.TB, from int64, drafts ...session.Draft) []session.Event {
	t.Helper()
	events := make([]session.Event, len(drafts))
	for i, d := range drafts {
		e, err := d.Event(from+int64(i), 1_764_540_000_200+int64(i))
		if err != nil {
			t.Fatal(err)
		}
		events[i] = e
	}
	return events
}

// Lines returns what seq yields as lines of a log.
func Lines(t testing.TB, seq iter.Seq2[session.Event, error]) []string {
	t.Helper()
	lines := []string{}
	for e, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(e.Line()))
	}
	return lines
}

func linesOf(events []session.Event) []string {
	lines := []string{}
	for _, e := range events {
		lines = append(lines, string(e.Line()))
	}
	return lines
}

func same(t testing.TB, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s differs (-want +got):\n%s", what, d)
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func is(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: the error is %v, want %v", what, err, want)
	}
}

// write stores a session and gives it back.
func write(t testing.TB, p session.Persistence, h session.Header, events []session.Event) {
	t.Helper()
	l, err := p.Create(t.Context(), h, nil)
	ok(t, err)
	ok(t, l.Append(t.Context(), events))
	ok(t, l.Close())
}

func stored(t testing.TB, p session.Persistence, id string) []string {
	t.Helper()
	v, err := p.Load(t.Context(), id)
	ok(t, err)
	return Lines(t, v.Events(t.Context(), 0))
}

func listed(t testing.TB, p session.Persistence, f session.Filter) []string {
	t.Helper()
	ids := []string{}
	for info, err := range p.List(t.Context(), f) {
		ok(t, err)
		ids = append(ids, info.Header.ID)
	}
	return ids
}

func roundTrip(t *testing.T, open func() session.Persistence) {
	h := session.Header{
		Version: session.Version, ID: "A.b_c-1", Created: 1_764_540_000_123, Cwd: "/home/me/<app> & \"co\"", Parent: "p", Seed: 0, Origin: session.OriginSubagent, Depth: 2,
	}
	events := Events(t, 0, append(Turn(1), Turn(2)...)...)
	p := open()
	l, err := p.Create(t.Context(), h, nil)
	ok(t, err)
	ok(t, l.Append(t.Context(), events[:3]))
	ok(t, l.Append(t.Context(), nil))
	ok(t, l.Append(t.Context(), events[3:]))
	same(t, "the log read by its writer", Lines(t, l.Events(t.Context(), 0)), linesOf(events))
	ok(t, l.Close())
	v, err := open().Load(t.Context(), h.ID)
	ok(t, err)
	same(t, "the header", v.Header, h)
	same(t, "the log", Lines(t, v.Events(t.Context(), 0)), linesOf(events))
	for e, err := range v.Events(t.Context(), 0) {
		ok(t, err)
		want := events[e.Seq]
		if e.Time != want.Time || e.Type != want.Type || !bytes.Equal(e.Data, want.Data) {
			t.Errorf("event %d is loaded as %+v, want %+v", want.Seq, e, want)
		}
		same(t, "the surface operation", e.Surface, want.Surface)
	}
}

func lazy(t *testing.T, open func() session.Persistence) {
	p := open()
	l, err := p.Create(t.Context(), Header("idle"), nil)
	ok(t, err)
	ok(t, l.Append(t.Context(), nil))
	for _, view := range []session.Persistence{p, open()} {
		has, err := view.Has(t.Context(), "idle")
		ok(t, err)
		if has {
			t.Error("a session without events is there")
		}
		same(t, "the list", listed(t, view, session.Filter{}), []string{})
		_, err = view.Load(t.Context(), "idle")
		is(t, "load", err, session.ErrNotFound)
		_, _, err = view.Open(t.Context(), "idle", nil)
		is(t, "open", err, session.ErrNotFound)
	}
	ok(t, l.Close())
	write(t, p, Header("idle"), Events(t, 0, Turn(1)...)) // the abandoned id is free
}

func contiguous(t *testing.T, open func() session.Persistence) {
	events := Events(t, 0, Turn(1)...)
	p := open()
	l, err := p.Create(t.Context(), Header("s"), nil)
	ok(t, err)
	if l.Append(t.Context(), events[1:3]) == nil {
		t.Error("a log began with event 1")
	}
	ok(t, l.Append(t.Context(), events[:3]))
	for what, batch := range map[string][]session.Event{
		"an old event":  events[2:4],
		"a gap":         events[4:6],
		"a gap inside":  {events[3], events[5]},
		"a repeat":      {events[3], events[3]},
		"a wrong order": {events[4], events[3]},
	} {
		if l.Append(t.Context(), batch) == nil {
			t.Errorf("%s was appended", what)
		}
	}
	if got := l.Next(); got != 3 {
		t.Errorf("after refused batches the next event is %d, want 3", got)
	}
	ok(t, l.Append(t.Context(), events[3:]))
	ok(t, l.Close())
	same(t, "the log", stored(t, open(), "s"), linesOf(events))
}

func suffix(t *testing.T, open func() session.Persistence) {
	var drafts []session.Draft
	for i := range 40 {
		drafts = append(drafts, Turn(i+1)...)
	}
	events := Events(t, 0, drafts...)
	p := open()
	l, err := p.Create(t.Context(), Header("s"), nil)
	ok(t, err)
	ok(t, l.Append(t.Context(), events))
	v, err := open().Load(t.Context(), "s")
	ok(t, err)
	for _, from := range []int64{0, 1, 200, int64(len(events)) - 1, int64(len(events))} {
		same(t, fmt.Sprint("the view from event ", from), Lines(t, v.Events(t.Context(), from)), linesOf(events[from:]))
		same(t, fmt.Sprint("the log from event ", from), Lines(t, l.Events(t.Context(), from)), linesOf(events[from:]))
	}
	for e, err := range l.Events(t.Context(), 3) {
		ok(t, err)
		if e.Seq == 5 {
			break
		}
	}
	ok(t, l.Append(t.Context(), Events(t, int64(len(events)), Turn(41)...)))
	ok(t, l.Close())
}

func collision(t *testing.T, open func() session.Persistence) {
	p := open()
	first, err := p.Create(t.Context(), Header("Twice"), nil)
	ok(t, err)
	second, err := p.Create(t.Context(), Header("Twice"), nil)
	ok(t, err) // nothing is stored yet
	ok(t, first.Append(t.Context(), Events(t, 0, Turn(1)...)))
	is(t, "the second first append", second.Append(t.Context(), Events(t, 0, Turn(1)...)), session.ErrExists)
	ok(t, second.Close())
	for _, id := range []string{"Twice", "twice", "TWICE"} {
		_, err := open().Create(t.Context(), Header(id), nil)
		is(t, "create "+id, err, session.ErrExists)
		has, err := open().Has(t.Context(), id)
		ok(t, err)
		if !has {
			t.Errorf("the id %s is free", id)
		}
	}
	ok(t, first.Close())
	same(t, "the log", len(stored(t, open(), "Twice")), len(Turn(1)))
}

func oneWriter(t *testing.T, open func() session.Persistence) {
	p := open()
	l, err := p.Create(t.Context(), Header("s"), nil)
	ok(t, err)
	ok(t, l.Append(t.Context(), Events(t, 0, Turn(1)...)))
	for _, other := range []session.Persistence{p, open()} {
		var locked *session.LockedError
		if _, _, err := other.Open(t.Context(), "s", nil); !errors.As(err, &locked) || locked.ID != "s" {
			t.Errorf("a second writer gets %v, want a LockedError of the session", err)
		}
		if err := other.Update(t.Context(), "s", session.MetaData{}); !errors.As(err, &locked) {
			t.Errorf("an update beside the writer gets %v, want a LockedError", err)
		}
		if err := other.Delete(t.Context(), "s"); !errors.As(err, &locked) {
			t.Errorf("a deletion beside the writer gets %v, want a LockedError", err)
		}
		same(t, "what a reader sees", len(stored(t, other, "s")), len(Turn(1)))
	}
	ok(t, l.Close())
	l, _, err = open().Open(t.Context(), "s", nil)
	ok(t, err)
	ok(t, l.Close())
}

// recorder is a visitor that remembers.
type recorder struct {
	header session.Header
	lines  []string
	failAt int64 // -1: never
}

var errVisitor = errors.New("the visitor refuses")

func (r *recorder) Header(h session.Header) error {
	r.header = h
	return nil
}

func (r *recorder) Event(e session.Event) error {
	if e.Seq == r.failAt {
		return errVisitor
	}
	r.lines = append(r.lines, string(e.Line()))
	return nil
}

func reopen(t *testing.T, open func() session.Persistence) {
	events := Events(t, 0, append(Turn(1), Turn(2)...)...)
	h := Header("s")
	h.Depth = 3
	write(t, open(), h, events[:9])
	r := &recorder{failAt: -1}
	l, opening, err := open().Open(t.Context(), "s", r)
	ok(t, err)
	same(t, "what opening found", opening, session.Opening{})
	same(t, "the header", r.header, h)
	same(t, "what the visitor saw", r.lines, linesOf(events[:9]))
	if l.Next() != 9 {
		t.Errorf("the next event is %d, want 9", l.Next())
	}
	ok(t, l.Append(t.Context(), events[9:]))
	ok(t, l.Close())
	same(t, "the log", stored(t, open(), "s"), linesOf(events))
}

func visitorFails(t *testing.T, open func() session.Persistence) {
	write(t, open(), Header("s"), Events(t, 0, Turn(1)...))
	before := stored(t, open(), "s")
	_, _, err := open().Open(t.Context(), "s", &recorder{failAt: 4})
	is(t, "open", err, errVisitor)
	same(t, "the log", stored(t, open(), "s"), before)
	l, _, err := open().Open(t.Context(), "s", nil) // the lock is free
	ok(t, err)
	ok(t, l.Close())
}

func seeded(t *testing.T, open func() session.Persistence) {
	events := Events(t, 0, Turn(1)...)
	yield := func(n int, last error) iter.Seq2[session.Event, error] {
		return func(yield func(session.Event, error) bool) {
			for _, e := range events[:n] {
				if !yield(e, nil) {
					return
				}
			}
			if last != nil {
				yield(session.Event{}, last)
			}
		}
	}
	broken := errors.New("the source is broken")
	_, err := open().Create(t.Context(), Header("s"), yield(5, broken))
	is(t, "a seed that fails", err, broken)
	has, err := open().Has(t.Context(), "s")
	ok(t, err)
	if has {
		t.Error("half a seed was stored")
	}
	h := Header("s")
	h.Parent, h.Seed = "parent", int64(len(events))
	l, err := open().Create(t.Context(), h, yield(len(events), nil))
	ok(t, err)
	same(t, "the log", stored(t, open(), "s"), linesOf(events))
	ok(t, l.Append(t.Context(), Events(t, int64(len(events)), Turn(2)...)))
	ok(t, l.Close())
	v, err := open().Load(t.Context(), "s")
	ok(t, err)
	same(t, "the header", v.Header, h)
}

func remove(t *testing.T, open func() session.Persistence) {
	is(t, "delete", open().Delete(t.Context(), "none"), session.ErrNotFound)
	write(t, open(), Header("a"), Events(t, 0, Turn(1)...))
	write(t, open(), Header("b"), Events(t, 0, Turn(1)...))
	ok(t, open().Delete(t.Context(), "a"))
	_, err := open().Load(t.Context(), "a")
	is(t, "load", err, session.ErrNotFound)
	is(t, "delete again", open().Delete(t.Context(), "a"), session.ErrNotFound)
	same(t, "the list", listed(t, open(), session.Filter{}), []string{"b"})
	write(t, open(), Header("a"), Events(t, 0, Turn(1)...)) // the id is free again
}

func update(t *testing.T, open func() session.Persistence) {
	title, archived, labels := "A title", true, []string{"x", "y"}
	is(t, "update", open().Update(t.Context(), "none", session.MetaData{}), session.ErrNotFound)
	write(t, open(), Header("s"), Events(t, 0, Turn(1)...))
	before := stored(t, open(), "s")
	ok(t, open().Update(t.Context(), "s", session.MetaData{Title: &title}))
	ok(t, open().Update(t.Context(), "s", session.MetaData{Archived: &archived, Labels: &labels}))
	after := stored(t, open(), "s")
	same(t, "the events so far", after[:len(before)], before)
	if len(after) != len(before)+2 {
		t.Fatalf("two updates made %d events", len(after)-len(before))
	}
	v, err := open().Load(t.Context(), "s")
	ok(t, err)
	sum, err := v.Summary(t.Context())
	ok(t, err)
	if s := sum.State; s.Title != title || !s.Archived || !slices.Equal(s.Labels, labels) {
		t.Errorf("the metadata is %q, %v, %v", s.Title, s.Archived, s.Labels)
	}
	if sum.History.Len() != 3 {
		t.Errorf("the history has %d messages, want 3: metadata never reaches it", sum.History.Len())
	}
	for info, err := range open().List(t.Context(), session.Filter{IncludeArchived: true}) {
		ok(t, err)
		if info.Title != title || !info.Archived || !slices.Equal(info.Labels, labels) {
			t.Errorf("the list has %+v", info)
		}
	}
}

func lists(t *testing.T, open func() session.Persistence) {
	p := open()
	for _, s := range []struct{ id, cwd, origin string }{
		{"one", "/a", ""}, {"two", "/b", ""}, {"three", "/a", session.OriginSubagent}, {"four", "/a", ""}, {"five", "/a", ""},
	} {
		h := Header(s.id)
		h.Cwd, h.Origin = s.cwd, s.origin
		write(t, p, h, Events(t, 0, Turn(1)...))
	}
	archived := true
	ok(t, p.Update(t.Context(), "four", session.MetaData{Archived: &archived}))
	for _, test := range []struct {
		filter session.Filter
		want   []string
	}{
		{session.Filter{}, []string{"five", "one", "two"}},
		{session.Filter{Cwd: "/a"}, []string{"five", "one"}},
		{session.Filter{Cwd: "/c"}, []string{}},
		{session.Filter{IncludeArchived: true}, []string{"five", "four", "one", "two"}},
		{session.Filter{IncludeArchived: true, IncludeSubagents: true}, []string{"five", "four", "one", "three", "two"}},
	} {
		// The clock of a storage may be too coarse to tell the order of our writes.
		all := listed(t, open(), test.filter)
		slices.Sort(all)
		same(t, fmt.Sprintf("the list with %+v", test.filter), all, test.want)
	}
	var last time.Time
	for info, err := range open().List(t.Context(), session.Filter{}) {
		ok(t, err)
		if !last.IsZero() && info.Modified.After(last) {
			t.Errorf("session %s was changed after the one listed before it", info.Header.ID)
		}
		last = info.Modified
	}
	whole := listed(t, open(), session.Filter{})
	for n := 1; n <= len(whole); n++ {
		same(t, fmt.Sprint("the list of at most ", n), listed(t, open(), session.Filter{Limit: n}), whole[:n])
	}
}

func cancelled(t *testing.T, open func() session.Persistence) {
	p := open()
	write(t, p, Header("s"), Events(t, 0, Turn(1)...))
	before := stored(t, p, "s")
	l, _, err := p.Open(t.Context(), "s", nil)
	ok(t, err)
	cause := errors.New("nobody wants it any more")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	title := "never"
	_, createErr := p.Create(ctx, Header("new"), nil)
	_, _, openErr := p.Open(ctx, "s", nil)
	_, loadErr := p.Load(ctx, "s")
	_, hasErr := p.Has(ctx, "s")
	var listErr, eventsErr error
	for _, listErr = range p.List(ctx, session.Filter{}) {
	}
	for _, eventsErr = range l.Events(ctx, 0) {
	}
	for what, err := range map[string]error{
		"create": createErr, "open": openErr, "load": loadErr, "has": hasErr, "list": listErr, "events": eventsErr,
		"append": l.Append(ctx, Events(t, l.Next(), Turn(2)...)),
		"update": p.Update(ctx, "s", session.MetaData{Title: &title}),
		"delete": p.Delete(ctx, "s"),
	} {
		is(t, what, err, cause)
	}
	ok(t, l.Close())
	same(t, "the log", stored(t, open(), "s"), before)
	same(t, "the list", listed(t, open(), session.Filter{}), []string{"s"})
}

func foreign(t *testing.T, open func() session.Persistence) {
	raw := []session.Draft{
		{Type: "future/info", Data: map[string]any{"x": 1, "html": "<b>&"}},
		{Type: "future/shown", Data: map[string]any{"message": llm.UserText("context")}, Surface: &session.SurfaceOp{Op: session.OpAppend}},
	}
	events := Events(t, 0, append(raw, Turn(1)...)...)
	write(t, open(), Header("s"), events)
	same(t, "the log", stored(t, open(), "s"), linesOf(events))
	env := Run(t, open())
	s := env.Resume("s", session.RestoreOptions{})
	if s.History().Len() != 4 || llm.PlainText(s.History().At(0).Content) != "context" {
		t.Errorf("the surface operation of a foreign event was not folded: %d messages", s.History().Len())
	}
}

func closedLog(t *testing.T, open func() session.Persistence) {
	l, err := open().Create(t.Context(), Header("s"), nil)
	ok(t, err)
	ok(t, l.Append(t.Context(), Events(t, 0, Turn(1)...)))
	ok(t, l.Close())
	ok(t, l.Close())
	is(t, "append", l.Append(t.Context(), Events(t, l.Next(), Turn(2)...)), session.ErrClosed)
	same(t, "what a closed log can still tell", len(Lines(t, l.Events(t.Context(), 0))), len(Turn(1)))
}

func large(t *testing.T, open func() session.Persistence) {
	big := session.Draft{Type: session.UserMessage, Data: session.InputData{ID: "big", Content: []llm.Block{llm.Text(strings.Repeat("0123456789abcde\n", 5<<16))}}}
	events := Events(t, 0, append([]session.Draft{big}, Turn(1)...)...)
	write(t, open(), Header("s"), events)
	got := stored(t, open(), "s")
	if !slices.Equal(got, linesOf(events)) {
		t.Error("the log with an event of 5 MB differs")
	}
}

func resumes(t *testing.T, open func() session.Persistence) {
	env := Run(t, open())
	s := env.New(session.PrepareOptions{ID: "s"})
	appendAll(t, s, Turn(1)...)
	appendAll(t, s, session.Draft{Type: session.InboxQueued, Data: session.InboxData{ID: "d1", Message: llm.UserText("and then?")}})
	ok(t, s.Flush(t.Context()))
	if got, want := s.Durable(), s.Next(); got != want {
		t.Errorf("after a flush events below %d are durable, want %d", got, want)
	}
	history, state, header := s.History().Messages(), s.State(), s.RequestHeader()
	env.Close()

	env = Run(t, open())
	s = env.Resume("s", session.RestoreOptions{})
	same(t, "the history", s.History().Messages(), history)
	same(t, "the state", s.State(), state)
	same(t, "the request header", s.RequestHeader(), header)
	same(t, "what was mended", s.Recovery(), session.Recovery{})
	if len(state.Pending) != 1 || state.Pending[0].ID != "d1" {
		t.Errorf("the pending input is %+v", state.Pending)
	}
	appendAll(t, s, Turn(2)...)
	ok(t, s.Flush(t.Context()))
	same(t, "the sessions", listed(t, env.Persistence(), session.Filter{}), []string{"s"})
	if n := len(stored(t, env.Persistence(), "s")); n != 2*len(Turn(1))+1 {
		t.Errorf("the log has %d events", n)
	}
}

func appendAll(t testing.TB, s *session.Session, drafts ...session.Draft) {
	t.Helper()
	_, err := s.Append(drafts...)
	ok(t, err)
}

func mends(t *testing.T, open func() session.Persistence) {
	calls := []llm.Block{
		{Type: llm.BlockToolCall, CallID: "c1_1_1", Name: "read"}, {Type: llm.BlockToolCall, CallID: "c1_1_2", Name: "write"},
		{Type: llm.BlockToolCall, CallID: "c1_1_3", Name: "write"},
	}
	events := Events(t, 0,
		session.Draft{Type: session.TurnStart, Data: session.TurnStartData{Turn: 1}},
		session.Draft{Type: session.StepStart, Data: session.StepData{Turn: 1, Step: 1}},
		session.Draft{Type: session.AssistantMessage, Data: session.AssistantData{Turn: 1, Step: 1, Message: session.AssistantContent{ID: "m", Content: calls}}},
		session.Draft{Type: session.ToolCall, Data: session.ToolCallData{Turn: 1, Step: 1, CallID: "c1_1_1", Effect: session.EffectRead}},
		session.Draft{Type: session.ToolCall, Data: session.ToolCallData{Turn: 1, Step: 1, CallID: "c1_1_2", Effect: session.EffectWrite}},
	)
	write(t, open(), Header("s"), events)
	env := Run(t, open())
	s := env.Resume("s", session.RestoreOptions{})
	same(t, "what was mended", s.Recovery(), session.Recovery{Turn: 1, Calls: 3})
	var texts []string
	for _, m := range s.History().Messages()[1:] {
		texts = append(texts, m.CallID+" "+llm.PlainText(m.Content))
	}
	same(t, "the results", texts, []string{
		"c1_1_1 The harness stopped while this call ran. It only reads, so it may be made again.",
		"c1_1_2 The harness stopped while this call ran, and its outcome is unknown. Verify what it did before making it again.",
		"c1_1_3 The harness stopped before this call ran. It had no effect and may be made again.",
	})
	env.Close()
	once := stored(t, open(), "s")
	if len(once) != len(events)+5 {
		t.Errorf("the mended log has %d events, want %d", len(once), len(events)+5)
	}
	env = Run(t, open())
	same(t, "what was mended the second time", env.Resume("s", session.RestoreOptions{}).Recovery(), session.Recovery{})
	env.Close()
	same(t, "the log", stored(t, open(), "s"), once)
}

// replaceable is a backend that can be swapped under a running store.
type replaceable struct {
	session.Persistence
	logs []session.Log
	wrap func(session.Log) session.Log // around the next log that is created
}

func (r *replaceable) Create(ctx context.Context, h session.Header, seed iter.Seq2[session.Event, error]) (session.Log, error) {
	l, err := r.Persistence.Create(ctx, h, seed)
	if err == nil && r.wrap != nil {
		l = r.wrap(l)
	}
	if err == nil {
		r.logs = append(r.logs, l)
	}
	return l, err
}

func (r *replaceable) Open(ctx context.Context, id string, v session.Visitor) (session.Log, session.Opening, error) {
	l, o, err := r.Persistence.Open(ctx, id, v)
	if err == nil {
		r.logs = append(r.logs, l)
	}
	return l, o, err
}

// replace does what a backend does that stops, and puts another in its place.
func (r *replaceable) replace(t testing.TB, next session.Persistence) {
	t.Helper()
	for _, l := range r.logs {
		ok(t, l.Close())
	}
	r.logs, r.Persistence = nil, next
}

func adopted(t *testing.T, open func() session.Persistence) {
	backend := &replaceable{Persistence: open()}
	env := Run(t, backend)
	s := env.New(session.PrepareOptions{ID: "s"})
	early := env.New(session.PrepareOptions{ID: "early"})
	appendAll(t, s, Turn(1)...)
	ok(t, s.Flush(t.Context()))
	appendAll(t, s, Turn(2)[:4]...) // an open turn, which is not to be closed
	appendAll(t, early, Turn(1)...)
	backend.replace(t, open())
	appendAll(t, s, Turn(2)[4:]...)
	ok(t, s.Flush(t.Context()))
	ok(t, early.Flush(t.Context()))
	appendAll(t, s, Turn(3)...)
	ok(t, s.Flush(t.Context()))
	same(t, "the log", stored(t, open(), "s"), Lines(t, s.Events(t.Context(), 0)))
	same(t, "the log that was not stored when the backend went", stored(t, open(), "early"), Lines(t, early.Events(t.Context(), 0)))
}

// doubtful is a log whose backend goes away in the middle of a write: what was
// written is there, and nobody was told.
type doubtful struct {
	session.Log
	keep int // how many events of the next batch are stored
}

func (l *doubtful) Append(ctx context.Context, events []session.Event) error {
	return errors.Join(l.Log.Append(ctx, events[:l.keep]), l.Close(), session.ErrClosed)
}

func (r *replaceable) doubt(keep int) func(session.Log) session.Log {
	return func(l session.Log) session.Log { return &doubtful{l, keep} }
}

func twiceWritten(t *testing.T, open func() session.Persistence) {
	for _, keep := range []int{0, 4, len(Turn(1))} {
		id := fmt.Sprint("s", keep)
		backend := &replaceable{Persistence: open()}
		backend.wrap = backend.doubt(keep)
		env := Run(t, backend)
		s := env.New(session.PrepareOptions{ID: id})
		backend.wrap = nil
		appendAll(t, s, Turn(1)...)
		ok(t, s.Flush(t.Context()))
		same(t, fmt.Sprintf("the log of which %d events were written before", keep), stored(t, open(), id), Lines(t, s.Events(t.Context(), 0)))
		env.Close()
	}
}

func notAdopted(t *testing.T, open func() session.Persistence) {
	backend := &replaceable{Persistence: open()}
	env := Run(t, backend)
	s := env.New(session.PrepareOptions{ID: "s"})
	appendAll(t, s, Turn(1)...)
	ok(t, s.Flush(t.Context()))
	backend.replace(t, open())
	l, _, err := open().Open(t.Context(), "s", nil)
	ok(t, err)
	ok(t, l.Append(t.Context(), Events(t, l.Next(), session.Draft{Type: "other/event"})))
	ok(t, l.Close())
	before := stored(t, open(), "s")
	appendAll(t, s, Turn(2)...)
	var storage *session.StorageError
	if err := s.Flush(t.Context()); !errors.As(err, &storage) {
		t.Errorf("flush onto a log that somebody else has continued gives %v, want a StorageError", err)
	}
	same(t, "the log", stored(t, open(), "s"), before)
	if err := s.Close(t.Context()); err == nil {
		t.Error("closing a session that cannot be saved gives no error")
	}
	env.forgive()
}

func notShortened(t *testing.T, open func() session.Persistence) {
	backend := &replaceable{Persistence: open()}
	env := Run(t, backend)
	s := env.New(session.PrepareOptions{ID: "s"})
	appendAll(t, s, append(Turn(1), Turn(2)...)...)
	ok(t, s.Flush(t.Context()))
	backend.replace(t, open())
	ok(t, open().Delete(t.Context(), "s"))
	write(t, open(), Header("s"), Events(t, 0, Turn(1)...))
	before := stored(t, open(), "s")
	appendAll(t, s, Turn(3)...)
	if err := s.Flush(t.Context()); err == nil || !strings.Contains(err.Error(), "ends before event 18") {
		t.Errorf("flush onto a log that lost events gives %v", err)
	}
	same(t, "the log", stored(t, open(), "s"), before)
	if err := s.Close(t.Context()); err == nil {
		t.Error("closing a session that cannot be saved gives no error")
	}
	env.forgive()
}

func concurrent(t *testing.T, open func() session.Persistence) {
	env := Run(t, open())
	s := env.New(session.PrepareOptions{ID: "s"})
	const writers, each = 8, 25
	done := make(chan error, writers)
	for w := range writers {
		go func() {
			var err error
			for i := range each {
				var events []session.Event
				m := llm.UserText(fmt.Sprint(w, " ", i))
				events, err = s.Append(session.Draft{Type: session.InboxQueued, Data: session.InboxData{ID: fmt.Sprintf("d%d_%d", w, i), Message: m}})
				if err == nil {
					err = s.Flush(t.Context())
				}
				if err == nil && s.Durable() <= events[0].Seq {
					err = fmt.Errorf("event %d is not durable after its flush", events[0].Seq)
				}
				if err != nil {
					break
				}
			}
			done <- err
		}()
	}
	for range writers {
		ok(t, <-done)
	}
	same(t, "the log", stored(t, open(), "s"), Lines(t, s.Events(t.Context(), 0)))
	if n := s.Next(); n != writers*each {
		t.Errorf("there are %d events, want %d", n, writers*each)
	}
}

func drains(t *testing.T, open func() session.Persistence) {
	env := Run(t, open())
	s := env.New(session.PrepareOptions{ID: "s"})
	appendAll(t, s, Turn(1)...)
	ok(t, s.Close(t.Context()))
	same(t, "the log", len(stored(t, open(), "s")), len(Turn(1)))
	s = env.Resume("s", session.RestoreOptions{})
	appendAll(t, s, Turn(2)...)
	env.Close()
	same(t, "the log", len(stored(t, open(), "s")), 2*len(Turn(1)))
	_, err := s.Append(Turn(3)...)
	is(t, "append", err, session.ErrClosed)
}

func forks(t *testing.T, open func() session.Persistence) {
	env := Run(t, open())
	s := env.New(session.PrepareOptions{ID: "s", Depth: 1, Origin: session.OriginSubagent})
	appendAll(t, s, append(Turn(1), Turn(2)...)...)
	at := int64(len(Turn(1)) - 1)
	h, err := env.Store.Fork(t.Context(), session.ForkOptions{ID: "s", At: &at, NewID: "fork"})
	ok(t, err)
	if h.ID != "fork" || h.Parent != "s" || h.Seed != at+1 || h.Origin != "" || h.Depth != 0 {
		t.Errorf("the header of the fork is %+v", h)
	}
	source, fork := stored(t, open(), "s"), stored(t, open(), "fork")
	same(t, "what was copied", fork[:h.Seed], source[:h.Seed])
	if len(fork) != int(h.Seed)+1 || !strings.Contains(fork[h.Seed], `"type":"session/seeded"`) {
		t.Errorf("the copy ends in %s", fork[len(fork)-1])
	}
	f := env.Resume("fork", session.RestoreOptions{})
	same(t, "the header", f.Header(), h)
	appendAll(t, f, Turn(2)...) // turns go on
}
