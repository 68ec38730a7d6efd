package session

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
)

// Session is a live log. Its methods may be called from any goroutine, also from
// listeners of its own events. [Store.Prepare] and [Store.Restore] make one; who
// made it closes it, with [Session.Close] or what [Store.Enter] returns.
type Session struct {
	store    *store
	header   Header
	recovery Recovery
	close    func(context.Context) error // ends the session's place in the store's scope
	quit     chan struct{}               // closed when closing begins

	mu      sync.Mutex
	scope   *plugin.Scope
	fold    fold
	arena   []byte // where the next lines are written
	tail    tail
	log     Log // nil when nothing keeps the session
	entered uint64
	state   phase

	saving  bool  // somebody writes to the log
	failed  error // why the log cannot be written any more
	lagging bool  // a goroutine saves what nobody flushes
	telling bool  // somebody tells events

	changed chan struct{} // closed at the next change that somebody may wait for; nil when nobody waits
}

// phase is how far a session is. It only grows.
type phase int

const (
	prepared   phase = iota
	announcing       // the listeners of Created run
	announced        // its events are told
	closing          // nothing is appended any more
	closed
)

// Recovery tells what was mended when a session was restored.
type Recovery struct {
	Opening
	// Turn is the turn that a crash had left open, 0 when there was none.
	Turn int
	// Calls is how many of its calls were given a result that says that they were cut off.
	Calls int
}

// ID returns the session's name.
func (s *Session) ID() string { return s.header.ID }

// Header returns what the log says about itself.
func (s *Session) Header() Header { return s.header }

// Recovery returns what [Store.Restore] had to mend; nothing for a new session.
func (s *Session) Recovery() Recovery { return s.recovery }

// Scope returns where the session's events are dispatched: the store's scope, or
// what [Session.Bind] was given.
func (s *Session) Scope() *plugin.Scope {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.scope
}

// Bind makes events be dispatched at scope from now on, so that listeners in its
// realm hear them; who makes an agent calls it before [Store.Announce].
func (s *Session) Bind(scope *plugin.Scope) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scope = scope
}

// Next returns the sequence number of the next event.
func (s *Session) Next() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fold.next
}

// Durable returns the sequence number of the first event that a crash may still
// lose. In a session that nothing keeps no event is worse off than another, so it equals Next.
func (s *Session) Durable() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tail.durable
}

// State returns what the log says about the session.
func (s *Session) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fold.state
}

// History returns the messages on the surface. It costs the same for a long
// history as for a short one.
func (s *Session) History() llm.History {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fold.surface.history.History()
}

// RequestHeader returns the header of the requests from here on, as the last
// request/header event has it, or nil. Nobody may change it.
func (s *Session) RequestHeader() *llm.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fold.header
}

// Dir returns the folder for what belongs to the session beside its log, such as
// spill files, or "" when nothing keeps the session. It exists once an event is durable.
func (s *Session) Dir() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.log == nil {
		return ""
	}
	return s.log.Dir()
}

// Append adds all drafts to the log, or none, and returns the events. It does no
// I/O: they are in the log's memory, and become durable with the next [Session.Flush], or
// by themselves a moment later. It refuses what does not fit the log: an unknown type, a turn
// or step out of order, a second result, a broken surface operation, data that is no JSON
// object, a line over [MaxLine] ([*TooLargeError]). After Close it returns [ErrClosed].
func (s *Session) Append(drafts ...Draft) ([]Event, error) {
	if len(drafts) == 0 {
		return nil, nil
	}
	// Encoding may call foreign code, so it comes before the lock.
	enc := s.store.encoder()
	defer s.store.release(enc)
	events := make([]Event, len(drafts))
	for i, d := range drafts {
		data, err := enc.encode(d.Data)
		if err != nil {
			return nil, fmt.Errorf("append %s to session %s: %w", d.Type, s.header.ID, err)
		}
		events[i] = d.event(data)
	}
	if err := s.append(events, s.store.now().UnixMilli()); err != nil {
		return nil, err
	}
	return events, nil
}

// append completes events, as of the time now, and takes them in.
func (s *Session) append(events []Event, now int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state >= closing {
		return fmt.Errorf("append %s to session %s: %w", events[0].Type, s.header.ID, ErrClosed)
	}
	before, arena := s.fold, s.arena
	if len(events) > 1 {
		before.calls = slices.Clone(before.calls)
	}
	for i := range events {
		e := &events[i]
		e.Seq, e.Time = s.fold.next, now
		s.reserve(e)
		s.arena = appendEvent(s.arena, e)
		var err error
		if len(e.line) >= MaxLine {
			err = &TooLargeError{Type: e.Type, Size: len(e.line)}
		} else {
			err = s.fold.apply(e, s.declared)
		}
		if err != nil {
			s.fold, s.arena = before, arena
			return fmt.Errorf("append %s to session %s: %w", e.Type, s.header.ID, err)
		}
	}
	s.tail.add(events)
	if s.log == nil {
		s.tail.durable = s.fold.next
		s.notify()
	} else {
		s.startSaving()
	}
	s.startTelling()
	return nil
}

// reserve makes room in the arena for the line of e. Lines stand there one behind
// the other, so that a batch is written as it is.
func (s *Session) reserve(e *Event) {
	const (
		chunk    = 16 << 10
		envelope = 256 // what surrounds type and data, without cites
	)
	need := len(e.Data) + len(e.Type) + len(e.Cites)*48 + envelope
	if cap(s.arena)-len(s.arena) < need {
		s.arena = make([]byte, 0, max(need, chunk))
	}
}

// declared looks a plugin's event type up where the session's events are dispatched.
func (s *Session) declared(name string) (EventType, bool) { return Types.Get(s.scope, name) }

// notify wakes everybody in wait. s.mu is held.
func (s *Session) notify() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// wait releases s.mu until something changed, or ctx ended.
func (s *Session) wait(ctx context.Context) error {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	changed := s.changed
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
