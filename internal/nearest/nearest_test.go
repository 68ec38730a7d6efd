package nearest

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestName(t *testing.T) {
	commands := []string{"run", "resume", "demo", "sessions", "config", "plugins", "tools", "models", "doctor", "version"}
	for _, c := range []struct{ word, want string }{
		{"run", "run"},
		{"rnu", "run"},
		{"RUN", "run"},
		{"resme", "resume"},
		{"sesions", "sessions"},
		{"session", "sessions"},
		{"confgi", "config"},
		{"plugn", "plugins"},
		{"mdoels", "models"},
		{"ver", "version"},
		{"conf", "config"},
		{"", ""},
		{"x", ""},
		{"xyz", ""},
		{"trust", ""},
		{"kubernetes", ""},
		{strings.Repeat("run", 100), ""},
	} {
		if got := Name(c.word, commands); got != c.want {
			t.Errorf("Name(%q) = %q, want %q", c.word, got, c.want)
		}
	}
	if got := Name("cot", []string{"cat", "cut"}); got != "cat" {
		t.Errorf("of two equally near names got %q, want the first", got)
	}
	if got := Name("größe", []string{"Grösse", "GRÖẞE"}); got != "GRÖẞE" {
		t.Errorf("letters beyond ASCII: got %q", got)
	}
	if got := Name("run", []string{strings.Repeat("run", 1000)}); got != "" {
		t.Errorf("an endless known name was suggested: %.20q", got)
	}
}

// The distance is a metric in the ways that matter to a suggestion: nothing is nearer
// than the word itself, both directions cost the same, and one slip of the hand costs one.
func TestDistanceLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.SliceOfN(rapid.RuneFrom([]rune("abcé")), 0, 12)
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		if d := distance(a, a); d != 0 {
			t.Fatalf("distance to itself is %d", d)
		}
		d := distance(a, b)
		if back := distance(b, a); d != back {
			t.Fatalf("distance %d one way, %d the other", d, back)
		}
		if d == 0 != slices.Equal(a, b) || d > max(len(a), len(b)) || d < max(len(a), len(b))-min(len(a), len(b)) {
			t.Fatalf("distance %d between %q and %q", d, string(a), string(b))
		}
		if len(a) > 1 {
			i := rapid.IntRange(0, len(a)-2).Draw(t, "swapped")
			s := slices.Clone(a)
			s[i], s[i+1] = s[i+1], s[i]
			if d := distance(a, s); d > 1 {
				t.Fatalf("a swap costs %d", d)
			}
		}
	})
}
