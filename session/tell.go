package session

import (
	"context"
	"errors"
	"iter"
)

// batchSize is how many events a reader takes from memory at a time.
const batchSize = 64

type tellingKey struct{}

// startTelling sees to it that the listeners hear what was appended. s.mu is held.
func (s *Session) startTelling() {
	if s.telling || s.state != announced || s.tail.told == s.tail.next {
		return
	}
	if !Committed.Heard(s.scope) {
		s.tail.told = s.tail.next
		return
	}
	// While the store is stopping there is nobody to do it; then closing does.
	s.telling = s.store.scope.Go("events of "+s.header.ID, func(ctx context.Context) error {
		s.tell(ctx)
		return nil
	}) == nil
}

// tell calls the listeners of [Committed] with one event after the other, until
// they have heard all or ctx ends. Only the one who has set s.telling runs it.
func (s *Session) tell(ctx context.Context) {
	ctx = context.WithValue(ctx, tellingKey{}, s)
	s.mu.Lock()
	defer s.mu.Unlock()
	for ctx.Err() == nil && s.tail.told < s.tail.next {
		from, until := s.tail.told, min(s.tail.next, s.tail.told+batchSize)
		s.mu.Unlock()
		told := from
		for e, err := range s.read(ctx, from, until) {
			if err != nil {
				s.store.scope.Log().Error("read events for their listeners", "session", s.header.ID, "err", err)
				told = until // what cannot be read cannot be told
				break
			}
			if ctx.Err() != nil {
				break
			}
			// The kernel logs what listeners fail with.
			_ = Committed.Emit(ctx, s.Scope(), EventNotice{s, e})
			told = e.Seq + 1
		}
		s.mu.Lock()
		s.tail.told = told
	}
	s.telling = false
	s.notify()
}

// isTelling reports whether ctx is that of a listener of s.
func (s *Session) isTelling(ctx context.Context) bool { return ctx.Value(tellingKey{}) == s }

// Events returns the events of the log beginning with from, up to the last one
// there is when the iteration begins, from memory or from disk.
func (s *Session) Events(ctx context.Context, from int64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for e, err := range s.read(ctx, max(from, 0), s.Next()) {
			if !yield(e, err) {
				return
			}
		}
	}
}

// Follow returns the durable events beginning with from, and each further one as
// it becomes durable: what may leave the process. It ends when the session is closed,
// or with the cause of ctx as its error. It holds nobody up: one who is slow reads from disk.
func (s *Session) Follow(ctx context.Context, from int64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for next := max(from, 0); ; {
			until, err := s.awaitDurable(ctx, next)
			if err != nil {
				if !errors.Is(err, ErrClosed) {
					yield(Event{}, err)
				}
				return
			}
			for e, err := range s.read(ctx, next, until) {
				if !yield(e, err) || err != nil {
					return
				}
				next = e.Seq + 1
			}
		}
	}
}

// awaitDurable returns which events are durable once these are more than those
// before seq, and [ErrClosed] when there will be no more.
func (s *Session) awaitDurable(ctx context.Context, seq int64) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.tail.durable <= seq {
		if s.state == closed {
			return 0, ErrClosed
		}
		if err := s.wait(ctx); err != nil {
			return 0, err
		}
	}
	return s.tail.durable, nil
}

// read yields the events from up to, but not including, until. They must exist.
func (s *Session) read(ctx context.Context, from, until int64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for from < until {
			s.mu.Lock()
			batch := s.tail.from(from, int(min(until-from, batchSize)))
			base, log := s.tail.base(), s.log
			s.mu.Unlock()
			for _, e := range batch {
				if !yield(e, nil) {
					return
				}
				from = e.Seq + 1
			}
			if batch != nil {
				continue
			}
			before := from
			for e, err := range log.Events(ctx, from) {
				if err != nil {
					yield(Event{}, err)
					return
				}
				if !yield(e, nil) {
					return
				}
				// What comes behind may be a write that is under way.
				if from = e.Seq + 1; from >= min(base, until) {
					break
				}
			}
			if from == before {
				yield(Event{}, &StorageError{ID: s.header.ID, Err: errors.New("events that were saved are no longer there")})
				return
			}
		}
	}
}
