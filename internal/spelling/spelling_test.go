package spelling

import (
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

func unpainted(s string) string { return s }

// What is approved is what is seen: nothing of it hides, moves, or looks like something else.
func TestTrust_P10_ATextIsSpelledSoThatAllOfItIsSeen(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"git status", "git status"},
		{"printf 'Grüße, 世界'", "printf 'Grüße, 世界'"},
		{"ls \x1b[2K\x1b[1Aecho ok", "ls ⟨ESC⟩[2K⟨ESC⟩[1Aecho ok"},
		{"rm -rf x\recho ok   ", "rm -rf x⟨CR⟩echo ok⟨3 blanks⟩"},
		{"echo \u202etxt.exe\u202c", "echo ⟨U+202E⟩txt.exe⟨U+202C⟩"},
		{"r\u200bm a\u00a0b\ufeff", "r⟨U+200B⟩m a⟨U+00A0⟩b⟨U+FEFF⟩"},
		{"curl p\u0430yp\u0430l.com", "curl p⟨Cyrillic а⟩yp⟨Cyrillic а⟩l.com"},
		{"\u0441\u043e\u0440\u0443 a b", "⟨Cyrillic сору⟩ a b"},
		{"cat a\u2215b \uff0fetc", "cat a⟨U+2215 ∕⟩b ⟨U+FF0F ／⟩etc"},
		{"caf\u0065\u0301", "cafe⟨U+0301⟩"},
		{"echo" + strings.Repeat(" ", 2000) + "; rm x", "echo⟨2000 blanks⟩; rm x"},
		{"a\tb\x00\xff", "a⟨TAB⟩b⟨U+0000⟩⟨byte FF⟩"},
		{"echo ⟨CR⟩", "echo ⟨U+27E8⟩CR⟨U+27E9⟩"},
		{"\x9b31m\u009b31m\x7f", "⟨byte 9B⟩31m⟨U+009B⟩31m⟨U+007F⟩"},
		{"a\u2028b\U000e0041", "a⟨U+2028⟩b⟨U+E0041⟩"},
		{"one\ntwo", "one\ntwo"},
	} {
		if got := Text(c.text, unpainted); got != c.want {
			t.Errorf("%q\ngot  %s\nwant %s", c.text, got, c.want)
		}
	}
}

func alarming() *rapid.Generator[string] {
	return rapid.StringOf(rapid.OneOf(
		rapid.SampledFrom([]rune("ab \n\t\r\x1b⟨⟩│┆аоΑ\u202e\u200b\u0301世ß9U+()")), rapid.Rune(),
	))
}

// Texts that are spelled alike are the same, and what is spelled controls no terminal.
func TestSpellingIsUnambiguous(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one, other := alarming().Draw(t, "one"), alarming().Draw(t, "other")
		if rapid.Bool().Draw(t, "near") {
			cut := rapid.IntRange(0, len(one)).Draw(t, "cut")
			other = one[:cut] + other + one[cut:]
		}
		spelled := Text(one, unpainted)
		if one != other && spelled == Text(other, unpainted) {
			t.Fatalf("%q and %q are both spelled %q", one, other, spelled)
		}
		for _, r := range spelled {
			if r != '\n' && (!unicode.IsPrint(r) || unicode.IsMark(r)) {
				t.Fatalf("%q is spelled %q", one, spelled)
			}
		}
	})
}

// All of a text is in its rows, and each row fits the terminal.
func TestRowsHoldAllOfAText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := alarming().Draw(t, "text")
		width := rapid.IntRange(40, 120).Draw(t, "width")
		var joined []string
		for _, row := range Rows(text, width, unpainted) {
			if n := len([]rune(row)); n > width {
				t.Fatalf("a row of %d has %d characters: %q", width, n, row)
			}
			if rest, ok := strings.CutPrefix(row, "┆ "); ok {
				joined[len(joined)-1] += rest
			} else {
				joined = append(joined, strings.TrimPrefix(row, "│ "))
			}
		}
		if len(joined) != strings.Count(text, "\n")+1 {
			t.Fatalf("%q has %d lines: %q", text, len(joined), joined)
		}
	})
}

func FuzzSpell(f *testing.F) {
	for _, s := range []string{"git status", "\x1b[2J", "а\u202e⟨", strings.Repeat(" ", 20), "\xff\xfe"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range Text(text, unpainted) {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Fatalf("%q is spelled with %U", text, r)
			}
		}
		if got := strings.Join(Rows(text, 60, unpainted), ""); strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Fatalf("%q has the rows %q", text, got)
		}
	})
}
