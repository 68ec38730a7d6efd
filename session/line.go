package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// MaxLine is the most bytes that one line of a log may have, its line feed included.
const MaxLine = 16 << 20

// What makes a line of no use.
var (
	// ErrChecksum: the bytes are not those that were written.
	ErrChecksum = errors.New("its checksum does not match")
	// ErrSyntax: the checksum is right, but it is no line of this format.
	ErrSyntax = errors.New("it is no event")
)

// A line ends in ,"crc":"xxxxxxxx"} over all bytes before that.
const (
	crcKey  = `,"crc":"`
	crcSize = len(crcKey) + 8 + len(`"}`)
)

// checkCRC returns the part of a line before its checksum, if that matches.
func checkCRC(line []byte) ([]byte, error) {
	n := len(line) - crcSize
	if n < 0 {
		return nil, ErrChecksum
	}
	var buf [crcSize]byte
	want := appendCRC(buf[:0], line[:n])
	if !bytes.Equal(line[n:], want) {
		return nil, ErrChecksum
	}
	return line[:n], nil
}

// appendCRC appends the end of a line whose bytes so far are p.
func appendCRC(dst, p []byte) []byte {
	const digits = "0123456789abcdef"
	sum := crc(p)
	dst = append(dst, crcKey...)
	for shift := 28; shift >= 0; shift -= 4 {
		dst = append(dst, digits[sum>>shift&0xf])
	}
	return append(dst, `"}`...)
}

// Line returns the event as a line of a log, without the line feed. For an event
// that was read from a log or appended to one these are the very bytes. Nobody
// may change them.
func (e Event) Line() []byte {
	if e.line != nil {
		return e.line
	}
	return appendEvent(nil, &e)
}

// appendEvent appends e's line to dst and makes e.line and e.Data parts of it.
func appendEvent(dst []byte, e *Event) []byte {
	from := len(dst)
	dst = append(dst, `{"seq":`...)
	dst = strconv.AppendInt(dst, e.Seq, 10)
	dst = append(dst, `,"time":`...)
	dst = strconv.AppendInt(dst, e.Time, 10)
	dst = append(dst, `,"type":`...)
	dst = appendString(dst, e.Type)
	dst = append(dst, `,"data":`...)
	data := len(dst)
	dst = append(dst, e.Data...)
	dataEnd := len(dst)
	if e.Ignorable {
		dst = append(dst, `,"ignorable":true`...)
	}
	if e.Surface != nil {
		dst = appendSurface(dst, e.Surface)
	}
	if len(e.Cites) > 0 {
		dst = appendCites(dst, e.Cites)
	}
	dst = appendCRC(dst, dst[from:])
	e.Data = dst[data:dataEnd:dataEnd]
	e.line = dst[from:len(dst):len(dst)]
	return dst
}

// appendString appends a JSON string. Type names need no escapes; anything else is left to encoding/json.
func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if b := s[i]; b < ' ' || b == '"' || b == '\\' || b > '~' {
			quoted, err := json.Marshal(s)
			if err != nil {
				panic("session: a string cannot be encoded: " + err.Error())
			}
			return append(dst, quoted...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

func appendSurface(dst []byte, op *SurfaceOp) []byte {
	dst = append(dst, `,"surface":{"op":`...)
	dst = appendString(dst, string(op.Op))
	if op.From != 0 {
		dst = append(dst, `,"from":`...)
		dst = strconv.AppendInt(dst, op.From, 10)
	}
	if op.To != 0 {
		dst = append(dst, `,"to":`...)
		dst = strconv.AppendInt(dst, op.To, 10)
	}
	return append(dst, '}')
}

func appendCites(dst []byte, cites []Range) []byte {
	dst = append(dst, `,"cites":[`...)
	for i, r := range cites {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '[')
		dst = strconv.AppendInt(dst, r[0], 10)
		dst = append(dst, ',')
		dst = strconv.AppendInt(dst, r[1], 10)
		dst = append(dst, ']')
	}
	return append(dst, ']')
}

// ParseLine reads a line of a log, without its line feed, that holds an event. The
// event shares line's bytes. The error is [ErrChecksum] or wraps [ErrSyntax].
func ParseLine(line []byte) (Event, error) {
	body, err := checkCRC(line)
	if err != nil {
		return Event{}, err
	}
	return parseBody(line, body)
}

// ParseEnvelope is [ParseLine] for a [Visitor], which looks at the data itself: when the
// line is as this program writes it, the data is found by its place and not read.
func ParseEnvelope(line []byte) (Event, error) {
	body, err := checkCRC(line)
	if err != nil {
		return Event{}, err
	}
	s := newScanner(body)
	e := Event{line: line}
	if !s.literal(`{"seq":`) {
		return parseBody(line, body)
	}
	e.Seq = s.integer()
	if !s.literal(`,"time":`) {
		return parseBody(line, body)
	}
	e.Time = s.integer()
	if !s.literal(`,"type":`) {
		return parseBody(line, body)
	}
	e.Type = s.typeName()
	if !s.literal(`,"data":`) || s.bad || e.Type == "" || e.Seq < 0 {
		return parseBody(line, body)
	}
	// What can follow the data cannot be the end of an object with a brace more or
	// less, so if the rest is one, that is where the data ends.
	data, appends := bytes.CutSuffix(body[s.at:], []byte(`,"surface":{"op":"append"}`))
	if n := len(data); n < 2 || data[0] != '{' || data[n-1] != '}' || !appends && mayHaveMore(data) {
		return parseBody(line, body)
	}
	if appends {
		e.Surface = &SurfaceOp{Op: OpAppend}
	}
	e.Data = data[:len(data):len(data)]
	return e, nil
}

// mayHaveMore reports whether members may stand behind the data that end like an
// object: only a surface operation does.
func mayHaveMore(data []byte) bool {
	last := bytes.LastIndexByte(data, '{')
	return last >= len(`,"surface":`) && string(data[last-len(`,"surface":`):last]) == `,"surface":`
}

func parseBody(line, body []byte) (Event, error) {
	s := newScanner(body)
	e := Event{line: line}
	var has struct{ seq, time, typ bool }
	// The object's closing brace is behind the checksum.
	s.expect('{')
	for first := true; !s.bad && s.at < len(s.src); first = false {
		if !first {
			s.expect(',')
		}
		name := s.name()
		s.expect(':')
		switch string(name) {
		case "seq":
			e.Seq, has.seq = s.integer(), true
		case "time":
			e.Time, has.time = s.integer(), true
		case "type":
			e.Type, has.typ = s.typeName(), true
		case "data":
			if s.peek() != '{' {
				s.fail()
			}
			e.Data = s.raw()
		case "ignorable":
			e.Ignorable = s.boolean()
		case "surface":
			e.Surface = s.surface()
		case "cites":
			s.array(func() { e.Cites = append(e.Cites, s.cite()) })
		default:
			return Event{}, fmt.Errorf("%w: it has the unknown member %q", ErrSyntax, name)
		}
	}
	switch {
	case s.bad:
		return Event{}, fmt.Errorf("%w: it is malformed near byte %d", ErrSyntax, s.at)
	case !has.seq || !has.time || !has.typ || e.Data == nil:
		return Event{}, fmt.Errorf("%w: seq, time, type or data is missing", ErrSyntax)
	case e.Seq < 0 || e.Type == "":
		return Event{}, fmt.Errorf("%w: its seq is negative or its type empty", ErrSyntax)
	}
	return e, nil
}

func (s *scanner) surface() *SurfaceOp {
	if s.literal(`{"op":"append"}`) {
		return &SurfaceOp{Op: OpAppend}
	}
	op := new(SurfaceOp)
	s.object(func(name []byte) {
		switch string(name) {
		case "op":
			op.Op = Op(s.str())
		case "from":
			op.From = s.integer()
		case "to":
			op.To = s.integer()
		default:
			s.fail()
		}
	})
	switch op.Op {
	case OpAppend, OpReplace, OpTruncate:
	default:
		s.fail()
	}
	return op
}

func (s *scanner) cite() (r Range) {
	n := 0
	s.array(func() {
		v := s.integer()
		if n < len(r) {
			r[n] = v
		}
		n++
	})
	if n != len(r) {
		s.fail()
	}
	return r
}

// typeName consumes the name of an event type. The core's names are shared.
func (s *scanner) typeName() string {
	begin := s.at
	name, plain := s.quoted()
	if !plain {
		s.at = begin
		return s.str()
	}
	switch string(name) {
	case TurnStart:
		return TurnStart
	case TurnEnd:
		return TurnEnd
	case StepStart:
		return StepStart
	case StepEnd:
		return StepEnd
	case UserMessage:
		return UserMessage
	case AssistantChunk:
		return AssistantChunk
	case AssistantMessage:
		return AssistantMessage
	case ToolCall:
		return ToolCall
	case ToolResult:
		return ToolResult
	default:
		return string(name)
	}
}

// headerLine is a header as it stands in the first line of a log.
type headerLine struct {
	DSH     string `json:"dsh"`
	Version int    `json:"version"`
	ID      string `json:"id"`
	Created int64  `json:"created"`
	Cwd     string `json:"cwd,omitempty"`
	Parent  string `json:"parent,omitempty"`
	Seed    int64  `json:"seed,omitempty"`
	Origin  string `json:"origin,omitempty"`
	Depth   int    `json:"depth,omitempty"`
}

// Line returns the header as the first line of a log, without the line feed.
func (h Header) Line() []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(headerLine{"session", h.Version, h.ID, h.Created, h.Cwd, h.Parent, h.Seed, h.Origin, h.Depth}); err != nil {
		panic("session: a header cannot be encoded: " + err.Error())
	}
	line := bytes.TrimSuffix(b.Bytes(), []byte("}\n"))
	return appendCRC(line, line)
}

// ParseHeader reads the first line of a log, without its line feed. The error is
// [ErrChecksum], wraps [ErrSyntax], or is a [*VersionError] without a path; then
// the header holds what could be read of it.
func ParseHeader(line []byte) (Header, error) {
	body, err := checkCRC(line)
	if err != nil {
		return Header{}, err
	}
	var h headerLine
	if err := json.Unmarshal(append(bytes.Clone(body), '}'), &h); err != nil {
		return Header{}, fmt.Errorf("%w: it is no header: %v", ErrSyntax, err)
	}
	if h.DSH != "session" {
		return Header{}, fmt.Errorf("%w: it is no header", ErrSyntax)
	}
	header := Header{h.Version, h.ID, h.Created, h.Cwd, h.Parent, h.Seed, h.Origin, h.Depth}
	if h.Version > Version {
		return header, &VersionError{Version: h.Version}
	}
	if h.Version < 1 || ValidID(h.ID) != nil || h.Seed < 0 || h.Depth < 0 {
		return Header{}, fmt.Errorf("%w: its header has a value out of range", ErrSyntax)
	}
	return header, nil
}

// ValidID returns nil when id may name a session: 1 to 128 of the characters
// A-Z a-z 0-9 . _ -, not beginning with a dot.
func ValidID(id string) error {
	ok := id != "" && len(id) <= 128 && id[0] != '.'
	for i := range len(id) {
		b := id[i]
		ok = ok && ('a' <= b|0x20 && b|0x20 <= 'z' || '0' <= b && b <= '9' || b == '.' || b == '_' || b == '-')
	}
	if !ok {
		return fmt.Errorf("%q cannot name a session: use 1 to 128 of A-Z a-z 0-9 . _ -, the first no dot", id)
	}
	return nil
}
