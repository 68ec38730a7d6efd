package jsonwire

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// value builds what encoding/json would, through the scanner.
func value(s *Scanner) any {
	switch s.Peek() {
	case '{':
		m := map[string]any{}
		for s.Open('{'); s.Next('}'); {
			k := string([]rune(string(s.Key()))) // keys are not repaired
			m[k] = value(s)
		}
		return m
	case '[':
		a := []any{}
		for s.Open('['); s.Next(']'); {
			a = append(a, value(s))
		}
		return a
	case '"':
		return s.Text()
	case 'n':
		s.Null()
		return nil
	default:
		raw := s.Raw()
		if len(raw) > 0 && (raw[0] == 't' || raw[0] == 'f') {
			return raw[0] == 't'
		}
		return json.Number(raw)
	}
}

var texts = []string{
	``, ` `, `{}`, `[]`, `{"a":1}`, `{"a":1,}`, `{,"a":1}`, `{"a" 1}`, `{"a":}`, `{"a"}`, `{1:2}`, `[1,2,[3]]`, `[1,]`, `[,1]`, `[1 2]`,
	`{"a":{"b":[{"c":null}]},"d":true,"e":false}`, `null`, `nul`, `nulll`, `true`, `tru`, `falsee`, `"a"`, `"a`, `"a" "b"`, `{} {}`, `[}`, `{]`,
	`0`, `-0`, `01`, `-`, `1.`, `.5`, `1.5e+10`, `1e`, `1E-2`, `+1`, `0x1`, `NaN`, `9223372036854775808`,
	`"\n\t\r\b\f\/\\\""`, `"\x"`, `"\u00e9"`, `"\u00g9"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ud83dx"`, `"\ude00\ud83d"`, `"\ud83d\u0041"`, `"\u0000"`,
	`"\`, `"\u12`, "\"\x1f\"", "\"\xff\"", "\"a\xc3\"", "\"\xe6\x96\"", `"漢字🐰"`, "\"\x7f\"", "\ufeff{}", " \t\r\n{ \"a\" : [ 1 , 2 ] } \n", `{"\u0061":1}`, `{"a":1,"a":2}`,
	"\"\\ud83d\\ude0\"", strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth), strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1),
	strings.Repeat(`{"a":`, 20) + "1" + strings.Repeat("}", 20),
}

// checkScanner compares the scanner with encoding/json on any text.
func checkScanner(t *testing.T, data []byte) {
	var s Scanner
	s.Reset(data)
	got := value(&s)
	err := s.End()
	if valid := json.Valid(data); valid != (err == nil) {
		t.Fatalf("%.80q: json.Valid %v, error %v", data, valid, err)
	}
	s.Reset(data)
	s.Skip()
	if skipped := s.End(); (skipped == nil) != (err == nil) {
		t.Fatalf("%.80q: Skip %v, reading it %v", data, skipped, err)
	}
	if err != nil {
		return
	}
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.UseNumber()
	var want any
	if err := d.Decode(&want); err != nil {
		t.Fatal(err)
	}
	if len(data) < MaxDepth {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%q: %s", data, diff)
		}
	}
}

func TestScanner(t *testing.T) {
	for _, text := range texts {
		checkScanner(t, []byte(text))
	}
}

func FuzzScanner(f *testing.F) {
	for _, text := range texts {
		if len(text) < MaxDepth {
			f.Add([]byte(text))
		}
	}
	f.Fuzz(checkScanner)
}

func TestScannerErrorsTellTheOffset(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":[1,x]}`: `offset 8: 'x', want a value`,
		`{"a"`:        `offset 4: the text ends, want a colon`,
		`[1 2]`:       `offset 3: '2', want a comma or ']'`,
		`{} x`:        `offset 3: 'x', want the end`,
		`"a\q"`:       `offset 2: '\\', want a valid escape`,
	} {
		var s Scanner
		s.Reset([]byte(text))
		s.Skip()
		if err := s.End(); err == nil || err.Error() != want {
			t.Errorf("%s: %v", text, err)
		}
		if s.Text() != "" || s.Null() || s.Next('}') {
			t.Errorf("%s: something was found after the error", text)
		}
	}
}

func TestInt(t *testing.T) {
	for text, want := range map[string]int64{`12`: 12, `-3`: -3, `9223372036854775807`: 1<<63 - 1} {
		var s Scanner
		s.Reset([]byte(text))
		if v, ok := s.Int(); v != want || !ok {
			t.Errorf("%s: %d %v", text, v, ok)
		}
	}
	for _, text := range []string{`9223372036854775808`, `1.5`, `1e3`, `"1"`, `null`, `{}`, `x`} {
		var s Scanner
		s.Reset([]byte(text))
		if v, ok := s.Int(); ok {
			t.Errorf("%s: %d", text, v)
		}
	}
}

func TestACopyIsAPlaceToComeBackTo(t *testing.T) {
	var s Scanner
	s.Reset([]byte(`[{"a":"x"},2]`))
	s.Open('[')
	s.Next(']')
	there := s
	s.Skip()
	s.Next(']')
	if v, ok := s.Int(); v != 2 || !ok {
		t.Fatal(v)
	}
	there.Open('{')
	there.Next('}')
	if k := string(there.Key()); k != "a" || there.Text() != "x" {
		t.Fatal(k)
	}
}

func checkAppend(t *testing.T, s string) {
	out := AppendString([]byte("x"), s)
	if out[0] != 'x' || !json.Valid(out[1:]) {
		t.Fatalf("%q: %s", s, out)
	}
	var got, want string
	if err := json.Unmarshal(out[1:], &got); err != nil {
		t.Fatal(err)
	}
	quoted, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(quoted, &want); err != nil || got != want {
		t.Fatalf("%q: %q, want %q (%v)", s, got, want, err)
	}
}

func TestAppendString(t *testing.T) {
	for _, s := range []string{"", "plain", "a\"b\\c", "\n\r\t\b\f\x00\x1f\x7f", "<a&b>", "漢字 é 🐰", "\xff\xfea", "\xe6\x96", "a\xc3", "\u2028\ufffd", "\xed\xa0\x80"} {
		checkAppend(t, s)
	}
	if got := string(AppendString(nil, "<\n\x01é")); got != "\"<\\n\\u0001é\"" {
		t.Error(got)
	}
}

func FuzzAppendString(f *testing.F) {
	f.Add("a\"\\\n\x00\xff漢")
	f.Fuzz(checkAppend)
}

func BenchmarkScanner(b *testing.B) {
	data := []byte(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1764540000,"model":"m","choices":[{"index":0,"delta":{"content":"tok "},"finish_reason":null}]}`)
	var s Scanner
	b.ReportAllocs()
	for b.Loop() {
		s.Reset(data)
		s.Skip()
		if s.End() != nil {
			b.Fatal(s.Err())
		}
	}
}
