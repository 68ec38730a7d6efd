package cells

import (
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

// TestCase_o_tui_01 measures text in cells, by what a reader sees as one character.
func TestCase_o_tui_01(t *testing.T) {
	for text, want := range map[string]int{"你好，abc": 9, "👨‍👩‍👧": 2, "é": 1, "ｶﾞ": 2, "\t": 4, "": 0, "ascii": 5} {
		if got := Plain(text).Width(); got != want {
			t.Errorf("%q takes %d cells, want %d", text, got, want)
		}
	}
}

// TestTrust_O01_NothingControlsTheTerminal puts sequences that do through a line.
func TestTrust_O01_NothingControlsTheTerminal(t *testing.T) {
	for _, s := range []string{
		"\x1b[2J", "\x1b]0;title\x07", "\x1b]52;c;AAAA\x1b\\", "\x1bPq\x1b\\", "\x1b[?1049h", "\x1b[6n", "\x1bc", "\x9b2J", "\u009b2J", "a\rb", "a\bb",
		"\x07", "\x0e", "\x1b]8;;http://x\x1b\\x", "\u202eabc", "\u2066x", "\u200b", "\ufeff", "\x00", "\x7f", "\xff\xfe",
	} {
		for name, out := range map[string]string{
			"plain": Plain(s).ANSI(true), "styled": Styled(s, Style{Fg: Red}).ANSI(false), "added": Line{}.Add(s, Style{}).ANSI(true),
			"wrapped": Wrap(Plain(s), 10, 2)[0].ANSI(true), "fitted": Plain(s + s + s).Fit(5).ANSI(true),
		} {
			if i := strings.IndexFunc(out, func(r rune) bool { return unicode.IsControl(r) || r >= 0x2066 && r <= 0x2069 || r == 0x202e }); i >= 0 {
				t.Errorf("%q %s is %q", s, name, out)
			}
		}
	}
}

func drawText(t *rapid.T) string {
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"word", "a", " ", "  ", "你好", "，", "👨‍👩‍👧", "é", "longwordwithoutblanks", "-", "\t"}), 0, 30).Draw(t, "text"), "")
}

func TestWrapKeepsEverythingWithinTheWidth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := drawText(t)
		width, indent := rapid.IntRange(4, 30).Draw(t, "width"), rapid.IntRange(0, 6).Draw(t, "indent")
		line := Plain(text)
		var got strings.Builder
		for _, l := range Wrap(line, width, indent) {
			if l.Width() > width {
				t.Fatalf("%q at %d has the line %q of %d cells", text, width, l.Text(), l.Width())
			}
			got.WriteString(l.Text())
		}
		squeeze := func(s string) string { return strings.ReplaceAll(s, " ", "") }
		if squeeze(got.String()) != squeeze(line.Text()) {
			t.Fatalf("%q became %q", line.Text(), got.String())
		}
	})
}

func TestFitCutsBetweenCharacters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := Plain(drawText(t)).Add(drawText(t), Style{Bold: true})
		width := rapid.IntRange(1, 30).Draw(t, "width")
		got := line.Fit(width)
		if got.Width() > width {
			t.Fatalf("%q at %d became %q", line.Text(), width, got.Text())
		}
		if line.Width() <= width && got.Text() != line.Text() || !strings.HasPrefix(line.Text(), strings.TrimRight(got.Text(), ".")) {
			t.Fatalf("%q at %d became %q", line.Text(), width, got.Text())
		}
	})
}

func TestWrapBreaksAtWords(t *testing.T) {
	for _, c := range []struct {
		text   string
		width  int
		indent int
		want   string
	}{
		{"the quick brown fox", 10, 0, "the quick |brown fox"},
		{"the quick brown fox", 10, 2, "the quick |  brown |  fox"},
		{"abcdefghijkl", 5, 0, "abcde|fghij|kl"},
		{"你好世界", 5, 0, "你好|世界"},
		{"", 5, 0, ""},
	} {
		var got []string
		for _, l := range Wrap(Plain(c.text), c.width, c.indent) {
			got = append(got, l.Text())
		}
		if s := strings.Join(got, "|"); s != c.want {
			t.Errorf("%q at %d is %q, want %q", c.text, c.width, s, c.want)
		}
	}
}

func TestLinks(t *testing.T) {
	for url, want := range map[string]bool{
		"https://example.com/a?b=c#d": true, "http://localhost:80": true, "": false, "file:///etc/passwd": false, "javascript:x": false,
		"https://a\x1b\\\x1b]0;t\x07": false, "https://a b": false, "https://\u0430.example": false, "https://" + strings.Repeat("a", 3000): false,
	} {
		out := Wrap(Styled("a label of several words", Style{Link: url}), 10, 0)[1].ANSI(false)
		if got := strings.Contains(out, "\x1b]8;;"+url+"\x1b\\"); got != want || !want && strings.Contains(out, "\x1b") {
			t.Errorf("%q is written as %q", url, out)
		}
	}
}
