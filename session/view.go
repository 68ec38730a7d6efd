package session

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/dsh-harness/dsh/llm"
)

// View is a stored log to read, whoever is writing it. Any goroutine may use it.
type View struct {
	Header Header
	// Location says where the log is, for people: a path, as a rule.
	Location string

	events func(ctx context.Context, from int64) iter.Seq2[Event, error]
}

// NewView returns a view; backends make them. events must do what [View.Events] says.
func NewView(h Header, location string, events func(ctx context.Context, from int64) iter.Seq2[Event, error]) View {
	return View{h, location, events}
}

// Events returns the stored events from the given one on, as they are now. Damage does
// not end it: a [*DamageError] stands for what is missing, and the sound events behind it
// follow. Any other error is the last element.
func (v View) Events(ctx context.Context, from int64) iter.Seq2[Event, error] {
	return v.events(ctx, from)
}

// Summary is what a log means.
type Summary struct {
	State         State
	History       llm.History
	RequestHeader *llm.Header // nil when no request was made
	Next          int64       // the sequence number that the next event would have
}

// Summary folds the whole log. With an error it is about what comes before the
// place that the error names.
func (v View) Summary(ctx context.Context) (Summary, error) {
	f := fold{seed: v.Header.Seed}
	err := v.foldInto(ctx, &f)
	return Summary{f.state, f.surface.history.History(), f.header, f.next}, err
}

func (v View) foldInto(ctx context.Context, f *fold) error {
	for e, err := range v.Events(ctx, 0) {
		var d *DamageError
		if errors.As(err, &d) && d.Kind == DamageTorn {
			return nil // it was never acknowledged, and may be a write that is under way
		}
		if err != nil {
			return err
		}
		if err := f.apply(&e, nil); err != nil {
			return v.refused(e, err)
		}
	}
	return nil
}

// refused says that e does not fit the log that it stands in.
func (v View) refused(e Event, err error) error {
	return refused(v.Location, e, err)
}

func refused(location string, e Event, err error) error {
	var unknown *UnknownTypeError
	if errors.As(err, &unknown) {
		unknown.Path = location
		return unknown
	}
	return &DamageError{
		Path: location, Kind: DamageOrder, Seq: e.Seq, Next: e.Seq + 1,
		Detail: fmt.Sprintf("event %d, %s, does not fit: %v", e.Seq, e.Type, err),
	}
}

// Damage is a kind of damage to a log.
type Damage string

const (
	DamageHeader    Damage = "header"    // the first line is no header
	DamageTorn      Damage = "torn"      // the end was written in part, and never acknowledged
	DamageChecksum  Damage = "checksum"  // bytes differ from what was written
	DamageSyntax    Damage = "syntax"    // a line is whole and no event
	DamageGap       Damage = "gap"       // events are missing
	DamageDuplicate Damage = "duplicate" // a line repeats the number of an earlier event
	DamageOrder     Damage = "order"     // an event is whole and does not fit those before it
)

// DamageError tells that a part of a log is damaged: where, and how much is missing.
type DamageError struct {
	Path string `json:"path"`
	Kind Damage `json:"kind"`
	// Line is the first damaged line, the header being line 1; 0 when it is not known.
	Line int `json:"line,omitempty"`
	// Seq is the event that should stand there, Next the first sound one behind it:
	// the events in between are missing. Next is Seq when none is missing, and
	// -1 when nothing sound follows.
	Seq  int64 `json:"seq"`
	Next int64 `json:"next"`
	// Bytes is how much of the file is of no use.
	Bytes  int64  `json:"bytes"`
	Detail string `json:"detail"`
}

func (e *DamageError) Error() string {
	where := e.Path
	if e.Line > 0 {
		where = fmt.Sprintf("%s:%d", e.Path, e.Line)
	}
	missing := ""
	switch {
	case e.Kind == DamageTorn || e.Kind == DamageHeader || e.Kind == DamageOrder || e.Next == e.Seq:
	case e.Next < 0:
		missing = fmt.Sprintf("; the events from %d on are missing", e.Seq)
	default:
		missing = fmt.Sprintf("; the events %d to %d are missing", e.Seq, e.Next-1)
	}
	return fmt.Sprintf("%s: the log is damaged (%s, %d bytes): %s%s", where, e.Kind, e.Bytes, e.Detail, missing)
}
