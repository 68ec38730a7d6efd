package files_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/tools/files"
	"github.com/dsh-harness/dsh/workspace"
	"github.com/dsh-harness/dsh/workspace/local"
	"github.com/dsh-harness/dsh/workspace/workspacetest"
)

// hands are the tools in a workspace.
type hands struct {
	t     testing.TB
	dir   string
	w     workspace.Workspace
	tools map[string]tool.Definition
}

func newHands(t testing.TB) *hands {
	t.Helper()
	w := workspacetest.Open(t, local.Plugin.Definition(), workspace.Options{})
	return &hands{t, w.Dir(), w, mount(t)}
}

// mount starts the plugin and returns what it adds.
func mount(t testing.TB) map[string]tool.Definition {
	t.Helper()
	tree := plugin.New(slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		if err := tree.Close(context.Background()); err != nil {
			t.Error(err)
		}
		for name := range tool.Tools.Visible(tree.Root()) {
			t.Errorf("%s is left", name)
		}
	})
	def := files.Plugin.Definition()
	prepared, err := def.Bind(def.NewConfig())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tree.Root().MountAll(prepared.Child("files")); err != nil {
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

// args are a call's arguments.
type args map[string]any

func (h *hands) call(name string, a args) tool.Result {
	h.t.Helper()
	raw, err := json.Marshal(a)
	if err != nil {
		h.t.Fatal(err)
	}
	checked, err := h.tools[name].Check(string(raw))
	if err != nil {
		h.t.Fatal(err)
	}
	body, err := h.tools[name].Bind(&tool.Call{Name: name, Arguments: checked, Workspace: h.w, Progress: func(string) {}})
	if err != nil {
		h.t.Fatal(err)
	}
	result, err := body(context.Background())
	if err != nil {
		h.t.Fatalf("%s: %v", name, err)
	}
	return result
}

// works calls a tool and returns its text.
func (h *hands) works(name string, a args) string {
	h.t.Helper()
	result := h.call(name, a)
	if result.IsError {
		h.t.Errorf("%s %v: %s", name, a["file_path"], llm.PlainText(result.Content))
	}
	return llm.PlainText(result.Content)
}

// fails calls a tool that must fail with code, and returns its text.
func (h *hands) fails(name, code string, a args) string {
	h.t.Helper()
	result := h.call(name, a)
	text := llm.PlainText(result.Content)
	switch {
	case !result.IsError:
		h.t.Errorf("%s %v worked: %s", name, a, text)
	case result.Error.Code != code:
		h.t.Errorf("%s %v: code %s, want %s: %s", name, a["file_path"], result.Error.Code, code, text)
	}
	return text
}

func (h *hands) put(name, content string) {
	h.t.Helper()
	path := filepath.Join(h.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		h.t.Fatal(err)
	}
}

func (h *hands) get(name string) string {
	h.t.Helper()
	b, err := os.ReadFile(filepath.Join(h.dir, name))
	if err != nil {
		h.t.Fatal(err)
	}
	return string(b)
}

// edit reads a file and edits it.
func (h *hands) edit(name, old, new string) string {
	h.t.Helper()
	h.works("read", args{"file_path": name})
	return h.works("edit", args{"file_path": name, "old_string": old, "new_string": new})
}

func (h *hands) copyCase(id, name string) {
	h.t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "cases", id, name))
	if err != nil {
		h.t.Fatal(err)
	}
	h.put(name, string(b))
}

func want(t testing.TB, got, want string) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestRead(t *testing.T) {
	h := newHands(t)
	long := strings.Repeat("字", 3000)
	h.put("f.txt", "one\ntwo\nthree\n")
	h.put("open.txt", "one\ntwo")
	h.put("empty", "")
	h.put("crlf.txt", "a\r\n\r\nb\r\n")
	h.put("long.txt", "short\n"+long+"\nend\n")
	h.put("many.txt", strings.Repeat("x\n", 5000))
	h.put("wide.txt", strings.Repeat(strings.Repeat("w", 1000)+"\n", 100))
	for _, c := range []struct {
		name string
		args args
		want string
	}{
		{"all", args{"file_path": "f.txt"}, "     1\tone\n     2\ttwo\n     3\tthree"},
		{"no last line end", args{"file_path": "open.txt"}, "     1\tone\n     2\ttwo"},
		{"window", args{"file_path": "f.txt", "offset": 2, "limit": 1}, "     2\ttwo\n[Lines 2-2 of 3. Read on with offset 3.]"},
		{"to the end", args{"file_path": "f.txt", "offset": 2, "limit": 10}, "     2\ttwo\n     3\tthree"},
		{"empty", args{"file_path": "empty"}, "[The file is empty.]"},
		{"CR LF", args{"file_path": "crlf.txt"}, "     1\ta\n     2\t\n     3\tb"},
		{"absolute", args{"file_path": filepath.Join(h.dir, "f.txt"), "limit": 1}, "     1\tone\n[Lines 1-1 of 3. Read on with offset 2.]"},
		{"long line", args{"file_path": "long.txt"}, "     1\tshort\n     2\t" + long[:2000*3] + " … [the line goes on]\n     3\tend"},
	} {
		t.Run(c.name, func(t *testing.T) { want(t, h.works("read", c.args), c.want) })
	}
	text := h.works("read", args{"file_path": "many.txt"})
	if !strings.HasSuffix(text, "\n  2000\tx\n[Lines 1-2000 of 5000. Read on with offset 2001.]") {
		t.Errorf("many lines end with %q", text[len(text)-100:])
	}
	text = h.works("read", args{"file_path": "wide.txt"})
	if !strings.HasSuffix(text, "[Lines 1-44 of 100. Read on with offset 45.]") || len(text) > 45_100 {
		t.Errorf("%d bytes, the end is %q", len(text), text[len(text)-100:])
	}
	want(t, h.fails("read", "out-of-range", args{"file_path": "f.txt", "offset": 9}), "Error: offset 9 is past the end: f.txt has 3 lines")
	want(t, h.fails("read", "not-found", args{"file_path": "g.txt"}), "Error: open g.txt: file does not exist; did you mean f.txt?")
	want(t, h.fails("read", "is-folder", args{"file_path": "."}), "Error: . is a folder: list what is in it with glob, e.g. the pattern ./*")
	h.fails("read", "invalid-arguments", args{"file_path": "f.txt", "offset": -1})
}

func TestReadSaysWhatIsNoText(t *testing.T) {
	h := newHands(t)
	for name, c := range map[string]struct{ content, want string }{
		"a.png":   {"\x89PNG\r\n\x1a\n\x00\x00", "a PNG image"},
		"b.jpg":   {"\xff\xd8\xff\xe0", "a JPEG image"},
		"c.bin":   {"MZ\x90\x00\x03", "a binary file"},
		"d.txt":   {"\xff\xfeh\x00i\x00", "UTF-16"},
		"e.pdf":   {"%PDF-1.7\n", "a PDF document"},
		"f.webp":  {"RIFF\x10\x00\x00\x00WEBPVP8 ", "a WebP image"},
		"not.png": {"\x00", "a binary file"},
	} {
		h.put(name, c.content)
		if text := h.fails("read", "not-text", args{"file_path": name}); !strings.Contains(text, c.want) {
			t.Errorf("%s: %s", name, text)
		}
	}
	h.put("text.png", "only called so")
	want(t, h.works("read", args{"file_path": "text.png"}), "     1\tonly called so")
	h.put("late.txt", strings.Repeat("x", 9000)+"\na\x00b\n")
	if text := h.works("read", args{"file_path": "late.txt"}); !strings.Contains(text, "a\ufffdb") {
		t.Errorf("a late NUL: %s", text)
	}
}

func TestWrite(t *testing.T) {
	h := newHands(t)
	want(t, h.works("write", args{"file_path": "a/b/new.txt", "content": "one\ntwo\n"}), "Created a/b/new.txt with 2 lines.")
	want(t, h.get("a/b/new.txt"), "one\ntwo\n")
	// What was written need not be read.
	result := h.call("write", args{"file_path": "a/b/new.txt", "content": "one\n2\n"})
	want(t, llm.PlainText(result.Content), "Replaced a/b/new.txt: it has 2 lines now.")
	want(t, result.Meta.(tool.Change).Diff, "--- a/b/new.txt\n+++ a/b/new.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n")
	want(t, h.works("write", args{"file_path": "a/b/new.txt", "content": "one\n2\n"}), "a/b/new.txt already has exactly this content.")
	want(t, h.works("edit", args{"file_path": "a/b/new.txt", "old_string": "2", "new_string": "two"}), "Edited a/b/new.txt, line 2. Now:\n     1\tone\n     2\ttwo")
	h.put("known.txt", "theirs")
	want(t, h.fails("write", "not-read", args{"file_path": "known.txt", "content": "mine"}),
		"Error: known.txt exists and was not read since this session was started or resumed: read it, then try again")
	want(t, h.get("known.txt"), "theirs")
	h.works("read", args{"file_path": "known.txt"})
	h.put("known.txt", "theirs again")
	want(t, h.fails("write", "stale", args{"file_path": "known.txt", "content": "mine"}),
		"Error: known.txt has changed since it was read: read it again, then try again")
	h.works("read", args{"file_path": "known.txt", "limit": 1})
	h.works("write", args{"file_path": "known.txt", "content": "mine"})
	want(t, h.get("known.txt"), "mine")
	h.fails("write", "outside", args{"file_path": "../outside.txt", "content": "x"})
	h.fails("write", "is-folder", args{"file_path": "a", "content": "x"})
	want(t, h.works("write", args{"file_path": "empty", "content": ""}), "Created empty with 0 lines.")
}

func TestEdit(t *testing.T) {
	h := newHands(t)
	h.put("f.txt", "a\nb\na\nc\n")
	want(t, h.fails("edit", "not-read", args{"file_path": "f.txt", "old_string": "b", "new_string": "B"}),
		"Error: f.txt exists and was not read since this session was started or resumed: read it, then try again")
	want(t, h.edit("f.txt", "b", "B"), "Edited f.txt, line 2. Now:\n     1\ta\n     2\tB\n     3\ta\n     4\tc")
	want(t, h.fails("edit", "ambiguous", args{"file_path": "f.txt", "old_string": "a\n", "new_string": "A\n"}),
		"Error: f.txt: old_string occurs 2 times, on lines 1, 3. Add lines around it until it is the one that is meant, or set replace_all")
	want(t, h.works("edit", args{"file_path": "f.txt", "old_string": "a\n", "new_string": "A\n", "replace_all": true}), "Edited f.txt: 2 places.")
	want(t, h.get("f.txt"), "A\nB\nA\nc\n")
	want(t, h.fails("edit", "no-match", args{"file_path": "f.txt", "old_string": "", "new_string": "x"}),
		"Error: old_string is empty: give the text to replace; to create a file or replace all of one use write")
	h.fails("edit", "no-change", args{"file_path": "f.txt", "old_string": "c", "new_string": "c"})
	h.fails("edit", "not-found", args{"file_path": "g.txt", "old_string": "c", "new_string": "d"})
	h.put("b.bin", "\x00\x01")
	h.fails("read", "not-text", args{"file_path": "b.bin"})
	h.fails("edit", "not-read", args{"file_path": "b.bin", "old_string": "\x01", "new_string": "x"})
}

// What a miss says must lead to an edit that works.
func TestEditSaysWhyItMissed(t *testing.T) {
	h := newHands(t)
	h.put("f.go", "func f() {\n\tif x {\n\t\treturn 1\n\t}\n}\n\nfunc other(a, b int) int {\n\treturn a + b\n}\n")
	h.works("read", args{"file_path": "f.go"})
	for _, c := range []struct{ name, old, new, want string }{
		{"numbers", "     2\t\tif x {\n     3\t\t\treturn 1", "y", "Its lines begin with the line numbers that read shows; without them it is on line 2."},
		{"spaces for tabs", "    if x {\n        return 1", "y", "It differs from the file only in spaces and tabs: line 2 is \"\\tif x {\", old_string has \"    if x {\"."},
		{"already done", "return 2", "return 1", "new_string is already there, on line 3: the edit may have been made before."},
		{"nearly", "func other(a int, b int) int {\n\treturn a+b\n}", "y", "The closest is:\n     7\tfunc other(a, b int) int {\n     8\t\treturn a + b\n     9\t}"},
		{"nothing like it", "zebra crossing", "y", "Read the file again."},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := h.fails("edit", "no-match", args{"file_path": "f.go", "old_string": c.old, "new_string": c.new})
			want(t, got, "Error: f.go: old_string was not found. "+c.want)
		})
	}
}

func TestEditTellsSurfacesWhatChanged(t *testing.T) {
	h := newHands(t)
	h.put("f.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n")
	h.works("read", args{"file_path": "f.txt"})
	result := h.call("edit", args{"file_path": "f.txt", "old_string": "5\n6", "new_string": "five"})
	want(t, result.Meta.(tool.Change).Diff, "--- f.txt\n+++ f.txt\n@@ -2,8 +2,7 @@\n 2\n 3\n 4\n-5\n-6\n+five\n 7\n 8\n 9\n")
	if c := result.Meta.(tool.Change); c.Added != 1 || c.Removed != 2 || c.Created || c.Cut {
		t.Errorf("%+v", c)
	}
	// A diff in the log is bounded.
	h.works("write", args{"file_path": "big.txt", "content": strings.Repeat("line\n", 20_000)})
	result = h.call("edit", args{"file_path": "big.txt", "old_string": "line", "new_string": "LINE", "replace_all": true})
	if c := result.Meta.(tool.Change); len(c.Diff) > 16<<10 || c.Added != 20_000 || c.Removed != 20_000 {
		t.Errorf("%d bytes of diff, %d added, %d removed", len(c.Diff), c.Added, c.Removed)
	}
}

func TestCase_o_edt_01_CRLF(t *testing.T) {
	h := newHands(t)
	h.copyCase("o-edt-01", "crlf.txt")
	h.works("read", args{"file_path": "crlf.txt"})
	result := h.call("edit", args{"file_path": "crlf.txt", "old_string": "alpha\nbeta", "new_string": "alpha\nBETA\nnew"})
	want(t, h.get("crlf.txt"), "alpha\r\nBETA\r\nnew\r\ngamma\r\n")
	if c := result.Meta.(tool.Change); strings.Contains(c.Diff, "-gamma") || strings.Contains(c.Diff, "+gamma") {
		t.Errorf("the diff has lines that did not change:\n%s", c.Diff)
	}
	// One line in, several out; and the end of the file.
	h.works("edit", args{"file_path": "crlf.txt", "old_string": "gamma", "new_string": "g1\ng2"})
	want(t, h.get("crlf.txt"), "alpha\r\nBETA\r\nnew\r\ng1\r\ng2\r\n")
	// Line ends that the model asks for by name.
	h.works("edit", args{"file_path": "crlf.txt", "old_string": "g1\r\ng2", "new_string": "g\n"})
	want(t, h.get("crlf.txt"), "alpha\r\nBETA\r\nnew\r\ng\n\r\n")
	// A file that mixes them keeps what is outside.
	h.put("mixed.txt", "a\nb\r\nc\nd\r\n")
	h.edit("mixed.txt", "b\nc", "b\nc\ne")
	want(t, h.get("mixed.txt"), "a\nb\r\nc\r\ne\nd\r\n")
	// write gives what it was given.
	h.works("write", args{"file_path": "mixed.txt", "content": "a\nb\r\n"})
	want(t, h.get("mixed.txt"), "a\nb\r\n")
}

func TestCase_o_edt_02_ByteOrderMark(t *testing.T) {
	h := newHands(t)
	for _, c := range []struct{ old, new, want string }{
		{"hello", "hello2", "\ufeffhello2\n中文\n"},
		{"\ufeffhello", "\ufeffhello2", "\ufeffhello2\n中文\n"},
		{"\ufeffhello", "hello2", "\ufeffhello2\n中文\n"},
		{"hello\n", "", "\ufeff中文\n"},
		{"中文", "x\ufeffy", "\ufeffhello\nx\ufeffy\n"},
	} {
		h.copyCase("o-edt-02", "bom.ps1")
		if text := h.works("read", args{"file_path": "bom.ps1"}); strings.Contains(text, "\ufeff") {
			t.Errorf("read shows the mark: %q", text)
		}
		h.works("edit", args{"file_path": "bom.ps1", "old_string": c.old, "new_string": c.new})
		want(t, h.get("bom.ps1"), c.want)
	}
}

func TestCase_o_edt_03_LegacyBytesStay(t *testing.T) {
	h := newHands(t)
	h.copyCase("o-edt-03", "cp1252.txt")
	before := h.get("cp1252.txt")
	text := h.works("read", args{"file_path": "cp1252.txt"})
	if !strings.Contains(text, "\ufffd") || !strings.Contains(text, "not all UTF-8") {
		t.Errorf("read does not say that bytes are no UTF-8: %s", text)
	}
	first, rest, _ := strings.Cut(before, "\n")
	h.works("edit", args{"file_path": "cp1252.txt", "old_string": first + "\n", "new_string": "changed\n"})
	if after := h.get("cp1252.txt"); after != "changed\n"+rest {
		t.Errorf("%q", after)
	}
}

func TestCase_o_edt_04_ModesStay(t *testing.T) {
	h := newHands(t)
	h.copyCase("o-edt-04", "run.sh")
	h.put("shared.conf", "a\n")
	h.put("ro.txt", "a\n")
	for name, mode := range map[string]fs.FileMode{"run.sh": 0o755, "shared.conf": 0o664, "ro.txt": 0o444} {
		if err := os.Chmod(filepath.Join(h.dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	mode := func(name string) fs.FileMode {
		info, err := os.Stat(filepath.Join(h.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode()
	}
	h.edit("run.sh", "echo", "printf")
	h.works("write", args{"file_path": "run.sh", "content": "#!/bin/sh\n"})
	h.edit("shared.conf", "a", "b")
	if mode("run.sh") != 0o755 || mode("shared.conf") != 0o664 {
		t.Errorf("run.sh %v, shared.conf %v", mode("run.sh"), mode("shared.conf"))
	}
	h.works("read", args{"file_path": "ro.txt"})
	h.fails("edit", "permission", args{"file_path": "ro.txt", "old_string": "a", "new_string": "b"})
	h.fails("write", "permission", args{"file_path": "ro.txt", "content": "b"})
	if h.get("ro.txt") != "a\n" || mode("ro.txt") != 0o444 {
		t.Errorf("ro.txt: %q, %v", h.get("ro.txt"), mode("ro.txt"))
	}
}

func TestCase_o_edt_05_LinksStay(t *testing.T) {
	h := newHands(t)
	h.put("store/real.conf", "old\n")
	if err := os.Symlink("store/real.conf", filepath.Join(h.dir, "live.conf")); err != nil {
		t.Skip(err)
	}
	h.edit("live.conf", "old", "new")
	h.works("write", args{"file_path": "live.conf", "content": "newer\n"})
	target, err := os.Readlink(filepath.Join(h.dir, "live.conf"))
	if err != nil || target != "store/real.conf" || h.get("store/real.conf") != "newer\n" {
		t.Errorf("the link leads to %s, %v; its target holds %q", target, err, h.get("store/real.conf"))
	}
	// Under its other name it is the same file, which was read.
	h.works("edit", args{"file_path": "store/real.conf", "old_string": "newer", "new_string": "newest"})
}

func TestCase_o_edt_06_NewTextIsLiteral(t *testing.T) {
	h := newHands(t)
	h.copyCase("o-edt-06", "d.txt")
	const literal = `log("$& $1 $$ ${0} $name \1 \\1 %s %d");`
	h.edit("d.txt", `log("done");`, literal)
	want(t, h.get("d.txt"), literal+"\n")
	h.put("all.txt", "x x")
	h.works("read", args{"file_path": "all.txt"})
	h.works("edit", args{"file_path": "all.txt", "old_string": "x", "new_string": literal, "replace_all": true})
	want(t, h.get("all.txt"), literal+" "+literal)
}

func TestCase_o_edt_07_SameContentIsNotStale(t *testing.T) {
	h := newHands(t)
	path := filepath.Join(h.dir, "a.go")
	h.put("a.go", "package a\n")
	h.works("read", args{"file_path": "a.go"})
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(path, later, later); err != nil {
		t.Fatal(err)
	}
	h.works("edit", args{"file_path": "a.go", "old_string": "package a", "new_string": "package b"})
	h.works("read", args{"file_path": "a.go"})
	h.put("b", h.get("a.go"))
	if err := os.Rename(filepath.Join(h.dir, "b"), path); err != nil {
		t.Fatal(err)
	}
	h.works("edit", args{"file_path": "a.go", "old_string": "package b", "new_string": "package c"})
	// A change that size and time do not show is seen.
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	h.put("a.go", "package d\n")
	if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	h.fails("edit", "stale", args{"file_path": "a.go", "old_string": "package d", "new_string": "package e"})
}

func TestCase_o_edt_08_LastLineEnds(t *testing.T) {
	h := newHands(t)
	for _, c := range []struct{ file, old, new, want string }{
		{"nl.txt", "b", "c", "a\nc\n"},
		{"nonl.txt", "b", "c", "a\nc"},
		{"nl.txt", "a\n", "", "b\n"},
		{"nonl.txt", "a\n", "", "b"},
		{"nl.txt", "b", "b\nc", "a\nb\nc\n"},
		{"nonl.txt", "b", "b\nc", "a\nb\nc"},
		{"nonl.txt", "a\nb", "", ""},
	} {
		h.copyCase("o-edt-08", c.file)
		h.edit(c.file, c.old, c.new)
		want(t, h.get(c.file), c.want)
	}
	h.put("empty", "")
	h.works("read", args{"file_path": "empty"})
	h.fails("edit", "no-match", args{"file_path": "empty", "old_string": "a", "new_string": "b"})
	h.put("newline", "\n")
	h.edit("newline", "\n", "x\n\n")
	want(t, h.get("newline"), "x\n\n")
}

func TestCase_o_edt_09_OtherUnicodeSpelling(t *testing.T) {
	h := newHands(t)
	h.copyCase("o-edt-09", "nfd.txt")
	text := h.edit("nfd.txt", "caf\u00e9 = 1", "caf\u00e9 = 2")
	want(t, h.get("nfd.txt"), "caf\u00e9 = 2\nna\u00efve\n")
	if !strings.Contains(text, "Unicode") {
		t.Errorf("the model is not told: %s", text)
	}
	h.put("re\u0301sume\u0301.md", "cv\n")
	h.edit("r\u00e9sum\u00e9.md", "cv", "CV")
	want(t, h.get("re\u0301sume\u0301.md"), "CV\n")
	h.works("write", args{"file_path": "r\u00e9sum\u00e9.md", "content": "new\n"})
	entries, err := os.ReadDir(h.dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestCase_o_edt_10_CopiedLineNumbersAndTabs(t *testing.T) {
	h := newHands(t)
	h.copyCase("o-edt-10", "tabs.go.txt")
	h.copyCase("o-edt-10", "looks.txt")
	before := h.get("tabs.go.txt")
	h.works("read", args{"file_path": "tabs.go.txt"})
	for old, why := range map[string]string{
		"2: \tif x {\n3: \t\treturn":               "line numbers",
		"     2\t\tif x {\n     3\t\t\treturn":     "line numbers",
		"2→\tif x {\n3→\t\treturn":                 "line numbers",
		"    if x {\n        return":               `line 2 is "\tif x {"`,
		"        if x {\n                return\n": `line 2 is "\tif x {"`,
		"\tif x { \n\t\treturn":                    `line 2 is "\tif x {"`,
		"func f() {\n\n\tif x {":                   "closest",
	} {
		if text := h.fails("edit", "no-match", args{"file_path": "tabs.go.txt", "old_string": old, "new_string": "wrong"}); !strings.Contains(text, why) {
			t.Errorf("%q: %s", old, text)
		}
	}
	want(t, h.get("tabs.go.txt"), before)
	// What looks like a number and is the file's text matches first.
	first, _, _ := strings.Cut(h.get("looks.txt"), "\n")
	h.edit("looks.txt", first, "changed")
	if got := h.get("looks.txt"); !strings.HasPrefix(got, "changed\n") {
		t.Errorf("%q", got)
	}
}

func TestCase_o_edt_11_Tilde(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	h := newHands(t)
	if err := os.WriteFile(filepath.Join(home, "n.txt"), []byte("at home\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	want(t, h.works("read", args{"file_path": "~/n.txt"}), "     1\tat home")
	h.fails("edit", "outside", args{"file_path": "~/n.txt", "old_string": "at", "new_string": "not at"})
	h.fails("write", "outside", args{"file_path": "~/new.txt", "content": "x"})
	if entries, err := os.ReadDir(h.dir); err != nil || len(entries) > 0 {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestCase_o_edt_12_HugeFiles(t *testing.T) {
	h := newHands(t)
	sparse, err := os.Create(filepath.Join(h.dir, "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(sparse.Truncate(3<<30), sparse.Close()); err != nil {
		t.Fatal(err)
	}
	h.fails("read", "not-text", args{"file_path": "sparse"})
	h.put("oneline", strings.Repeat("x", 20<<20))
	if text := h.works("read", args{"file_path": "oneline"}); len(text) > 3000 || !strings.Contains(text, "the line goes on") {
		t.Errorf("%d bytes: %s", len(text), text[:min(len(text), 100)])
	}
	var big strings.Builder
	filler := strings.Repeat(" ", 200)
	for i := range 100_000 {
		fmt.Fprintf(&big, "%s%d\n", filler, i+1)
	}
	h.put("deep", big.String())
	want(t, h.works("read", args{"file_path": "deep", "offset": 99_990, "limit": 2}),
		" 99990\t"+filler+"99990\n 99991\t"+filler+"99991\n[Lines 99990-99991; there are more. Read on with offset 99992.]")
	h.fails("write", "too-large", args{"file_path": "deep", "content": "x"})
}

func TestTrust_T11_WhatHasNoContent(t *testing.T) {
	h := newHands(t)
	for name, code := range map[string]string{"/dev/zero": "not-regular", "/proc/kmsg": "not-regular", ".": "is-folder"} {
		if _, err := os.Stat(name); err != nil {
			continue // not on this machine
		}
		h.fails("read", code, args{"file_path": name})
	}
}

func TestTrust_T12_StaleAndStrangeFiles(t *testing.T) {
	h := newHands(t)
	h.put("f", "one\n")
	h.works("read", args{"file_path": "f"})
	h.put("f", "one\ntwo\n")
	h.fails("edit", "stale", args{"file_path": "f", "old_string": "one", "new_string": "1"})
	want(t, h.get("f"), "one\ntwo\n")
	if err := os.Remove(filepath.Join(h.dir, "f")); err != nil {
		t.Fatal(err)
	}
	h.fails("edit", "not-found", args{"file_path": "f", "old_string": "one", "new_string": "1"})
	h.put("large", strings.Repeat("x", 20<<20))
	h.works("read", args{"file_path": "large"})
	h.fails("edit", "too-large", args{"file_path": "large", "old_string": "x", "new_string": "y"})
}

// Law: outside of the replaced text every byte stays, whatever the file holds.
func TestTrust_T12_BytesOutsideStay(t *testing.T) {
	h := newHands(t)
	part := rapid.SampledFrom([]string{"a", "bc", "\n", "\r\n", "\t", " ", "é", "e\u0301", "字", "\xff", "\x80\x99", "\ufeff", "$1", "\r"})
	text := func(least int) *rapid.Generator[string] {
		return rapid.Map(rapid.SliceOfN(part, least, 12), func(s []string) string { return strings.Join(s, "") })
	}
	rapid.Check(t, func(t *rapid.T) {
		before, old, after := text(0).Draw(t, "before"), text(1).Draw(t, "old"), text(0).Draw(t, "after")
		if rapid.Bool().Draw(t, "mark") {
			before = "\ufeff" + before
		}
		h.put("f", before+"<"+old+">"+after)
		// Arguments are JSON, which has no invalid text.
		valid := "<" + strings.ToValidUTF8(old, "?") + ">"
		added := "[" + strings.ToValidUTF8(text(0).Draw(t, "new"), "?") + "]"
		h.works("read", args{"file_path": "f"})
		result := h.call("edit", args{"file_path": "f", "old_string": valid, "new_string": added})
		got := h.get("f")
		if result.IsError {
			if got != before+"<"+old+">"+after {
				t.Fatalf("a refused edit changed the file: %q", got)
			}
			if valid == "<"+old+">" {
				t.Fatalf("%s", llm.PlainText(result.Content))
			}
			return
		}
		inside, ok := strings.CutPrefix(got, before)
		if ok {
			inside, ok = strings.CutSuffix(inside, after)
		}
		plain := strings.ReplaceAll(inside, "\r\n", "\n")
		if !ok || plain != strings.ReplaceAll(added, "\r\n", "\n") {
			t.Fatalf("%q became %q", before+"<"+old+">"+after, got)
		}
	})
}

func TestSessionsDoNotShareWhatTheyRead(t *testing.T) {
	h := newHands(t)
	h.put("f", "x")
	h.works("read", args{"file_path": "f"})
	other := &hands{t, h.dir, h.w, mount(t)} // as after a resume: nothing is remembered
	other.fails("edit", "not-read", args{"file_path": "f", "old_string": "x", "new_string": "y"})
	h.works("edit", args{"file_path": "f", "old_string": "x", "new_string": "y"})
}

func TestDelete(t *testing.T) {
	t.Setenv("DSH_HOME", t.TempDir())
	h := newHands(t)
	h.put("d/a", "one")
	h.put("d/e/b", "two")
	h.put("kept", "x")
	text := h.works("delete", args{"file_path": "d"})
	if !strings.HasPrefix(text, "Deleted d: 2 files, which dsh trash restore ") {
		t.Errorf("the model is told %q", text)
	}
	if _, err := os.Lstat(filepath.Join(h.dir, "d")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("d is still there: %v", err)
	}
	h.fails("delete", "not-found", args{"file_path": "d"})
	h.fails("delete", "never-deleted", args{"file_path": "."})
	h.fails("delete", "never-deleted", args{"file_path": "/"})
	h.fails("delete", "outside", args{"file_path": "/etc/hostname"})
	want(t, h.get("kept"), "x")
}

func TestAccess(t *testing.T) {
	tools := mount(t)
	for name, kind := range map[string]tool.AccessKind{"read": tool.AccessRead, "write": tool.AccessWrite, "edit": tool.AccessWrite, "delete": tool.AccessWrite} {
		got := tools[name].Access(&tool.Call{Arguments: json.RawMessage(`{"file_path":"a/b","content":"","old_string":"x","new_string":"y"}`)})
		if d := cmp.Diff([]tool.Access{{Kind: kind, Target: "a/b"}}, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestConfig(t *testing.T) {
	if err := files.Plugin.Default().Validate(); err != nil {
		t.Error(err)
	}
	if err := (files.Config{}).Validate(); err == nil {
		t.Error("limits of 0 are taken")
	}
}

func FuzzEdit(f *testing.F) {
	for _, seed := range [][3]string{
		{"alpha\r\nbeta\r\n", "alpha\nbeta", "x\ny"}, {"\ufeffhello\n", "hello", "x"}, {"cafe\u0301", "caf\u00e9", "x"},
		{"a\xffb\n", "b", "c"}, {"\n\n\n", "\n", "\r\n"}, {"\r\r\n", "\n", "x\n"}, {"1: x", "1: x", ""}, {"", "x", "y"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	shared := newHands(f)
	f.Fuzz(func(t *testing.T, content, old, new string) {
		h := &hands{t, shared.dir, shared.w, shared.tools}
		h.put("f", content)
		if h.call("read", args{"file_path": "f"}).IsError {
			t.Skip("no text")
		}
		result := h.call("edit", args{"file_path": "f", "old_string": old, "new_string": new, "replace_all": len(content)%2 == 0})
		if got := h.get("f"); result.IsError != (got == content) {
			t.Fatalf("error %v: %q became %q by %q -> %q", result.IsError, content, got, old, new)
		}
	})
}

// BenchmarkRead is a read of a small file with everything but the pipeline around it.
func BenchmarkRead(b *testing.B) {
	h := newHands(b)
	h.put("f12.txt", "line 12\n")
	call := &tool.Call{Name: "read", Workspace: h.w, Progress: func(string) {}}
	read := h.tools["read"]
	b.ReportAllocs()
	for b.Loop() {
		arguments, err := read.Check(`{"file_path":"f12.txt"}`)
		if err != nil {
			b.Fatal(err)
		}
		call.Arguments = arguments
		body, err := read.Bind(call)
		if err != nil {
			b.Fatal(err)
		}
		if result, err := body(b.Context()); err != nil || result.IsError {
			b.Fatal(result, err)
		}
	}
}

// racing is a workspace in which somebody else writes right before every write.
type racing struct {
	workspace.Workspace
	before func()
}

func (r racing) FS() workspace.FS { return racingFS{r.Workspace.FS(), r.before} }

type racingFS struct {
	workspace.FS
	before func()
}

func (f racingFS) WriteFile(name string, data []byte, o workspace.WriteOptions) error {
	f.before()
	return f.FS.WriteFile(name, data, o)
}

func TestTrust_T12_ChangedInTheLastMoment(t *testing.T) {
	h := newHands(t)
	h.put("f", "one\n")
	h.works("read", args{"file_path": "f"})
	h.w = racing{h.w, func() { h.put("f", "theirs\n") }}
	h.fails("edit", "stale", args{"file_path": "f", "old_string": "one", "new_string": "1"})
	h.put("f", "one\n")
	h.fails("write", "stale", args{"file_path": "f", "content": "1"})
	want(t, h.get("f"), "theirs\n")
	h.w = racing{h.w, func() { h.put("new", "theirs\n") }}
	h.fails("write", "stale", args{"file_path": "new", "content": "mine"})
	want(t, h.get("new"), "theirs\n")
}
