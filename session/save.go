package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"
)

// saveDelay is how long an event may wait for a flush before it is saved anyway.
const saveDelay = 100 * time.Millisecond

// Flush is the barrier: it returns when everything that was appended before the
// call is durable, and the listeners of [Flushing] are done. Concurrent calls share one write. With
// nothing new it costs next to nothing. The error is a [*StorageError], or joins what
// listeners returned. When ctx ends first, Flush returns its cause, and the events
// become durable later; only the call that happens to do the write does not stop waiting
// for the disk.
func (s *Session) Flush(ctx context.Context) error {
	return errors.Join(s.save(ctx, s.Next()), Flushing.Run(ctx, s.Scope(), s))
}

// save returns when the events before target are durable.
func (s *Session) save(ctx context.Context, target int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.tail.durable < target {
		if s.failed != nil {
			return s.failed
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("save session %s: %w", s.header.ID, context.Cause(ctx))
		}
		if !s.saving {
			if err := s.saveLocked(ctx); err != nil {
				return err
			}
			continue
		}
		// Somebody else is writing, perhaps this as well.
		if err := s.wait(ctx); err != nil {
			return fmt.Errorf("save session %s: %w", s.header.ID, err)
		}
	}
	return nil
}

// saveLocked writes everything that is not durable, in one batch. It releases
// s.mu meanwhile.
func (s *Session) saveLocked(ctx context.Context) error {
	batch := s.tail.from(s.tail.durable, len(s.tail.events))
	s.saving = true
	s.mu.Unlock()
	err := s.write(ctx, batch)
	s.mu.Lock()
	s.saving = false
	s.notify()
	if err == nil {
		s.tail.saved(batch[len(batch)-1].Seq + 1)
		return nil
	}
	err = &StorageError{ID: s.header.ID, Err: err}
	if errors.As(err, new(*PoisonedError)) {
		s.failed = err
	}
	return err
}

// write appends batch to the log. When the log's backend has gone away and another has
// come, it goes on with that one. Only the one who is saving calls it.
func (s *Session) write(ctx context.Context, batch []Event) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the backend panicked: %v", p)
		}
	}()
	// What is being written is written: half a batch would help nobody.
	ctx = context.WithoutCancel(ctx)
	err = s.log.Append(ctx, batch)
	if !errors.Is(err, ErrClosed) {
		return err
	}
	log, stored, err := s.adopt(ctx, batch)
	if err != nil {
		return fmt.Errorf("take the log up again after its backend was replaced: %w", err)
	}
	s.mu.Lock()
	s.log = log
	s.mu.Unlock()
	if batch = batch[stored:]; len(batch) == 0 {
		return nil
	}
	return log.Append(ctx, batch)
}

// adopt opens the session's log with the backend that is there now. It must hold
// what this session made durable, and may hold the beginning of batch.
func (s *Session) adopt(ctx context.Context, batch []Event) (log Log, stored int, err error) {
	p, ok := PersistenceService.Current(s.store.scope)
	if !ok {
		return nil, 0, ErrNoPersistence
	}
	first := batch[0].Seq
	v := &comparison{first: first, batch: batch}
	log, _, err = p.Open(ctx, s.header.ID, v)
	switch {
	case errors.Is(err, ErrNotFound) && first == 0:
		log, err = p.Create(ctx, s.header, nil)
		return log, 0, err
	case err != nil:
		return nil, 0, err
	case log.Next() < first:
		return nil, 0, errors.Join(fmt.Errorf("the stored log ends before event %d", first), log.Close())
	}
	return log, v.stored, nil
}

// comparison finds out how much of a batch a log already holds.
type comparison struct {
	first  int64
	batch  []Event
	stored int
}

func (*comparison) Header(Header) error { return nil }

func (c *comparison) Event(e Event) error {
	if e.Seq < c.first {
		return nil
	}
	if i := e.Seq - c.first; i >= int64(len(c.batch)) || !bytes.Equal(e.Line(), c.batch[i].line) {
		return errors.New("the stored log has other events than this session")
	}
	c.stored++
	return nil
}

// startSaving sees to it that what was appended becomes durable without a flush.
// s.mu is held.
func (s *Session) startSaving() {
	if s.lagging || s.failed != nil || s.state >= closing {
		return
	}
	// While the store is stopping there is nobody to do it; then closing does.
	s.lagging = s.store.scope.Go("save "+s.header.ID, s.saveInTime) == nil
}

// saveInTime saves what waits, at intervals, until nothing has come for a while.
func (s *Session) saveInTime(ctx context.Context) error {
	const idle = 10 // intervals
	ticker := time.NewTicker(saveDelay)
	defer ticker.Stop()
	for quiet := 0; ; {
		select {
		case <-ticker.C:
		case <-s.quit:
		case <-ctx.Done():
		}
		s.mu.Lock()
		waits := s.tail.durable < s.tail.next
		if quiet++; waits {
			quiet = 0
		}
		if quiet == idle || s.failed != nil || s.state >= closing || ctx.Err() != nil {
			s.lagging = false
			s.mu.Unlock()
			return nil
		}
		var err error
		if waits && !s.saving {
			err = s.saveLocked(ctx)
		}
		if err != nil {
			s.lagging = false // the next append or flush tries again
			s.mu.Unlock()
			s.store.scope.Log().Error("save session", "session", s.header.ID, "err", err)
			return nil
		}
		s.mu.Unlock()
	}
}
