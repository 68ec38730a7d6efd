package search_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/dsh-harness/dsh/internal/need"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/tools/search"
	"github.com/dsh-harness/dsh/workspace"
	"github.com/dsh-harness/dsh/workspace/local"
	"github.com/dsh-harness/dsh/workspace/workspacetest"
)

func TestMain(m *testing.M) {
	local.Guard()
	flag.Parse()
	if os.Getenv("DSH_TEST_FULL") != "1" && flag.Lookup("rapid.checks").Value.String() == "100" {
		if err := flag.Set("rapid.checks", "25"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// eyes are the tools in a workspace.
type eyes struct {
	t     testing.TB
	dir   string
	w     workspace.Workspace
	tools map[string]tool.Definition
}

func newEyes(t testing.TB, change func(*search.Config)) *eyes {
	t.Helper()
	w := workspacetest.Open(t, local.Plugin.Definition(), workspace.Options{})
	return &eyes{t, w.Dir(), w, mount(t, change)}
}

func mount(t testing.TB, change func(*search.Config)) map[string]tool.Definition {
	t.Helper()
	tree := plugin.New(slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		if err := tree.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	p := search.Plugin
	config := p.Default()
	change(&config)
	p.Default = func() search.Config { return config }
	def := p.Definition()
	prepared, err := def.Bind(def.NewConfig())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tree.Root().MountAll(prepared.Child("search")); err != nil {
		t.Fatal(err)
	}
	if err := tree.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	tools := map[string]tool.Definition{}
	for name, d := range tool.Tools.Visible(tree.Root()) {
		tools[name] = d
	}
	return tools
}

// both runs a test with rg, where there is one, and without.
func both(t *testing.T, test func(*testing.T, *eyes)) {
	for _, ripgrep := range []bool{true, false} {
		t.Run(fmt.Sprintf("ripgrep=%v", ripgrep), func(t *testing.T) {
			if ripgrep {
				need.Program(t, "rg", "ripgrep")
			}
			test(t, newEyes(t, func(c *search.Config) { c.Ripgrep = ripgrep }))
		})
	}
}

type args map[string]any

func (e *eyes) call(name string, a args) tool.Result {
	e.t.Helper()
	raw, err := json.Marshal(a)
	if err != nil {
		e.t.Fatal(err)
	}
	checked, err := e.tools[name].Check(string(raw))
	if err != nil {
		e.t.Fatal(err)
	}
	body, err := e.tools[name].Bind(&tool.Call{Name: name, Arguments: checked, Workspace: e.w, Progress: func(string) {}})
	if err != nil {
		e.t.Fatal(err)
	}
	result, err := body(context.Background())
	if err != nil {
		e.t.Fatalf("%s: %v", name, err)
	}
	return result
}

func (e *eyes) works(name string, a args) string {
	e.t.Helper()
	result := e.call(name, a)
	if result.IsError {
		e.t.Errorf("%s %v: %s", name, a, llm.PlainText(result.Content))
	}
	return llm.PlainText(result.Content)
}

func (e *eyes) fails(name, code string, a args) string {
	e.t.Helper()
	result := e.call(name, a)
	text := llm.PlainText(result.Content)
	if !result.IsError || result.Error.Code != code {
		e.t.Errorf("%s %v: %+v: %s", name, a, result.Error, text)
	}
	return text
}

// put makes files, each newer than the one before.
func (e *eyes) put(files ...string) {
	e.t.Helper()
	for i, file := range files {
		name, content, _ := strings.Cut(file, "=")
		path := filepath.Join(e.dir, name)
		at := time.Unix(1_700_000_000+int64(i), 0)
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644), os.Chtimes(path, at, at))
		if err != nil {
			e.t.Fatal(err)
		}
	}
}

func want(t testing.TB, got, want string) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestGlob(t *testing.T) {
	both(t, func(t *testing.T, e *eyes) {
		e.put("old.go", "src/a.go", "src/deep/b.go", "src/c.ts", "src/d.tsx", "README.md", "new.go")
		for _, c := range []struct {
			args args
			want string
		}{
			{args{"pattern": "**/*.go"}, "new.go\nsrc/deep/b.go\nsrc/a.go\nold.go"},
			{args{"pattern": "*.go"}, "new.go\nsrc/deep/b.go\nsrc/a.go\nold.go"},
			{args{"pattern": "./*.md"}, "README.md"},
			{args{"pattern": "src/*.go"}, "src/a.go"},
			{args{"pattern": "src/**/*.go"}, "src/deep/b.go\nsrc/a.go"},
			{args{"pattern": "src/*.{ts,tsx}"}, "src/d.tsx\nsrc/c.ts"},
			{args{"pattern": "*.go", "path": "src"}, "src/deep/b.go\nsrc/a.go"},
			{args{"pattern": "deep/*", "path": "src"}, "src/deep/b.go"},
			{args{"pattern": "src/deep/../*.go"}, "src/a.go"},
			{args{"pattern": filepath.Join(e.dir, "src/*.go")}, "src/a.go"},
			{args{"pattern": "README.md"}, "README.md"},
			{args{"pattern": "src/a.go"}, "src/a.go"},
			{args{"pattern": "b.go"}, "src/deep/b.go"},
			{args{"pattern": "*.rs"}, "No files found"},
			{args{"pattern": "nowhere/*.go"}, "No files found"},
			{args{"pattern": "src"}, "No files found"},
		} {
			want(t, e.works("glob", c.args), c.want)
		}
		e.fails("glob", "invalid-pattern", args{"pattern": "src/[a"})
		e.fails("glob", "invalid-pattern", args{"pattern": " "})
		want(t, e.fails("glob", "not-found", args{"pattern": "*", "path": "scr"}), "Error: stat scr: file does not exist; did you mean src?")
		e.fails("glob", "not-found", args{"pattern": "*", "path": "README.md"})
	})
}

func TestGlobShowsTheNewest(t *testing.T) {
	e := newEyes(t, func(c *search.Config) { c.Files = 2 })
	e.put("1", "2", "3", "4", "5")
	want(t, e.works("glob", args{"pattern": "*"}), "5\n4\n[2 of 5 files, the newest. Narrow the pattern to see others.]")
}

func TestGrep(t *testing.T) {
	both(t, func(t *testing.T, e *eyes) {
		e.put("a.go=package a\n\nfunc Foo() {}\nfunc foo() {}\n", "sub/b.go=// Foo\n1\n2\n3\n4\nfoo\n", "c.txt=Foo (x)\r\nend\r\n")
		for _, c := range []struct {
			name string
			args args
			want string
		}{
			{"content", args{"pattern": `func \w+\(`}, "Found 2 matches in 1 file\na.go\n3: func Foo() {}\n4: func foo() {}"},
			{"several files", args{"pattern": "Foo"}, "Found 3 matches in 3 files\na.go\n3: func Foo() {}\n\nc.txt\n1: Foo (x)\n\nsub/b.go\n1: // Foo"},
			{"files", args{"pattern": "Foo", "output_mode": "files_with_matches"}, "Found 3 files\na.go\nc.txt\nsub/b.go"},
			{"count", args{"pattern": "foo", "ignore_case": true, "output_mode": "count"}, "Found 5 matches in 3 files\na.go: 2\nc.txt: 1\nsub/b.go: 2"},
			{"glob", args{"pattern": "Foo", "glob": "*.go", "output_mode": "files_with_matches"}, "Found 2 files\na.go\nsub/b.go"},
			{"glob with a folder", args{"pattern": "Foo", "glob": "sub/**"}, "Found 1 match in 1 file\nsub/b.go\n1: // Foo"},
			{"folder", args{"pattern": "Foo", "path": "sub"}, "Found 1 match in 1 file\nsub/b.go\n1: // Foo"},
			{"file", args{"pattern": "Foo", "path": "sub/b.go"}, "Found 1 match in 1 file\nsub/b.go\n1: // Foo"},
			{"context", args{"pattern": "oo", "path": "sub", "context": 1}, "Found 2 matches in 1 file\nsub/b.go\n1: // Foo\n2- 1\n--\n5- 4\n6: foo"},
			{"touching context", args{"pattern": "oo", "path": "sub", "context": 2}, "Found 2 matches in 1 file\nsub/b.go\n1: // Foo\n2- 1\n3- 2\n4- 3\n5- 4\n6: foo"},
			{"literal", args{"pattern": "Foo (x)", "literal": true}, "Found 1 match in 1 file\nc.txt\n1: Foo (x)"},
			{"ends of lines", args{"pattern": `^end$`}, "Found 1 match in 1 file\nc.txt\n2: end"},
			{"ends of the text are ends of lines", args{"pattern": `\A// Foo\z`}, "Found 1 match in 1 file\nsub/b.go\n1: // Foo"},
			{"carriage return", args{"pattern": `\r`}, "Found 2 matches in 1 file\nc.txt\n1: Foo (x)\n2: end"},
			{"nothing", args{"pattern": "zebra"}, "No matches found"},
		} {
			t.Run(c.name, func(t *testing.T) { want(t, e.works("grep", c.args), c.want) })
		}
		e.fails("grep", "not-found", args{"pattern": "x", "path": "gone"})
		e.fails("grep", "invalid-pattern", args{"pattern": ""})
		e.fails("grep", "invalid-pattern", args{"pattern": "x", "glob": "!*.go"})
		e.fails("grep", "invalid-arguments", args{"pattern": "x", "context": 100})
	})
}

func TestGrepIsBounded(t *testing.T) {
	both(t, func(t *testing.T, e *eyes) {
		e.put("many.txt="+strings.Repeat("match\n", 1000), "wide.txt="+strings.Repeat("字", 5000)+"needle"+strings.Repeat("x", 5000)+"\n",
			"bytes.txt="+strings.Repeat(strings.Repeat("y", 390)+"\n", 250))
		text := e.works("grep", args{"pattern": "match"})
		if strings.Count(text, "match\n") != 250 || !strings.Contains(text, "[There may be more") {
			t.Errorf("%s", text)
		}
		text = e.works("grep", args{"pattern": "needle"})
		if !strings.Contains(text, "needle") || len(text) > 1500 || strings.ContainsRune(text, '\ufffd') || strings.Count(text, "…") != 2 {
			t.Errorf("%d bytes: %s", len(text), text)
		}
		if text = e.works("grep", args{"pattern": "y+", "path": "bytes.txt"}); len(text) > 42_000 || !strings.Contains(text, "[There may be more") {
			t.Errorf("%d bytes", len(text))
		}
		want(t, e.works("grep", args{"pattern": "match", "output_mode": "count"}), "Found 1000 matches in 1 file\nmany.txt: 1000")
	})
}

func TestGrepLeavesBinaryFilesOut(t *testing.T) {
	both(t, func(t *testing.T, e *eyes) {
		e.put("a.bin=needle\x00\nneedle\n", "late.txt=needle\n"+strings.Repeat("x\n", 8000)+"\x00 needle\n", "legacy.txt=needle \xff\xe9\n", "bom.txt=\ufeffneedle\n")
		want(t, e.works("grep", args{"pattern": "needle"}), "Found 4 matches in 3 files\nbom.txt\n1: needle\n\nlate.txt\n1: needle\n8002: \ufffd needle\n\nlegacy.txt\n1: needle \ufffd")
		for _, path := range []string{".", "bom.txt"} {
			want(t, e.works("grep", args{"pattern": "^needle$", "path": path, "glob": "b*"}), "Found 1 match in 1 file\nbom.txt\n1: needle")
		}
		want(t, e.fails("grep", "not-text", args{"pattern": "needle", "path": "a.bin"}), "Error: a.bin is a binary file")
	})
}

func TestSearchStopsInTime(t *testing.T) {
	e := newEyes(t, func(c *search.Config) { c.Ripgrep, c.TimeMS = false, 1 })
	var files []string
	for i := range 400 {
		files = append(files, fmt.Sprintf("d%d/e/f%d.txt=%s", i, i, strings.Repeat("some text\n", 200)))
	}
	e.put(files...)
	for name, a := range map[string]args{"glob": {"pattern": "*.nothing"}, "grep": {"pattern": "no(thing|body) here"}} {
		if text := e.works(name, a); !strings.Contains(text, "not enough time") {
			t.Errorf("%s: %s", name, text)
		}
	}
}

func TestAccess(t *testing.T) {
	tools := mount(t, func(*search.Config) {})
	for _, c := range []struct{ name, arguments, want string }{
		{"glob", `{"pattern":"*.go"}`, "."},
		{"glob", `{"pattern":"src/**/*.go"}`, "src"},
		{"glob", `{"pattern":"*.go","path":"sub"}`, "sub"},
		{"glob", `{"pattern":"../*.go","path":"sub"}`, "sub/.."},
		{"glob", `{"pattern":"/etc/ssh/*"}`, "/etc/ssh"},
		{"glob", `{"pattern":"/etc/passwd","path":"sub"}`, "/etc"},
		{"glob", `{"pattern":"~/.ssh/*"}`, "~/.ssh"},
		{"glob", `{"pattern":"~/**"}`, "~"},
		{"grep", `{"pattern":"x"}`, "."},
		{"grep", `{"pattern":"x","path":"~/.ssh"}`, "~/.ssh"},
	} {
		got := tools[c.name].Access(&tool.Call{Arguments: json.RawMessage(c.arguments)})
		if d := cmp.Diff([]tool.Access{{Kind: tool.AccessRead, Target: c.want}}, got); d != "" {
			t.Errorf("%s %s: %s", c.name, c.arguments, d)
		}
	}
}

func TestCase_o_grp_01_DotFiles(t *testing.T) {
	both(t, func(t *testing.T, e *eyes) {
		e.put(".github/workflows/ci.yml=on: push", ".eslintrc.json={}", ".git/config=[core] push", ".git/x.json={}")
		want(t, e.works("glob", args{"pattern": ".github/**/*.yml"}), ".github/workflows/ci.yml")
		want(t, e.works("glob", args{"pattern": "**/*.yml"}), ".github/workflows/ci.yml")
		want(t, e.works("glob", args{"pattern": "**/*.json"}), ".eslintrc.json")
		want(t, e.works("glob", args{"pattern": ".eslintrc.json"}), ".eslintrc.json")
		want(t, e.works("glob", args{"pattern": ".git/*"}), ".git/x.json\n.git/config")
		want(t, e.works("glob", args{"pattern": "**/.git/config"}), ".git/config")
		want(t, e.works("grep", args{"pattern": "push", "output_mode": "files_with_matches"}), "Found 1 file\n.github/workflows/ci.yml")
		want(t, e.works("grep", args{"pattern": "push", "path": ".git", "output_mode": "files_with_matches"}), "Found 1 file\n.git/config")
	})
}

func TestCase_o_grp_02_IgnoredPathsThatAreNamed(t *testing.T) {
	both(t, func(t *testing.T, e *eyes) {
		e.put(".gitignore=dist/\n.env\n*.gen\n!keep.gen\n", "dist/app.js=x", ".env=SECRET", "main.js=x", "a.gen=x", "keep.gen=x",
			"sub/.gitignore=*.js\n!only.js\n", "sub/other.js=x", "sub/only.js=x", "node/dist/lib.css=x")
		want(t, e.works("glob", args{"pattern": "dist/**/*.js"}), "dist/app.js")
		want(t, e.works("glob", args{"pattern": ".env"}), ".env")
		want(t, e.works("glob", args{"pattern": "**/*.js"}), "sub/only.js\nmain.js")
		want(t, e.works("glob", args{"pattern": "*.gen"}), "keep.gen")
		want(t, e.works("glob", args{"pattern": "*.css"}), "No files found, but 1 that .gitignore excludes. Name their folder in the pattern to see them.")
		want(t, e.works("grep", args{"pattern": "SECRET"}), "No matches found")
		want(t, e.works("grep", args{"pattern": "SECRET", "path": ".env"}), "Found 1 match in 1 file\n.env\n1: SECRET")
		want(t, e.works("grep", args{"pattern": "x", "path": "dist"}), "Found 1 match in 1 file\ndist/app.js\n1: x")
		// Below the folder with the rules, they count too; a repository inside has its own.
		want(t, e.works("glob", args{"pattern": "*", "path": "sub"}), "sub/only.js\nsub/.gitignore")
		e.put("inner/.git/HEAD=x", "inner/a.gen=x", "inner/dist/x.css=x")
		want(t, e.works("glob", args{"pattern": "inner/*"}), "inner/a.gen")
		want(t, e.works("glob", args{"pattern": "**/inner/**"}), "inner/dist/x.css\ninner/a.gen")
		// Rules that are tied to a folder above the one that is searched.
		e.put("tied/.gitignore=/in/hidden.txt\n", "tied/in/hidden.txt=x", "tied/in/seen.txt=x", "tied/in/in/hidden.txt=x")
		want(t, e.works("glob", args{"pattern": "*.txt", "path": "tied/in"}), "tied/in/in/hidden.txt\ntied/in/seen.txt")
	})
}

func TestCase_o_grp_03_InvalidExpressions(t *testing.T) {
	both(t, func(t *testing.T, e *eyes) {
		e.put("f=foobar\n")
		for pattern, has := range map[string]string{
			"(":          "missing closing )",
			"[z-a]":      `invalid character class range at character 2, "z-a"`,
			"foo(?=bar)": "looking ahead or behind is not supported",
			"a{99999}":   `invalid repeat count at character 2, "{99999}"`,
			`\d+\`:       "trailing backslash",
			"a\nb":       "each line is searched by itself",
			"*x":         "set literal",
		} {
			if text := e.fails("grep", "invalid-pattern", args{"pattern": pattern}); !strings.Contains(text, has) {
				t.Errorf("%q: %s", pattern, text)
			}
		}
		e.works("grep", args{"pattern": "foo(?=", "literal": true})
	})
}

func TestCase_o_grp_04_LeadingDashes(t *testing.T) {
	both(t, func(t *testing.T, e *eyes) {
		e.put("-dash.txt=--pdf-engine\n-77\n->\n-e x\n")
		for _, pattern := range []string{"--pdf-engine", "-77", "->", "-e x"} {
			if text := e.works("grep", args{"pattern": pattern}); !strings.HasPrefix(text, "Found 1 match in 1 file\n-dash.txt\n") {
				t.Errorf("%s: %s", pattern, text)
			}
		}
		want(t, e.works("grep", args{"pattern": "-77", "path": "-dash.txt"}), "Found 1 match in 1 file\n-dash.txt\n2: -77")
		want(t, e.works("glob", args{"pattern": "-*.txt"}), "-dash.txt")
	})
}

func TestCase_o_grp_05_LinksThatPointToThemselves(t *testing.T) {
	both(t, func(t *testing.T, e *eyes) {
		e.put("sub/f=x\n")
		for name, target := range map[string]string{"sub/sub": ".", "sub/root": "/", "sub/dead": "missing", "sub/link": "f"} {
			if err := os.Symlink(target, filepath.Join(e.dir, name)); err != nil {
				t.Skip(err)
			}
		}
		if err := exec.Command("mkfifo", filepath.Join(e.dir, "sub", "fifo")).Run(); err != nil {
			t.Skip(err)
		}
		want(t, e.works("glob", args{"pattern": "**/*"}), "sub/f")
		want(t, e.works("grep", args{"pattern": "x"}), "Found 1 match in 1 file\nsub/f\n1: x")
		want(t, e.works("glob", args{"pattern": "sub/link"}), "sub/link")
		want(t, e.works("grep", args{"pattern": "x", "path": "sub/link"}), "Found 1 match in 1 file\nsub/f\n1: x")
		if text := e.fails("grep", "failed", args{"pattern": "x", "path": "sub/fifo"}); !strings.Contains(text, "named pipe") {
			t.Error(text)
		}
	})
}

func TestCase_o_grp_06_Brackets(t *testing.T) {
	both(t, func(t *testing.T, e *eyes) {
		e.put("app/[id]/page.tsx=needle", "app/i/page.tsx=needle", "app/x/page.tsx=needle")
		want(t, e.works("glob", args{"pattern": "app/[id]/*.tsx"}), "app/i/page.tsx\napp/[id]/page.tsx")
		want(t, e.works("glob", args{"pattern": `app/\[id\]/*.tsx`}), "app/[id]/page.tsx")
		want(t, e.works("glob", args{"pattern": "*.tsx", "path": "app/[id]"}), "app/[id]/page.tsx")
		want(t, e.works("grep", args{"pattern": "needle", "path": "app/[id]"}), "Found 1 match in 1 file\napp/[id]/page.tsx\n1: needle")
	})
}

func TestCase_o_edt_11_TildeIsHome(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	both(t, func(t *testing.T, e *eyes) {
		path := filepath.Join(home, "w", "n.txt")
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("x\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
		want(t, e.works("glob", args{"pattern": "~/w/*.txt"}), path)
		want(t, e.works("glob", args{"pattern": "*.txt", "path": "~/w"}), path)
		want(t, e.works("grep", args{"pattern": "x", "path": "~/w"}), "Found 1 match in 1 file\n"+path+"\n1: x")
	})
}

func TestCase_o_edt_12_HugeFiles(t *testing.T) {
	both(t, func(t *testing.T, e *eyes) {
		path := filepath.Join(e.dir, "sparse")
		if err := errors.Join(os.WriteFile(path, []byte(strings.Repeat("needle\n", 2000)), 0o644), os.Truncate(path, 3<<30)); err != nil {
			t.Fatal(err)
		}
		e.put("line.js="+strings.Repeat("x", 20<<20)+" needle\n", "small.txt=needle\n")
		began := time.Now()
		text := e.works("grep", args{"pattern": "^needle"})
		if !strings.Contains(text, "small.txt\n1: needle") || strings.Contains(text, "sparse") || time.Since(began) > 20*time.Second {
			t.Errorf("after %v: %s", time.Since(began), text)
		}
	})
}

// Law: rg and our own walk find the same.
func TestBothWaysAgree(t *testing.T) {
	need.Program(t, "rg", "ripgrep")
	base := newEyes(t, func(*search.Config) {})
	ours := mount(t, func(c *search.Config) { c.Ripgrep = false })
	name := rapid.SampledFrom([]string{"a", "b", "ab", "a.go", "b.log", ".hidden", ".env"})
	// Braces are missing: to rg they are special, to git and us they are not.
	rule := rapid.SampledFrom([]string{"a", "b", "/a", "a/", "*.log", "!b.log", "!a", "*.go", "a/b", "**/b", "a/**", "/ab/*", "!/ab/a", ".*", "?b", "[ab]", "# no", "\\.env"})
	text := rapid.SampledFrom([]string{"alpha", "Beta", "x1", "\r", "\n", " ", "é", "(", "\ufeff", "-v", "end"})
	pattern := rapid.SampledFrom([]string{"alpha", "^alpha$", `\bx1\b`, `\w+`, `[a-z]+\d`, "(?i)beta", "é", `\s`, `\Balpha`, ".", "x?", "-v", `end$`, `^$`, `[^a]`, `(alpha|Beta)+`, `\S\b`, "a.*d", `\x{e9}`, `[[:alpha:]]{5}`})
	globs := rapid.SampledFrom([]string{"**/*", "*", "a/**", "*.go", "**/a", "{a,b}/*", ".*", "[ab]", "ab/*", "**/.env"})
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		dir := fmt.Sprintf("run%d", run)
		paths := rapid.SliceOfNDistinct(rapid.Map(rapid.SliceOfN(name, 1, 3), func(p []string) string { return strings.Join(p, "/") }), 1, 12, rapid.ID[string]).Draw(t, "paths")
		for _, p := range paths {
			full := filepath.Join(base.dir, dir, p)
			if os.MkdirAll(filepath.Dir(full), 0o755) != nil {
				continue // its folder is a file
			}
			content := strings.Join(rapid.SliceOfN(text, 0, 8).Draw(t, "text"), "")
			_ = os.WriteFile(full, []byte(content), 0o644) // or it is a folder
		}
		for _, folder := range []string{"", "a", "ab"} {
			rules := strings.Join(rapid.SliceOfN(rule, 0, 4).Draw(t, "rules"), "\n")
			// Where there is no such folder there are no rules.
			_ = os.WriteFile(filepath.Join(base.dir, dir, folder, ".gitignore"), []byte(rules), 0o644)
		}
		if rapid.IntRange(0, 3).Draw(t, "repository") == 0 {
			_ = os.MkdirAll(filepath.Join(base.dir, dir, "a", ".git"), 0o755) // or a is a file
		}
		where := dir
		if rapid.Bool().Draw(t, "inside") {
			if info, err := os.Stat(filepath.Join(base.dir, dir, "a")); err == nil && info.IsDir() {
				where = dir + "/a"
			}
		}
		other := &eyes{base.t, base.dir, base.w, ours}
		g := args{"pattern": globs.Draw(t, "glob"), "path": where}
		if d := cmp.Diff(base.works("glob", g), other.works("glob", g)); d != "" {
			t.Fatalf("glob %v: rg -, ours +: %s", g, d)
		}
		p := args{"pattern": pattern.Draw(t, "pattern"), "path": where, "ignore_case": rapid.Bool().Draw(t, "case")}
		if d := cmp.Diff(base.works("grep", p), other.works("grep", p)); d != "" {
			t.Fatalf("grep %v: rg -, ours +: %s", p, d)
		}
	})
}

func TestConfig(t *testing.T) {
	if err := search.Plugin.Default().Validate(); err != nil {
		t.Error(err)
	}
	if err := (search.Config{}).Validate(); err == nil {
		t.Error("limits of 0 are taken")
	}
}
