package search

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dsh-harness/dsh/internal/need"
)

// ignoredByUs walks like git does: what is in an ignored folder is ignored.
func ignoredByUs(rs rules, path string) bool {
	parts := strings.Split(path, "/")
	for i := range parts {
		ignored, _ := rs.match(strings.Join(parts[:i+1], "/"), i < len(parts)-1)
		if ignored {
			return true
		}
	}
	return false
}

func TestIgnoreRules(t *testing.T) {
	for _, c := range []struct {
		file string
		yes  string
		no   string
	}{
		{"*.log\n", "a.log x/a.log", "a.logs log"},
		{"/top\n", "top top/x", "a/top"},
		{"build/\n", "build/x a/build/x", "build"},
		{"a/b\n", "a/b a/b/c", "x/a/b"},
		{"**/a/b\n", "a/b x/a/b", "b"},
		{"a/**\n", "a/x a/x/y", "b/a/x"},
		{"a/**/b\n", "a/b a/x/b a/x/y/b", "b"},
		{"*.log\n!keep.log\n", "a.log", "keep.log x/keep.log"},
		{"dist/*\n!dist/keep\n", "dist/x", "dist/keep"},
		{"dist\n!dist/keep\n", "dist/keep", "x"}, // git cannot bring back what is in an ignored folder
		{"# comment\n\\#x\n\\!y\n", "#x !y", "comment x y"},
		{"space \nkept\\ \n", "space", "kept"},
		{"a?c\n[xy]z\n[!a]b\n", "abc xz bb", "ac zz ab"},
		{"{a,b}\n", "{a,b}", "a b"},
		{"\ufeffbom\r\ncr\r\n", "bom cr", "x"},
		{"a/\n!/**/\n", "", "a/a/a"},
		{"foo**bar\n", "fooxbar foobar", "foo/bar"},
	} {
		rs := parseIgnore(c.file)
		for _, path := range strings.Fields(c.yes) {
			if !ignoredByUs(rs, path) {
				t.Errorf("%q does not ignore %s", c.file, path)
			}
		}
		for _, path := range strings.Fields(c.no) {
			if ignoredByUs(rs, path) {
				t.Errorf("%q ignores %s", c.file, path)
			}
		}
	}
}

// Law: we agree with git about every path.
func TestIgnoreRulesAreGits(t *testing.T) {
	need.Program(t, "git", "git")
	dir := t.TempDir()
	git := func(stdin string, args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "HOME="+dir, "XDG_CONFIG_HOME="+dir)
		out, _ := cmd.Output() // check-ignore exits with 1 when nothing is ignored
		return string(out)
	}
	git("", "init", "-q")
	var paths []string
	names := []string{"a", "b", "ab", "a.c", "x.log"}
	for _, one := range names {
		paths = append(paths, one)
		for _, two := range names {
			paths = append(paths, one+"/"+two)
			for _, three := range []string{"a", "b", "x.log"} {
				paths = append(paths, one+"/"+two+"/"+three)
			}
		}
	}
	// The paths need not exist, but what is a folder must be one.
	for _, one := range names {
		for _, two := range names {
			if err := os.MkdirAll(filepath.Join(dir, one, two), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	part := rapid.SampledFrom([]string{"a", "b", "ab", "a.c", "*", "**", "?", "*.log", "a*", "[ab]", "[!b]", "x.log", "*.c", `\a`})
	line := rapid.Custom(func(t *rapid.T) string {
		s := strings.Join(rapid.SliceOfN(part, 1, 3).Draw(t, "parts"), "/")
		for _, affix := range []string{"/", "!"} {
			if rapid.IntRange(0, 3).Draw(t, affix) == 0 {
				s = affix + s
			}
		}
		if rapid.IntRange(0, 3).Draw(t, "folder") == 0 {
			s += "/"
		}
		return s
	})
	rapid.Check(t, func(t *rapid.T) {
		content := strings.Join(rapid.SliceOfN(line, 1, 5).Draw(t, "lines"), "\n") + "\n"
		if err := os.WriteFile(filepath.Join(dir, ".gitignore"), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		want := map[string]bool{}
		for path := range strings.Lines(git(strings.Join(paths, "\n"), "check-ignore", "--no-index", "--stdin")) {
			want[strings.TrimSpace(path)] = true
		}
		rs := parseIgnore(content)
		for _, path := range paths {
			info, err := os.Stat(filepath.Join(dir, path))
			if err == nil && info.IsDir() {
				continue // folders are asked about on the way to files
			}
			if got := ignoredByUs(rs, path); got != want[path] {
				t.Fatalf("%q: %s: git says %v, we %v", content, path, want[path], got)
			}
		}
	})
}

func FuzzIgnore(f *testing.F) {
	f.Add("a/**\n!b\n\\#c\n[a-\n", "a/b")
	f.Add("\ufeff*.log \r\n/**/x/\n", "x/y.log")
	f.Fuzz(func(t *testing.T, content, path string) {
		rs := parseIgnore(content)
		for _, folder := range []bool{true, false} {
			if ignored, decided := rs.match(path, folder); ignored && !decided {
				t.Fatalf("%q ignores %q without a rule", content, path)
			}
		}
	})
}

func FuzzCompile(f *testing.F) {
	for _, pattern := range []string{`^a$`, `[$^]`, `\bx\B`, `(?i)é`, `a{3,5}`, `\Qa.b\E`, `\pL`, `(`, `a\`, `\z`} {
		f.Add(pattern, "a line")
	}
	f.Fuzz(func(t *testing.T, pattern, line string) {
		re, err := compile(pattern, false, false)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("the error for %q has several lines: %v", pattern, err)
			}
			return
		}
		// What rg is given has to be found by us, too, as far as the languages are the same.
		_ = re.re.MatchString(line)
	})
}
