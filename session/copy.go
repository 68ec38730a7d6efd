package session

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/dsh-harness/dsh/internal/uuid7"
)

// Fork reads the whole part that it copies into memory.
func (st *store) Fork(ctx context.Context, o ForkOptions) (Header, error) {
	p, ok := PersistenceService.Current(st.scope)
	if !ok {
		return Header{}, fmt.Errorf("fork session %s: %w", o.ID, ErrNoPersistence)
	}
	h, err := st.fork(ctx, p, o)
	if err != nil {
		return Header{}, fmt.Errorf("fork session %s: %w", o.ID, err)
	}
	return h, nil
}

func (st *store) fork(ctx context.Context, p Persistence, o ForkOptions) (Header, error) {
	h, err := st.newHeader(o.NewID)
	if err != nil {
		return Header{}, err
	}
	if taken, err := p.Has(ctx, h.ID); err != nil || taken {
		if err == nil {
			err = fmt.Errorf("session %s: %w", h.ID, ErrExists)
		}
		return Header{}, err
	}
	if live, ok := st.Get(o.ID); ok {
		if err := live.Flush(ctx); err != nil {
			return Header{}, err
		}
	}
	source, err := p.Load(ctx, o.ID)
	if err != nil {
		return Header{}, err
	}
	events, err := prefix(ctx, source, o.At)
	if err != nil {
		return Header{}, err
	}
	h.Cwd, h.Parent, h.Seed = source.Header.Cwd, source.Header.ID, int64(len(events))
	if n := len(events); n == 0 || events[n-1].Type != Seeded {
		mark, err := Draft{Type: Seeded}.Event(h.Seed, h.Created)
		if err != nil {
			return Header{}, err
		}
		events = append(events, mark)
	}
	return h, storeWhole(ctx, p, h, events)
}

// prefix returns the events of source up to at, which must not leave a turn open.
func prefix(ctx context.Context, source View, at *int64) ([]Event, error) {
	var events []Event
	f := fold{seed: source.Header.Seed}
	whole := int64(0) // how many events lie before the open turn
	for e, err := range source.Events(ctx, 0) {
		if at != nil && f.next > *at {
			break
		}
		var d *DamageError
		if errors.As(err, &d) && d.Kind == DamageTorn {
			break
		}
		if err == nil {
			err = f.apply(&e, nil)
			if err != nil {
				err = source.refused(e, err)
			}
		}
		if err != nil {
			if whole > 0 {
				return nil, fmt.Errorf("%w; fork it at event %d or before", err, whole-1)
			}
			return nil, err
		}
		events = append(events, e)
		if !f.state.TurnOpen {
			whole = f.next
		}
	}
	switch {
	case at != nil && (*at < 0 || *at >= f.next):
		return nil, fmt.Errorf("event %d of %d: %w", *at, f.next, ErrBoundary)
	case f.state.TurnOpen && whole > 0:
		return nil, fmt.Errorf("turn %d has not ended at event %d: %w; the last one before it is %d", f.state.Turn, f.next-1, ErrOpenTurn, whole-1)
	case f.state.TurnOpen:
		return nil, fmt.Errorf("turn %d has not ended at event %d: %w", f.state.Turn, f.next-1, ErrOpenTurn)
	}
	return events, nil
}

// storeWhole stores a new log that holds events, whole or not at all.
func storeWhole(ctx context.Context, p Persistence, h Header, events []Event) error {
	log, err := p.Create(ctx, h, all(events))
	if err != nil {
		return err
	}
	return log.Close()
}

func all(events []Event) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (st *store) Update(ctx context.Context, id string, m MetaData) error {
	if live, ok := st.Get(id); ok {
		if _, err := live.Append(Draft{Type: Meta, Data: m}); err != nil {
			return err
		}
		return live.Flush(ctx)
	}
	p, ok := PersistenceService.Current(st.scope)
	if !ok {
		return fmt.Errorf("update session %s: %w", id, ErrNoPersistence)
	}
	if err := p.Update(ctx, id, m); err != nil {
		return fmt.Errorf("update session %s: %w", id, err)
	}
	return nil
}

// Report is what is wrong with a stored log.
type Report struct {
	ID       string         `json:"id"`
	Location string         `json:"location"`
	Events   int64          `json:"events"` // the sound ones
	Problems []*DamageError `json:"problems"`
	// Unknown is the first event whose type this program does not know and must not
	// skip; the log is sound, but cannot be continued by this program.
	Unknown *UnknownTypeError `json:"unknown,omitempty"`
}

// Sound reports whether the session can be resumed.
func (r Report) Sound() bool { return len(r.Problems) == 0 && r.Unknown == nil }

func (st *store) Verify(ctx context.Context, id string) (Report, error) {
	p, ok := PersistenceService.Current(st.scope)
	if !ok {
		return Report{}, fmt.Errorf("verify session %s: %w", id, ErrNoPersistence)
	}
	v, err := p.Load(ctx, id)
	var d *DamageError
	if errors.As(err, &d) {
		return Report{ID: id, Location: d.Path, Problems: []*DamageError{d}}, nil
	}
	if err != nil {
		return Report{}, fmt.Errorf("verify session %s: %w", id, err)
	}
	r := Report{ID: id, Location: v.Location}
	if err := verify(ctx, v, &r); err != nil {
		return Report{}, fmt.Errorf("verify session %s: %w", id, err)
	}
	return r, nil
}

// verify fills r in. What does not fit is looked for up to the first damage:
// behind it, the fold would not know.
func verify(ctx context.Context, v View, r *Report) error {
	f, folding := fold{seed: v.Header.Seed}, true
	for e, err := range v.Events(ctx, 0) {
		var d *DamageError
		switch {
		case errors.As(err, &d):
			r.Problems = append(r.Problems, d)
			folding = false
			continue
		case err != nil:
			return err
		}
		r.Events++
		if !folding {
			continue
		}
		if err := f.apply(&e, nil); err != nil {
			folding = false
			err = v.refused(e, err)
			if errors.As(err, &d) {
				r.Problems = append(r.Problems, d)
			}
			_ = errors.As(err, &r.Unknown) // it is one of the two
		}
	}
	return nil
}

// Repaired tells what [Store.Repair] did.
type Repaired struct {
	ID     string // of the copy
	Kept   int64  // events that were copied
	Lost   int64  // events that are marked as lost in the copy
	Behind int64  // sound events that stand only in the original, as they do not fit without what is lost
}

// mostLost bounds how many lost events are marked one by one.
const mostLost = 10_000

// Repair keeps the numbers of the events, as others refer to them: each lost
// one is marked in its place by a session/lost event. Where an event does not fit
// without those, the copy ends.
func (st *store) Repair(ctx context.Context, id string) (Repaired, error) {
	p, ok := PersistenceService.Current(st.scope)
	if !ok {
		return Repaired{}, fmt.Errorf("repair session %s: %w", id, ErrNoPersistence)
	}
	v, err := p.Load(ctx, id)
	if err != nil {
		return Repaired{}, fmt.Errorf("repair session %s: %w", id, err)
	}
	r, err := st.repair(ctx, p, v)
	if err != nil {
		return Repaired{}, fmt.Errorf("repair session %s: %w", id, err)
	}
	return r, nil
}

func (st *store) repair(ctx context.Context, p Persistence, v View) (Repaired, error) {
	r := Repaired{ID: uuid7.New()}
	var events []Event
	f := fold{seed: v.Header.Seed}
	damaged, ended := false, false
	for e, err := range v.Events(ctx, 0) {
		var d *DamageError
		if err == nil && !ended {
			err = f.apply(&e, nil)
			if errors.As(err, new(*UnknownTypeError)) {
				return Repaired{}, v.refused(e, err)
			}
			damaged, ended = damaged || err != nil, err != nil
			err = nil
		}
		switch {
		case errors.As(err, &d) && !ended:
			damaged, ended = true, d.Next-f.next > mostLost
			for !ended && f.next < d.Next {
				mark, err := Draft{Type: Lost, Data: LostData{Why: d.Error()}}.Event(f.next, v.Header.Created)
				if err != nil {
					return Repaired{}, err
				}
				if err := f.apply(&mark, nil); err != nil {
					return Repaired{}, err
				}
				events = append(events, mark)
				r.Lost++
			}
		case d != nil:
		case err != nil:
			return Repaired{}, err
		case ended:
			r.Behind++
		default:
			events = append(events, e)
			r.Kept++
		}
	}
	if !damaged {
		return Repaired{}, fmt.Errorf("%s is sound, there is nothing to repair", v.Location)
	}
	if r.Kept == 0 {
		return Repaired{}, fmt.Errorf("%s holds nothing that could be kept", v.Location)
	}
	h := v.Header
	h.ID, h.Created, h.Parent, h.Seed = r.ID, st.now().UnixMilli(), v.Header.ID, int64(len(events))
	return r, storeWhole(ctx, p, h, events)
}
