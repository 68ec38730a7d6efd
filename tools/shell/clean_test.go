package shell

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// cleaned is text cut into pieces of n bytes, cleaned.
func cleaned(text string, n int) string {
	var c cleaner
	var out strings.Builder
	for p := []byte(text); len(p) > 0; p = p[min(n, len(p)):] {
		c.write(p[:min(n, len(p))])
		out.Write(c.take())
	}
	out.Write(c.close())
	return out.String()
}

func TestClean(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"text", "a\tb\n\nc", "a\tb\n\nc"},
		{"CR LF", "a\r\nb\r\n", "a\nb\n"},
		{"terminal's CR CR LF", "a\r\r\nb", "a\nb"},
		{"progress", "10%\r50%\r100%\n", "100%\n"},
		{"progress over lines", "one\n10%\r100%\ntwo\n", "one\n100%\ntwo\n"},
		{"a last CR", "100%\r", "100%"},
		{"spinner", "|\b/\b-\b\\ done\n", "\\ done\n"},
		{"backspace at the beginning", "a\n\b\bb", "a\nb"},
		{"overstrike", "N\bNA\bA", "NA"},
		{"wide backspace", "字\bx", "x"},
		{"erase the line", "old\x1b[2K\x1b[1Gnew\n", "new\n"},
		{"erase to the end", "old\r\x1b[Knew\n", "new\n"},
		{"colour", "\x1b[31mred\x1b[0m \x1b[1;38;5;196mx\x1b[m", "red x"},
		{"private parameters", "a\x1b[?25lb\x1b[>4;2mc", "abc"},
		{"title, BEL", "\x1b]0;title\x07x", "x"},
		{"title, ST", "\x1b]2;title\x1b\\x", "x"},
		{"link", "\x1b]8;;http://e\x1b\\text\x1b]8;;\x1b\\", "text"},
		{"clipboard", "\x1b]52;c;ZXZpbA==\x07x", "x"},
		{"device string", "\x1bPq#0\x1b\\x", "x"},
		{"a string that nobody ends", "\x1b]0;title\nnext\n", "\nnext\n"},
		{"charset", "x\x1b(B\x1b)0y", "xy"},
		{"keypad", "\x1b=x\x1b>y\x1b7z\x1b8", "xyz"},
		{"C1 as UTF-8", "a\u009b31mb\u009d0;t\u009cc", "abc"},
		{"control characters", "a\x00\x01\x07\x0e\x7fb", "ab"},
		{"a cut sequence", "a\x1b[31", "a"},
		{"a sequence with a line end in it", "a\x1b[3\nb", "a\nb"},
		{"Chinese", "渐\r进\n", "进\n"},
		{"no UTF-8", "a\xff\xfeb\x80", "a\ufffd\ufffdb\ufffd"},
		{"a cut character", "a\xe6\xb8", "a\ufffd"},
		{"too long for a sequence", "\x1b[" + strings.Repeat("1", 70) + "mx", strings.Repeat("1", 6) + "mx"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, n := range []int{1, 2, 3, 1000} {
				if d := cmp.Diff(c.want, cleaned(c.in, n)); d != "" {
					t.Errorf("in pieces of %d: %s", n, d)
				}
			}
		})
	}
}

func TestCleanIsBounded(t *testing.T) {
	var c cleaner
	total := 0
	chunk := bytes.Repeat([]byte("x"), 32<<10)
	for range 1000 {
		c.write(chunk)
		total += len(c.take())
	}
	if total += len(c.close()); total != 1000*len(chunk) {
		t.Errorf("%d bytes of %d came through", total, 1000*len(chunk))
	}
	if cap(c.out) > 256<<10 {
		t.Errorf("%d bytes are held for one line", cap(c.out))
	}
}

func checkClean(t interface{ Fatalf(string, ...any) }, in string, n int) {
	whole := cleaned(in, len(in)+1)
	if !utf8.ValidString(whole) {
		t.Fatalf("%q became invalid: %q", in, whole)
	}
	if i := strings.IndexFunc(whole, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 }); i >= 0 {
		t.Fatalf("%q became %q: a control character is left", in, whole)
	}
	if got := cleaned(in, n); got != whole {
		t.Fatalf("%q in pieces of %d became %q, in one %q", in, n, got, whole)
	}
}

// Laws: what comes out is valid text without control characters, and it does not depend
// on how the input was cut.
func TestCleanLaws(t *testing.T) {
	part := rapid.SampledFrom([]string{"a", "字", "\n", "\r", "\b", "\t", "\x1b", "[", "]", "\\", "\x07", "31m", "2K", "1G", "P", "(", "B", "\u009b", "\u009d", "\xff", "\xe5\xad", "\x00", ";"})
	rapid.Check(t, func(t *rapid.T) {
		in := strings.Join(rapid.SliceOfN(part, 0, 30).Draw(t, "in"), "")
		checkClean(t, in, rapid.IntRange(1, 7).Draw(t, "n"))
	})
}

func FuzzClean(f *testing.F) {
	f.Add("10%\r50%\r100%\n\x1b[31mred\x1b[0m \x1b[?25l\x1b]0;title\x07x\x1b(B\n", 3)
	f.Add("a\xff\xfe\x9b31m渐", 1)
	f.Fuzz(func(t *testing.T, in string, n int) {
		if n < 1 || len(in) > maxPending {
			t.Skip()
		}
		checkClean(t, in, n)
	})
}

func TestEnds(t *testing.T) {
	notice := func(int64) string { return "cut" }
	for _, c := range []struct{ name, in, want string }{
		{"short", "abc", "abc"},
		{"exactly", strings.Repeat("x", 60), strings.Repeat("x", 60)},
		{"one more", strings.Repeat("x", 61), strings.Repeat("x", 20) + "\n\n[… cut …]\n\n" + strings.Repeat("x", 40)},
		{"whole lines", strings.Repeat("1234567\n", 20), "1234567\n1234567\n\n[… cut …]\n\n" + strings.Repeat("1234567\n", 4)},
		{"whole characters", strings.Repeat("字", 40), strings.Repeat("字", 6) + "\n\n[… cut …]\n\n" + strings.Repeat("字", 13)},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, n := range []int{1, 7, 1000} {
				e := ends{headMax: 20, tailMax: 40}
				for p := []byte(c.in); len(p) > 0; p = p[min(n, len(p)):] {
					e.write(p[:min(n, len(p))])
				}
				if d := cmp.Diff(c.want, e.text(notice)); d != "" {
					t.Errorf("in pieces of %d: %s", n, d)
				}
			}
		})
	}
}

// Law: the notice counts exactly what is not there.
func TestEndsCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := ends{headMax: rapid.IntRange(1, 30).Draw(t, "head"), tailMax: rapid.IntRange(1, 30).Draw(t, "tail")}
		whole := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "\n", "字", "bcd"}), 0, 100).Draw(t, "text"), "")
		for p := []byte(whole); len(p) > 0; {
			n := rapid.IntRange(1, len(p)).Draw(t, "n")
			e.write(p[:n])
			p = p[n:]
		}
		var left int64 = -1
		text := e.text(func(n int64) string { left = n; return "\x00" })
		if left < 0 {
			if text != whole {
				t.Fatalf("%q became %q", whole, text)
			}
			return
		}
		head, tail, _ := strings.Cut(text, "\n[… \x00 …]\n\n")
		if !strings.HasPrefix(whole, strings.TrimSuffix(head, "\n")) || !strings.HasSuffix(whole, tail) || !utf8.ValidString(text) {
			t.Fatalf("%q became %q", whole, text)
		}
		// The head may end with a line end that only the notice needs.
		if n := int64(len(head)+len(tail)) + left - int64(len(whole)); n != 0 && !(n == 1 && strings.HasSuffix(head, "\n")) {
			t.Fatalf("%d bytes: %d shown, %d left out", len(whole), len(head)+len(tail), left)
		}
	})
}

func BenchmarkOutput(b *testing.B) {
	for name, chunk := range map[string][]byte{
		"yes":     bytes.Repeat([]byte("y\n"), 16<<10),
		"line":    bytes.Repeat([]byte("x"), 32<<10),
		"chinese": bytes.Repeat([]byte("渐进\n"), 4<<10),
		"colours": bytes.Repeat([]byte("\x1b[31mred\x1b[0m text\n"), 1<<10),
	} {
		b.Run(name, func(b *testing.B) {
			o := &output{ends: ends{headMax: 10_000, tailMax: 20_000}, live: live{send: func(string) {}}}
			b.SetBytes(int64(len(chunk)))
			b.ReportAllocs()
			for b.Loop() {
				o.write(chunk)
			}
		})
	}
}
