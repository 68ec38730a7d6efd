package tui

import (
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"github.com/dsh-harness/dsh/internal/cells"
)

func rendered(text string, width int) string {
	m := markdown{blank: true}
	return textOf(append(m.write(text, width), m.end(width)...))
}

func TestMarkdown(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{"# Title\n\n\n\ntext", "Title\n\ntext"},
		{"a **bold** and *soft* `code` word", "a bold and soft code word"},
		{"snake_case_name and 2 * 3 * 4", "snake_case_name and 2 * 3 * 4"},
		{"an open ** mark and ` tick", "an open ** mark and ` tick"},
		{"- one\n- two words that go on and on until they wrap\n  - deep", "- one\n- two words that go on and on\n  until they wrap\n  - deep"},
		{"12. twelve\n", "12. twelve"},
		{"```go\nfunc main() {}\n\n# no title\n```\nafter", "  func main() {}\n\n  # no title\nafter"},
		{"````\n```\n````", "  ```"},
		{"> said\n---\n| a | b |", "| said\n" + strings.Repeat("-", 32) + "\n| a | b |"},
		{"[a link](http://x) [http://y](http://y)", "a link (http://x) http://y"},
		{"你好世界你好世界你好世界你好世界你好世界", "你好世界你好世界你好世界你好世界\n你好世界"},
		{"#hash and #1", "#hash and #1"},
	} {
		if got := rendered(c.source, 32); got != c.want {
			t.Errorf("%q is\n%s\nwant\n%s", c.source, got, c.want)
		}
	}
}

// TestMarkdownIsTheSameHoweverItComes: what was printed is never wrong later, so it can go into the history of the terminal.
func TestMarkdownIsTheSameHoweverItComes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(rapid.SampledFrom([]string{"word ", "word ", "some more words of a paragraph ", "**b", "** ", "`c`", "\n", "\n\n", "```", "```go\n", "- x", "# h", "> q", "你好", "[l](u)", "_i_", "|a|", "~~~\n", "\x1b[2J"}), 0, 40).Draw(t, "pieces")
		width := rapid.IntRange(10, 60).Draw(t, "width")
		m := markdown{blank: true}
		var lines []cells.Line
		for _, p := range pieces {
			lines = append(lines, m.write(p, width)...)
			m.open(width) // looking changes nothing
		}
		lines = append(lines, m.end(width)...)
		if got, want := textOf(lines), rendered(strings.Join(pieces, ""), width); got != want {
			t.Fatalf("in pieces\n%s\nat once\n%s", got, want)
		}
		for _, l := range lines {
			if l.Width() > width {
				t.Fatalf("a line has %d cells of %d: %q", l.Width(), width, l.Text())
			}
		}
	})
}

// TestALongParagraphIsPrintedAsItComes: what is open is short, so a token costs the same at its end.
func TestALongParagraphIsPrintedAsItComes(t *testing.T) {
	m := markdown{blank: true}
	var lines []cells.Line
	for range 2000 {
		lines = append(lines, m.write("token ", 80)...)
		if n := len(m.rest); n > 3*80 {
			t.Fatalf("%d bytes are open", n)
		}
	}
	lines = append(lines, m.end(80)...)
	if got, want := textOf(lines), rendered(strings.Repeat("token ", 2000), 80); got != want {
		t.Errorf("it is\n%s\nwant\n%s", got, want)
	}
}

func FuzzMarkdown(f *testing.F) {
	f.Add("# a\n```\nb\n```\n**c** [d](e) `f`", 20)
	f.Fuzz(func(t *testing.T, source string, width int) {
		if width < 4 || width > 500 {
			t.Skip()
		}
		if out := rendered(source, width); strings.ContainsFunc(out, func(r rune) bool { return r != '\n' && unicode.IsControl(r) }) {
			t.Errorf("%q became %q", source, out)
		}
	})
}

// BenchmarkMarkdown shows that a token costs the same at the end of a long answer as at its start.
func BenchmarkMarkdown(b *testing.B) {
	for name, n := range map[string]int{"short": 1 << 10, "long": 1 << 17} {
		b.Run(name, func(b *testing.B) {
			m := markdown{}
			m.write(strings.Repeat("some words of an answer\n", n/24), 80)
			for b.Loop() {
				m.write("word ", 80)
				if len(m.rest) > 80 {
					m.write("\n", 80)
				}
			}
		})
	}
}
