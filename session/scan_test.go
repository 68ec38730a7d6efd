package session

import (
	"bytes"
	"encoding/json"
	"hash/crc32"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCRCIsCastagnoli(t *testing.T) {
	table := crc32.MakeTable(crc32.Castagnoli)
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "p")
		if got, want := crc(p), crc32.Checksum(p, table); got != want {
			t.Fatalf("crc(%x) = %08x, want %08x", p, got, want)
		}
	})
}

// FuzzScan holds the scanner against encoding/json: it accepts the same values,
// and reads the same strings.
func FuzzScan(f *testing.F) {
	for _, seed := range []string{
		`{}`, `[]`, `null`, `true`, `falsey`, `-0`, `01`, `1.5e-7`, `1.`, `-`, `1e`, `"a"`, `"`, `"\"`, `"\u00e9\ud83d\ude00\ud83d"`, `"\ud83dx"`, `"\ud83d\u0041"`,
		`"\x"`, `"\u12g4"`, "\"\x01\"", "\"\xff\xfe\"", `"日本語 ok"`, `"12345678\n\t\t\"quoted\" end of it"`, ` { "a" : [ 1 , { "b" : null } ] } `,
		`{"a":1,}`, `[1,]`, `[1 2]`, `{"a" 1}`, `{a:1}`, `{"a":1}x`, `[[[[[[]]]]]]`, strings.Repeat("[", 10_002), "\"\x7f\x80\"", `"12345678901234567é\\"`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := newScanner(data)
		s.skip()
		if got, want := s.end(), json.Valid(data); got != want {
			t.Fatalf("the scanner accepts %q: %v, encoding/json: %v", data, got, want)
		}
		var want string
		if json.Unmarshal(data, &want) != nil || bytes.Equal(bytes.TrimSpace(data), []byte("null")) {
			return
		}
		s = newScanner(data)
		if got := s.str(); got != want || !s.end() {
			t.Fatalf("the scanner reads %q as %q, want %q", data, got, want)
		}
		s = newScanner(data)
		if got := s.shared(); got != want || !s.end() {
			t.Fatalf("the scanner reads the name %q as %q, want %q", data, got, want)
		}
	})
}

// FuzzInteger holds integers against encoding/json.
func FuzzInteger(f *testing.F) {
	for _, seed := range []string{"0", "-0", "7", "-12", "00", "1.0", "1e3", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "-", "", "null", "922337203685477580799"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data string) {
		var want int64
		ok := json.Unmarshal([]byte(data), &want) == nil
		s := newScanner([]byte(data))
		got := s.integer()
		if s.end() != ok || ok && got != want {
			t.Fatalf("the scanner reads %q as %d, %v; want %d, %v", data, got, s.end(), want, ok)
		}
	})
}

func TestSpecialFindsTheFirstByteInAnyAlignment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SliceOfN(rapid.SampledFrom([]byte{'a', '~', ' ', 0x7f, 0x80, 0xff, '"', '\\', 0, 0x1f, 0x21, 0x23, 0x5b, 0x5d}), 0, 40).Draw(t, "p")
		want, wantHigh := len(p), false
		for i, b := range p {
			if b < ' ' || b == '"' || b == '\\' {
				want = i
				break
			}
			wantHigh = wantHigh || b >= 0x80
		}
		if n, high := special(p); n != want || high != wantHigh {
			t.Fatalf("special(%q) = %d, %v; want %d, %v", p, n, high, want, wantHigh)
		}
	})
}
