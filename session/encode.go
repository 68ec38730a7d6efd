package session

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Event returns the draft as the event seq of a log, made at time (Unix milliseconds). It
// is for backends and tools that write a log without a [Session], and checks
// nothing but that the data is a JSON object.
func (d Draft) Event(seq, time int64) (Event, error) {
	data, err := newEncoder().encode(d.Data)
	if err != nil {
		return Event{}, fmt.Errorf("encode %s: %w", d.Type, err)
	}
	e := d.event(data)
	e.Seq, e.Time = seq, time
	appendEvent(nil, &e)
	return e, nil
}

// event returns the draft as an event that has no place in a log yet.
func (d Draft) event(data json.RawMessage) Event {
	e := Event{Type: d.Type, Data: data, Ignorable: ignorable(d.Type), Surface: d.Surface, Cites: d.Cites}
	if e.Surface == nil {
		e.Surface = usualSurface(&e)
	}
	return e
}

// usualSurface returns the surface operation that a core type has when its draft
// names none.
func usualSurface(e *Event) *SurfaceOp {
	switch e.Type {
	case UserMessage, SteeringMessage, AssistantMessage, ToolResult:
		return &SurfaceOp{Op: OpAppend}
	case Rewound:
		var d RewoundData
		if json.Unmarshal(e.Data, &d) == nil {
			return &SurfaceOp{Op: OpTruncate, To: d.To}
		}
	}
	return nil
}

// encoder encodes the data of events.
type encoder struct {
	buf bytes.Buffer
	enc *json.Encoder
}

func newEncoder() *encoder {
	e := new(encoder)
	e.enc = json.NewEncoder(&e.buf)
	e.enc.SetEscapeHTML(false)
	return e
}

// encode returns v as a JSON object in one line. The bytes last until the
// encoder is used for something else.
func (e *encoder) encode(v any) (json.RawMessage, error) {
	if v == nil {
		return json.RawMessage("{}"), nil
	}
	from := e.buf.Len()
	if err := e.enc.Encode(v); err != nil {
		return nil, err
	}
	data := bytes.TrimSuffix(e.buf.Bytes()[from:], []byte("\n"))
	if data[0] != '{' {
		return nil, fmt.Errorf("the data is a %T, which is no JSON object", v)
	}
	return data, nil
}

const encoderKeeps = 1 << 20 // bytes; a larger buffer is not kept

func (s *store) encoder() *encoder { return s.encoders.Get().(*encoder) }

func (s *store) release(e *encoder) {
	if e.buf.Cap() <= encoderKeeps {
		e.buf.Reset()
		s.encoders.Put(e)
	}
}
