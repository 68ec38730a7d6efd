package highlight

import (
	"strings"
	"testing"
)

// marked writes pieces with a letter of their kind before them.
func marked(pieces []Piece) string {
	var b strings.Builder
	for _, p := range pieces {
		b.WriteString([]string{"", "C", "S", "N", "K", "A", "R"}[p.Kind] + "‹" + p.Text + "›")
	}
	return b.String()
}

func TestLines(t *testing.T) {
	for _, c := range []struct{ lang, code, want string }{
		{"go", "func f() int { return 42 } // done", "K‹func›‹ f() ›K‹int›‹ { ›K‹return›‹ ›N‹42›‹ } ›C‹// done›"},
		{"go", "s := `raw\n\\` + \"a\\\"b\"", "‹s := ›S‹`raw›\nS‹\\`›‹ + ›S‹\"a\\\"b\"›"},
		{"go", "/* one\ntwo */ x", "C‹/* one›\nC‹two */›‹ x›"},
		{"python", "def f(): \"\"\"doc\nmore\"\"\" # c", "K‹def›‹ f(): ›S‹\"\"\"doc›\nS‹more\"\"\"›‹ ›C‹# c›"},
		{"sh", "echo 'a\\' # x", "K‹echo›‹ ›S‹'a\\'›‹ ›C‹# x›"},
		{"SQL", "Select a FROM b -- c", "K‹Select›‹ a ›K‹FROM›‹ b ›C‹-- c›"},
		{"js", "it's open\nnext", "‹it›S‹'s open›\n‹next›"},
		{"diff", "+a\n-b\n c\n@@ d", "A‹+a›\nR‹-b›\n‹ c›\nK‹@@ d›"},
		{"lua", "--[[ a\nb ]] local x", "C‹--[[ a›\nC‹b ]]›‹ ›K‹local›‹ x›"},
		{"nobody knows", "func // 1", "‹func // ›N‹1›"},
		{"sh", "n=$# ${#a} a#b;# c", "‹n=$# ${#a} a#b;›C‹# c›"},
		{"yaml", "# a\nurl: x#y # c", "C‹# a›\n‹url: x#y ›C‹# c›"},
		{"rust", `fn f<'a>(x: &'a str) { 'x' '\'' }`, `K‹fn›‹ f<'a>(x: &'a str) { ›S‹'x'›‹ ›S‹'\''›‹ }›`},
		{"rust", "'", "‹'›"},
		{"json", `{"a": [1, true]}`, `‹{›S‹"a"›‹: [›N‹1›‹, ›K‹true›‹]}›`},
	} {
		x := New(c.lang)
		var got []string
		for line := range strings.SplitSeq(c.code, "\n") {
			got = append(got, marked(x.Line(line)))
		}
		if s := strings.Join(got, "\n"); s != c.want {
			t.Errorf("%s: %q is\n%s\nwant\n%s", c.lang, c.code, s, c.want)
		}
	}
}

// FuzzLine: the pieces of a line are the line, whatever it is.
func FuzzLine(f *testing.F) {
	f.Add("go", "x := \"a\" // b\n`c\nd`")
	f.Fuzz(func(t *testing.T, lang, code string) {
		x := New(lang)
		for line := range strings.SplitSeq(code, "\n") {
			var b strings.Builder
			for _, p := range x.Line(line) {
				b.WriteString(p.Text)
			}
			if b.String() != line {
				t.Errorf("%q became %q", line, b.String())
			}
		}
	})
}
