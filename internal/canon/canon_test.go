package canon_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/dsh-harness/dsh/internal/canon"
)

func TestEqual(t *testing.T) {
	for _, c := range []struct {
		name, a, b string
		want       bool
	}{
		{"same", "abc", "abc", true},
		{"accent", "caf\u00e9", "cafe\u0301", true},
		{"two levels", "\u1ebf", "e\u0302\u0301", true},
		{"Korean", "\ud55c\uae00", "\u1112\u1161\u11ab\u1100\u1173\u11af", true},
		{"Japanese voiced mark", "\u304c", "\u304b\u3099", true},
		{"singleton", "\u212b", "A\u030a", true},
		{"other accent", "caf\u00e9", "cafe\u0300", false},
		{"no accent", "caf\u00e9", "cafe", false},
		{"case", "É", "é", false},
		{"compatibility is not equivalence", "\ufb01", "fi", false},
		{"bytes that are no text", "\xff", "\ufffd", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := canon.Equal(c.a, c.b); got != c.want {
				t.Errorf("Equal(%+q, %+q) = %v", c.a, c.b, got)
			}
		})
	}
}

func TestFind(t *testing.T) {
	for _, c := range []struct {
		name, text, want string
		found            [][2]int
	}{
		{"decomposed text", "x cafe\u0301 = 1", "caf\u00e9", [][2]int{{2, 8}}},
		{"composed text", "x caf\u00e9 = 1", "cafe\u0301", [][2]int{{2, 7}}},
		{"twice", "e\u0301e\u0301", "\u00e9", [][2]int{{0, 3}, {3, 6}}},
		{"not a part of a letter", "cafe\u0301", "cafe", nil},
		{"nothing", "abc", "", nil},
		{"longer than the text", "e", "e\u0301", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.found, canon.Find(c.text, c.want)); d != "" {
				t.Error(d)
			}
		})
	}
}

// Laws: decomposing twice is decomposing once; a text is found in itself whole, in
// either form; what is found is equivalent.
func TestLaws(t *testing.T) {
	letters := rapid.SampledFrom([]string{"a", "e", "é", "e\u0301", "ế", "\u0301", "한", "가", "が", "x", " ", "\n", "\xff"})
	text := rapid.Map(rapid.SliceOfN(letters, 0, 12), func(s []string) string { return strings.Join(s, "") })
	rapid.Check(t, func(t *rapid.T) {
		s, want := text.Draw(t, "text"), text.Draw(t, "want")
		d := canon.Decompose(s)
		if canon.Decompose(d) != d || utf8.ValidString(s) != utf8.ValidString(d) {
			t.Fatalf("Decompose(%+q) = %+q", s, d)
		}
		if s != "" && !strings.HasPrefix(s, "\u0301") {
			if got := canon.Find(s, d); len(got) != 1 || got[0] != [2]int{0, len(s)} {
				t.Fatalf("Find(%+q in itself) = %v", s, got)
			}
		}
		for _, at := range canon.Find(s, want) {
			if !canon.Equal(s[at[0]:at[1]], want) {
				t.Fatalf("Find(%+q, %+q) found %+q", s, want, s[at[0]:at[1]])
			}
		}
	})
}
