package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestLinesAreAsTheFormatSays(t *testing.T) {
	if got, want := string(appendCRC([]byte(`{"dsh":"session","version":1,"id":"x","created":1`), []byte(`{"dsh":"session","version":1,"id":"x","created":1`))),
		`{"dsh":"session","version":1,"id":"x","created":1,"crc":"227a8c95"}`; got != want {
		t.Errorf("the line of the format's own example is\n%s\nwant\n%s", got, want)
	}
	h := Header{Version: 1, ID: "x", Created: 1, Cwd: "/a&b", Parent: "p", Seed: 12, Origin: "subagent", Depth: 2}
	want := `{"dsh":"session","version":1,"id":"x","created":1,"cwd":"/a&b","parent":"p","seed":12,"origin":"subagent","depth":2,"crc":"`
	if got := string(h.Line()); !strings.HasPrefix(got, want) {
		t.Errorf("the header is %s, want the members %s", got, want)
	}
	if got, err := ParseHeader(h.Line()); err != nil || got != h {
		t.Errorf("the header is read as %+v, %v", got, err)
	}
	e := Event{Seq: 7, Time: 9, Type: "a/b", Data: json.RawMessage(`{"x":1}`), Ignorable: true, Surface: &SurfaceOp{Op: OpReplace, From: 1, To: 3}, Cites: []Range{{1, 3}, {5, 5}}}
	want = `{"seq":7,"time":9,"type":"a/b","data":{"x":1},"ignorable":true,"surface":{"op":"replace","from":1,"to":3},"cites":[[1,3],[5,5]],"crc":"`
	if got := string(e.Line()); !strings.HasPrefix(got, want) {
		t.Errorf("the event is %s, want the members %s", got, want)
	}
}

// generatedEvent draws an event with a place in a log.
func generatedEvent() *rapid.Generator[Event] {
	return rapid.Custom(func(t *rapid.T) Event {
		data, err := newEncoder().encode(map[string]any{
			"text": rapid.String().Draw(t, "text"), "surface": map[string]any{"op": "append"}, "n": rapid.Int().Draw(t, "n"),
		})
		if err != nil {
			t.Fatal(err)
		}
		e := Event{
			Seq: rapid.Int64Range(0, 1<<62).Draw(t, "seq"), Time: rapid.Int64().Draw(t, "time"),
			Type: rapid.SampledFrom([]string{TurnStart, AssistantMessage, ToolResult, "plugin/event", `odd"name`, "名/前"}).Draw(t, "type"),
			Data: data, Ignorable: rapid.Bool().Draw(t, "ignorable"),
		}
		switch rapid.IntRange(0, 3).Draw(t, "surface") {
		case 1:
			e.Surface = &SurfaceOp{Op: OpAppend}
		case 2:
			e.Surface = &SurfaceOp{Op: OpReplace, From: rapid.Int64Range(0, 9).Draw(t, "from"), To: rapid.Int64Range(0, 9).Draw(t, "to")}
		case 3:
			e.Surface = &SurfaceOp{Op: OpTruncate, To: rapid.Int64Range(-1, 9).Draw(t, "to")}
		}
		for range rapid.IntRange(0, 3).Draw(t, "cites") {
			e.Cites = append(e.Cites, Range{rapid.Int64().Draw(t, "from"), rapid.Int64().Draw(t, "to")})
		}
		return e
	})
}

func TestALineIsReadAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := generatedEvent().Draw(t, "event")
		line := e.Line()
		for name, parse := range map[string]func([]byte) (Event, error){"ParseLine": ParseLine, "ParseEnvelope": ParseEnvelope} {
			got, err := parse(line)
			if err != nil {
				t.Fatalf("%s(%s): %v", name, line, err)
			}
			if !bytes.Equal(got.Line(), line) {
				t.Fatalf("%s does not keep the line", name)
			}
			got.line = nil
			if !reflect.DeepEqual(got, e) {
				t.Fatalf("%s(%s) = %+v, want %+v", name, line, got, e)
			}
		}
		if bytes.IndexByte(line, '\n') >= 0 {
			t.Fatalf("the line has a line feed: %q", line)
		}
	})
}

// envelope is the format in the terms of encoding/json.
type envelope struct {
	Seq       *int64           `json:"seq"`
	Time      *int64           `json:"time"`
	Type      *string          `json:"type"`
	Data      *json.RawMessage `json:"data"`
	Ignorable bool             `json:"ignorable"`
	Surface   *SurfaceOp       `json:"surface"`
	Cites     []Range          `json:"cites"`
}

// FuzzParseLine makes lines with a right checksum of anything. Whatever is
// accepted means the same to encoding/json.
func FuzzParseLine(f *testing.F) {
	for _, seed := range []string{
		`{"seq":0,"time":1,"type":"turn/start","data":{"turn":1}`,
		`{"seq":0,"time":1,"type":"user/message","data":{"content":[]},"surface":{"op":"append"}`,
		`{"seq":0,"time":1,"type":"x/y","data":{"a":{"surface":{"op":"append"}}}`,
		`{"seq":0,"time":1,"type":"x/y","data":{"a":1,"surface":{"op":"append"}`,
		`{"seq":0,"time":1,"type":"x/y","data":{},"surface":{"op":"truncate","to":-1}`,
		`{"seq":3,"time":-5,"type":"x/y","data":{"s":"é\n"},"ignorable":true,"cites":[[0,1],[2,2]]`,
		` { "type" : "x/y" , "seq" : 1 , "data" : { } , "time" : 2`,
		`{"seq":1,"seq":2,"time":1,"type":"x","data":{}`, `{"seq":1.0,"time":1,"type":"x","data":{}`, `{"seq":1,"time":1,"type":"x","data":[]`,
		`{"seq":1,"time":1,"type":"x","data":{}},{"b":{}`, `{"Seq":1,"time":1,"type":"x","data":{}`, `{"seq":1,"time":1,"type":"x"`, ``, `{`,
		`{"seq":1,"time":1,"type":"x","data":{},"cites":[[1]]`, `{"seq":1,"time":1,"type":"x","data":{},`, `{"seq":0,"time":0,"type":"x","data":{{}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		line := appendCRC(bytes.Clone(body), body)
		e, err := ParseLine(line)
		if err != nil {
			if errors.Is(err, ErrChecksum) || !errors.Is(err, ErrSyntax) {
				t.Fatalf("ParseLine(%q): %v", line, err)
			}
			return
		}
		whole := append(bytes.Clone(body), '}')
		var want envelope
		if err := json.Unmarshal(whole, &want); err != nil {
			t.Fatalf("ParseLine accepts %q, encoding/json does not: %v", line, err)
		}
		if *want.Seq != e.Seq || *want.Time != e.Time || *want.Type != e.Type || want.Ignorable != e.Ignorable ||
			!reflect.DeepEqual(want.Surface, e.Surface) || fmt.Sprint(want.Cites) != fmt.Sprint(e.Cites) {
			t.Fatalf("ParseLine(%q) = %+v, encoding/json says %+v", line, e, want)
		}
		if !bytes.Equal(*want.Data, e.Data) {
			t.Fatalf("ParseLine(%q) has the data %s, encoding/json %s", line, e.Data, *want.Data)
		}
		// A visitor that checks the data sees the same.
		v, err := ParseEnvelope(line)
		if err != nil {
			t.Fatalf("ParseEnvelope(%q): %v", line, err)
		}
		if s := newScanner(v.Data); json.Valid(v.Data) {
			s.skip()
			if !s.end() || !reflect.DeepEqual(v, e) {
				t.Fatalf("ParseEnvelope(%q) = %+v, ParseLine %+v", line, v, e)
			}
		}
	})
}

// FuzzParseEnvelope checks that what is found by its place is right whenever the
// data is JSON: nothing is accepted that ParseLine refuses.
func FuzzParseEnvelope(f *testing.F) {
	f.Add([]byte(`{"a":1},"surface":{"op":"append"}`))
	f.Add([]byte(`{"a":1,"surface":{"op":"append"}`))
	f.Add([]byte(`{"a":1},"surface":{"op":"append"},"surface":{"op":"append"}`))
	f.Add([]byte(`{},"ignorable":true`))
	f.Add([]byte(`{"s":",\"surface\":{\"op\":\"append\"}"}`))
	f.Fuzz(func(t *testing.T, rest []byte) {
		body := append([]byte(`{"seq":1,"time":2,"type":"x/y","data":`), rest...)
		line := appendCRC(bytes.Clone(body), body)
		e, err := ParseEnvelope(line)
		if err != nil || !json.Valid(e.Data) {
			return
		}
		want, err := ParseLine(line)
		if err != nil || !reflect.DeepEqual(e, want) {
			t.Fatalf("ParseEnvelope(%q) = %+v; ParseLine gives %+v, %v", line, e, want, err)
		}
	})
}

func TestTrust_L06_EveryFlippedBitOfALineIsNoticed(t *testing.T) {
	for _, line := range [][]byte{
		Header{Version: 1, ID: "x", Created: 1, Cwd: "/home/me"}.Line(),
		Event{Seq: 3, Time: 5, Type: TurnEnd, Data: json.RawMessage(`{"turn":1,"reason":"completed"}`)}.Line(),
		Event{Seq: 4, Time: 5, Type: UserMessage, Data: json.RawMessage(`{"id":"a","content":[]}`), Surface: &SurfaceOp{Op: OpAppend}}.Line(),
	} {
		for i := range 8 * len(line) {
			bad := bytes.Clone(line)
			bad[i/8] ^= 1 << (i % 8)
			_, eventErr := ParseLine(bad)
			_, envelopeErr := ParseEnvelope(bad)
			_, headerErr := ParseHeader(bad)
			if !errors.Is(eventErr, ErrChecksum) || !errors.Is(envelopeErr, ErrChecksum) || !errors.Is(headerErr, ErrChecksum) {
				t.Fatalf("bit %d of %s is flipped: %v, %v, %v", i, line, eventErr, envelopeErr, headerErr)
			}
		}
	}
}

func TestValidID(t *testing.T) {
	for id, ok := range map[string]bool{
		"a": true, "A.b_c-9": true, "0193b2c4-0000-7000-8000-000000000000": true, strings.Repeat("x", 128): true, "a..b": true,
		"": false, ".a": false, "..": false, strings.Repeat("x", 129): false, "a/b": false, "a b": false, "é": false, "a\x00": false, `a\b`: false, "a:b": false, "[": false, "@": false, "`": false, "{": false,
	} {
		if err := ValidID(id); (err == nil) != ok {
			t.Errorf("ValidID(%q) = %v", id, err)
		}
	}
}

func TestTrust_L11_ANewerHeaderSaysUpgrade(t *testing.T) {
	h := Header{Version: Version + 1, ID: "x", Created: 1, Cwd: "/w"}
	got, err := ParseHeader(h.Line())
	var newer *VersionError
	if !errors.As(err, &newer) || newer.Version != Version+1 || !strings.Contains(err.Error(), "upgrade") {
		t.Errorf("the header of a newer format gives %v", err)
	}
	if got.ID != "x" || got.Cwd != "/w" {
		t.Errorf("what can be read of it is %+v", got)
	}
}
