package jsonl

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/dsh-harness/dsh/session"
)

// events reads the events of a log and finds what is wrong with it.
type events struct {
	lines
	path    string
	number  int   // of the line that was read last, from 1
	visited bool  // the events go to a [session.Visitor]
	inside  bool  // the reading did not begin at the first line, so numbers are not known
	expect  int64 // the event that comes next
	after   int64 // where in the file the last sound event ends

	bad     *session.DamageError // lines of no use that were read just now
	badAt   int64                // where they begin
	badRows int                  // how many they are
	held    *held                // a sound event behind them
	sound   line                 // the line of the event that was returned last
}

type held struct {
	event session.Event
	line  line
}

// next returns the next event. Damage is a [*session.DamageError], after which
// the reading goes on; [io.EOF] is the end.
func (r *events) next() (session.Event, error) {
	if h := r.held; h != nil {
		r.held = nil
		return r.take(h.event, h.line), nil
	}
	for {
		l, err := r.lines.next()
		if errors.Is(err, io.EOF) {
			if bad := r.bad; bad != nil {
				r.bad = nil
				return session.Event{}, bad
			}
			return session.Event{}, io.EOF
		}
		if err != nil {
			return session.Event{}, fmt.Errorf("read %s: %w", r.path, err)
		}
		r.number++
		if !l.whole {
			return session.Event{}, r.torn(l)
		}
		e, err := r.parse(l)
		if err != nil {
			r.damaged(l, err)
			continue
		}
		if d := r.misplaced(e, l); d != nil {
			return session.Event{}, d
		}
		return r.take(e, l), nil
	}
}

func (r *events) take(e session.Event, l line) session.Event {
	r.expect, r.after, r.sound = e.Seq+1, l.next, l
	return e
}

func (r *events) parse(l line) (session.Event, error) {
	if l.long {
		return session.Event{}, fmt.Errorf("%w: it is longer than %d bytes", session.ErrSyntax, session.MaxLine)
	}
	if r.visited {
		return session.ParseEnvelope(l.bytes)
	}
	return session.ParseLine(l.bytes)
}

// damaged notes a line of no use.
func (r *events) damaged(l line, err error) {
	if r.bad == nil {
		kind := session.DamageSyntax
		if errors.Is(err, session.ErrChecksum) {
			kind = session.DamageChecksum
		}
		r.bad = &session.DamageError{Path: r.path, Kind: kind, Line: r.lineNumber(), Seq: r.expect, Next: -1, Detail: err.Error()}
		r.badAt, r.badRows = l.start, 0
	}
	r.bad.Bytes += l.next - l.start
	r.badRows++
}

// misplaced returns the damage that shows in the number of a sound event, or
// between it and the last one.
func (r *events) misplaced(e session.Event, l line) error {
	bad := r.bad
	r.bad = nil
	if e.Seq < r.expect {
		if bad != nil {
			bad.Bytes += l.next - l.start
			bad.Next = r.expect
			return bad
		}
		return &session.DamageError{
			Path: r.path, Kind: session.DamageDuplicate, Line: r.lineNumber(), Seq: r.expect, Next: r.expect, Bytes: l.next - l.start,
			Detail: fmt.Sprintf("event %d is there again", e.Seq),
		}
	}
	if bad == nil && e.Seq > r.expect {
		bad = &session.DamageError{
			Path: r.path, Kind: session.DamageGap, Line: r.lineNumber(), Seq: r.expect,
			Detail: fmt.Sprintf("event %d follows on event %d", e.Seq, r.expect-1),
		}
	}
	if bad == nil {
		return nil
	}
	bad.Next = e.Seq
	r.held = &held{e, l}
	return bad
}

// torn returns the damage of an unfinished last line, and of what is before it.
func (r *events) torn(l line) error {
	bad := r.bad
	r.bad = nil
	torn := &session.DamageError{
		Path: r.path, Kind: session.DamageTorn, Line: r.lineNumber(), Seq: r.expect, Next: r.expect, Bytes: l.next - l.start,
		Detail: "the last line was written in part, so it was never acknowledged",
	}
	if bad == nil {
		return torn
	}
	// Both are at the end. The next call finds the torn line again.
	r.number--
	r.at -= len(l.bytes)
	r.skip = l.long
	return bad
}

// lineNumber returns the number of the line that was read last, 0 when it is not known.
func (r *events) lineNumber() int {
	if r.inside {
		return 0
	}
	return r.number
}

// readHeader reads the first line.
func (r *events) readHeader() (session.Header, error) {
	l, err := r.lines.next()
	if err != nil && !errors.Is(err, io.EOF) {
		return session.Header{}, fmt.Errorf("read %s: %w", r.path, err)
	}
	r.number++
	damage := &session.DamageError{Path: r.path, Kind: session.DamageHeader, Line: 1, Next: -1, Bytes: l.next - l.start}
	if !l.whole || l.long {
		damage.Detail = "the first line is not whole"
		return session.Header{}, damage
	}
	h, err := session.ParseHeader(l.bytes)
	var newer *session.VersionError
	if errors.As(err, &newer) {
		newer.Path = r.path
		return h, newer
	}
	if err != nil {
		damage.Detail = err.Error()
		return session.Header{}, damage
	}
	r.after = l.next
	return h, nil
}

// readFrom yields the events beginning with from, and what is wrong between and
// behind them. r must be at the header, or at an event.
func (r *events) readFrom(ctx context.Context, from int64, yield func(session.Event, error) bool) {
	for {
		if err := ctx.Err(); err != nil {
			yield(session.Event{}, fmt.Errorf("read %s: %w", r.path, context.Cause(ctx)))
			return
		}
		e, err := r.next()
		var d *session.DamageError
		switch {
		case errors.Is(err, io.EOF):
			return
		case errors.As(err, &d):
			if d.Next >= 0 && d.Next < from {
				continue
			}
		case err == nil && e.Seq < from:
			continue
		}
		if !yield(e, err) || err != nil && d == nil {
			return
		}
	}
}
