package workspacetest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/workspace"
)

// Run runs the contract suite against a provider whose files are those of this machine.
func Run(t *testing.T, provider plugin.Definition) {
	for _, c := range []struct {
		name string
		test func(*testing.T, plugin.Definition)
	}{
		{"Roots", roots},
		{"Locate", locate},
		{"Read", read},
		{"Write", write},
		{"WriteKeepsWhatTheFileIs", keeps},
		{"WriteRefuses", refuses},
		{"Remove", remove},
		{"Temp", temp},
		{"Run", runs},
		{"RunEnds", ends},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, provider)
		})
	}
}

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Skipf("no links here: %v", err)
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error = %v, want one that is %v", err, want)
	}
}

func roots(t *testing.T, provider plugin.Definition) {
	dir, added := t.TempDir(), t.TempDir()
	w := Open(t, provider, workspace.Options{Dir: dir, Dirs: []string{added}})
	want := []string{real(t, dir), real(t, added), w.Temp()}
	if d := cmp.Diff(want, w.Roots()); d != "" {
		t.Error(d)
	}
	if w.Dir() != want[0] {
		t.Errorf("Dir = %s, want %s", w.Dir(), want[0])
	}
	switch level, _ := w.Sandbox(); level {
	case workspace.SandboxNone, workspace.SandboxPartial, workspace.SandboxFull:
	default:
		t.Errorf("Sandbox = %q", level)
	}
}

func locate(t *testing.T, provider plugin.Definition) {
	dir, outside := real(t, t.TempDir()), real(t, t.TempDir())
	w := Open(t, provider, workspace.Options{Dir: dir})
	put(t, dir+"/a/b.txt", "b")
	put(t, outside+"/c.txt", "c")
	link(t, "a", dir+"/in")
	link(t, outside, dir+"/out")
	link(t, "nowhere", dir+"/dangling")
	link(t, dir+"/in/b.txt", dir+"/chain")
	for _, c := range []struct {
		name string
		want workspace.Place
	}{
		{".", workspace.Place{Path: dir, Root: dir, Rel: ".", Exists: true}},
		{"a/b.txt", workspace.Place{Path: dir + "/a/b.txt", Root: dir, Rel: "a/b.txt", Exists: true}},
		{"./a//b.txt", workspace.Place{Path: dir + "/a/b.txt", Root: dir, Rel: "a/b.txt", Exists: true}},
		{dir + "/a/b.txt", workspace.Place{Path: dir + "/a/b.txt", Root: dir, Rel: "a/b.txt", Exists: true}},
		{"in/b.txt", workspace.Place{Path: dir + "/a/b.txt", Root: dir, Rel: "a/b.txt", Exists: true}},
		{"chain", workspace.Place{Path: dir + "/a/b.txt", Root: dir, Rel: "a/b.txt", Exists: true}},
		{"in/../x", workspace.Place{Path: dir + "/x", Root: dir, Rel: "x"}},
		{"a/new/deep.txt", workspace.Place{Path: dir + "/a/new/deep.txt", Root: dir, Rel: "a/new/deep.txt"}},
		{"dangling", workspace.Place{Path: dir + "/nowhere", Root: dir, Rel: "nowhere"}},
		{"out/c.txt", workspace.Place{Path: outside + "/c.txt", Exists: true}},
		{"out/../c.txt", workspace.Place{Path: filepath.Dir(outside) + "/c.txt"}},
		{dir + "2/x", workspace.Place{Path: dir + "2/x"}},
		{"a/b.txt/x", workspace.Place{Path: dir + "/a/b.txt/x", Root: dir, Rel: "a/b.txt/x"}},
	} {
		got, err := w.FS().Locate(c.name)
		if err != nil {
			t.Errorf("Locate(%s): %v", c.name, err)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("Locate(%s): %s", c.name, d)
		}
	}
	link(t, "loop", dir+"/loop")
	for _, bad := range []string{"", "a\x00b", "loop"} {
		if p, err := w.FS().Locate(bad); err == nil {
			t.Errorf("Locate(%q) = %v", bad, p)
		}
	}
}

func read(t *testing.T, provider plugin.Definition) {
	dir := real(t, t.TempDir())
	w := Open(t, provider, workspace.Options{Dir: dir})
	put(t, dir+"/a/b.txt", "b")
	put(t, dir+"/a/Readme.md", "r")
	link(t, "b.txt", dir+"/a/link")
	file, err := w.FS().Open("a/link")
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(file)
	if err != nil || string(got) != "b" {
		t.Errorf("content = %q, %v", got, err)
	}
	if err := file.Close(); err != nil {
		t.Error(err)
	}
	if info, err := w.FS().Stat("a/link"); err != nil || info.Mode()&fs.ModeSymlink != 0 {
		t.Errorf("Stat = %v, %v", info, err)
	}
	if info, err := w.FS().Lstat("a/link"); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("Lstat = %v, %v", info, err)
	}
	entries, err := w.FS().ReadDir("a")
	if err != nil || !slices.IsSortedFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) }) || len(entries) != 3 {
		t.Errorf("ReadDir = %v, %v", entries, err)
	}
	for name, want := range map[string]string{
		"a/c.txt":     "did you mean a/b.txt?",
		"a/README.md": "did you mean a/Readme.md?",
		"b/b.txt":     "there is no folder b",
		"a/b.txt/x":   "a/b.txt is a file, not a folder",
	} {
		_, err := w.FS().Open(name)
		wantErr(t, err, fs.ErrNotExist)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open(%s): %v; want %q in it", name, err, want)
		}
	}
}

func write(t *testing.T, provider plugin.Definition) {
	dir, outside := real(t, t.TempDir()), real(t, t.TempDir())
	w := Open(t, provider, workspace.Options{Dir: dir})
	f := w.FS()
	put(t, outside+"/c.txt", "c")
	link(t, outside, dir+"/out")
	link(t, outside+"/new.txt", dir+"/dangling")
	for _, c := range []struct {
		name, data string
		o          workspace.WriteOptions
		err        error
	}{
		{"deep/er/new.txt", "1", workspace.WriteOptions{}, nil},
		{"deep/er/new.txt", "2", workspace.WriteOptions{MustExist: true}, nil},
		{"deep/er/new.txt", "3", workspace.WriteOptions{MustBeNew: true}, fs.ErrExist},
		{"deep/er/new.txt", "3", workspace.WriteOptions{Expect: []byte("1")}, workspace.ErrChanged},
		{"deep/er/new.txt", "3", workspace.WriteOptions{Expect: []byte("2")}, nil},
		{"deep/er/new.txt", "", workspace.WriteOptions{}, nil},
		{"deep/er/new.txt", "4", workspace.WriteOptions{Expect: []byte{}}, nil},
		{"other.txt", "1", workspace.WriteOptions{MustExist: true}, fs.ErrNotExist},
		{"other.txt", "1", workspace.WriteOptions{Expect: []byte("1")}, fs.ErrNotExist},
		{"other.txt", "1", workspace.WriteOptions{MustBeNew: true}, nil},
		{"../sibling.txt", "1", workspace.WriteOptions{}, workspace.ErrOutside},
		{outside + "/c.txt", "1", workspace.WriteOptions{}, workspace.ErrOutside},
		{"out/c.txt", "1", workspace.WriteOptions{}, workspace.ErrOutside},
		{"out/new/c.txt", "1", workspace.WriteOptions{}, workspace.ErrOutside},
		{"dangling", "1", workspace.WriteOptions{}, workspace.ErrOutside},
	} {
		err := f.WriteFile(c.name, []byte(c.data), c.o)
		if !errors.Is(err, c.err) {
			t.Errorf("WriteFile(%s, %q, %+v) = %v, want %v", c.name, c.data, c.o, err, c.err)
		}
		if err == nil && content(t, filepath.Join(dir, c.name)) != c.data {
			t.Errorf("WriteFile(%s, %q) left %q", c.name, c.data, content(t, filepath.Join(dir, c.name)))
		}
	}
	if got := content(t, outside+"/c.txt"); got != "c" {
		t.Errorf("the file outside holds %q", got)
	}
	for _, d := range []string{dir, dir + "/deep/er", outside} {
		entries, err := os.ReadDir(d)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !slices.Contains([]string{"c.txt", "out", "dangling", "deep", "er", "new.txt", "other.txt"}, e.Name()) {
				t.Errorf("%s was left in %s", e.Name(), d)
			}
		}
	}
}

func keeps(t *testing.T, provider plugin.Definition) {
	if runtime.GOOS == "windows" {
		t.Skip("modes and links are different there")
	}
	dir := real(t, t.TempDir())
	w := Open(t, provider, workspace.Options{Dir: dir})
	for _, mode := range []fs.FileMode{0o755, 0o664, 0o600} {
		put(t, dir+"/f", "old")
		if err := os.Chmod(dir+"/f", mode); err != nil {
			t.Fatal(err)
		}
		if err := w.FS().WriteFile("f", []byte("new"), workspace.WriteOptions{Mode: 0o640}); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(dir + "/f"); err != nil || info.Mode() != mode {
			t.Errorf("mode = %v, %v, want %v", info.Mode(), err, mode)
		}
	}
	put(t, dir+"/store/real.conf", "old")
	link(t, "store/real.conf", dir+"/live.conf")
	if err := w.FS().WriteFile("live.conf", []byte("new"), workspace.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if target, err := os.Readlink(dir + "/live.conf"); err != nil || target != "store/real.conf" {
		t.Errorf("the link leads to %s, %v", target, err)
	}
	if got := content(t, dir+"/store/real.conf"); got != "new" {
		t.Errorf("its target holds %q", got)
	}
}

func refuses(t *testing.T, provider plugin.Definition) {
	dir := real(t, t.TempDir())
	w := Open(t, provider, workspace.Options{Dir: dir})
	put(t, dir+"/ro.txt", "old")
	if err := os.Chmod(dir+"/ro.txt", 0o444); err != nil {
		t.Fatal(err)
	}
	err := w.FS().WriteFile("ro.txt", []byte("new"), workspace.WriteOptions{})
	wantErr(t, err, fs.ErrPermission)
	put(t, dir+"/sub/f", "x")
	for _, name := range []string{".", "sub", "ro.txt/below", dir} {
		if err := w.FS().WriteFile(name, nil, workspace.WriteOptions{}); err == nil {
			t.Errorf("WriteFile(%s) worked", name)
		}
	}
	if got := content(t, dir+"/ro.txt"); got != "old" {
		t.Errorf("the read-only file holds %q", got)
	}
}

func remove(t *testing.T, provider plugin.Definition) {
	dir, outside := real(t, t.TempDir()), real(t, t.TempDir())
	w := Open(t, provider, workspace.Options{Dir: dir})
	put(t, dir+"/a", "a")
	put(t, dir+"/full/f", "f")
	put(t, outside+"/c", "c")
	link(t, outside+"/c", dir+"/link")
	link(t, outside, dir+"/out")
	for _, name := range []string{"a", "link"} {
		if err := w.FS().Remove(name); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
	wantErr(t, w.FS().Remove("out/c"), workspace.ErrOutside)
	wantErr(t, w.FS().Remove("a"), fs.ErrNotExist)
	for _, name := range []string{"full", ".", "..", dir} {
		if err := w.FS().Remove(name); err == nil {
			t.Errorf("Remove(%s) worked", name)
		}
	}
	if got := content(t, outside+"/c"); got != "c" {
		t.Errorf("the file outside holds %q", got)
	}
}

func temp(t *testing.T, provider plugin.Definition) {
	w, closeNow := OpenScope(t, provider, workspace.Options{})
	if info, err := os.Stat(w.Temp()); err != nil || info.Mode().Perm() != 0o700 && runtime.GOOS != "windows" {
		t.Errorf("the temporary folder: %v, %v", info, err)
	}
	if err := w.FS().WriteFile(filepath.Join(w.Temp(), "sub", "f"), []byte("x"), workspace.WriteOptions{}); err != nil {
		t.Error(err)
	}
	closeNow()
	if _, err := os.Lstat(w.Temp()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the workspace was closed: %v", err)
	}
}

func runs(t *testing.T, provider plugin.Definition) {
	dir := real(t, t.TempDir())
	put(t, dir+"/sub/f", "x")
	w := Open(t, provider, workspace.Options{Dir: dir, Env: []string{"GIVEN=1"}})
	skipWithoutCommands(t, w)
	for _, c := range []struct {
		name, script string
		command      workspace.Command
		out, err     string
		want         workspace.Result
	}{
		{name: "output", script: "echo out; echo err >&2", out: "out\n", err: "err\n"},
		{name: "merged", script: "echo 1; echo 2 >&2; echo 3", command: workspace.Command{Merged: true}, out: "1\n2\n3\n"},
		{name: "code", script: "exit 3", want: workspace.Result{Code: 3}},
		{name: "codes of shells are codes", script: "exit 137", want: workspace.Result{Code: 137}},
		{name: "signal", script: "kill -9 $$", want: workspace.Result{Code: -1, Signal: "SIGKILL"}},
		{name: "no input", script: "cat; echo end", out: "end\n"},
		{name: "input", script: "cat", command: workspace.Command{Stdin: []byte("hello")}, out: "hello"},
		{name: "unread input", script: "true", command: workspace.Command{Stdin: bytes.Repeat([]byte("x"), 1<<20)}},
		{name: "folder", script: "pwd", out: dir + "\n"},
		{name: "other folder", script: "pwd", command: workspace.Command{Dir: "sub"}, out: dir + "/sub\n"},
		{name: "environment", script: `echo "$GIVEN $ADDED"`, command: workspace.Command{Env: []string{"ADDED=2"}}, out: "1 2\n"},
		{name: "temporary files", script: `echo "$TMPDIR"`, out: w.Temp() + "\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err, result := run(t, w, c.script, c.command)
			if out != c.out || err != c.err {
				t.Errorf("output = %q, %q, want %q, %q", out, err, c.out, c.err)
			}
			if result.Duration <= 0 {
				t.Errorf("duration = %v", result.Duration)
			}
			result.Duration, result.Sandbox = 0, ""
			if d := cmp.Diff(c.want, result); d != "" {
				t.Error(d)
			}
		})
	}
	_, err := w.Exec().Run(t.Context(), workspace.Command{Args: []string{"no-such-program"}})
	wantErr(t, err, exec.ErrNotFound)
	_, err = w.Exec().Run(t.Context(), workspace.Command{Args: []string{"true"}, Dir: "no/such/folder"})
	wantErr(t, err, workspace.ErrNoFolder)
	if _, err := w.Exec().Run(t.Context(), workspace.Command{}); err == nil {
		t.Error("a command without a program worked")
	}
}

func ends(t *testing.T, provider plugin.Definition) {
	w := Open(t, provider, workspace.Options{})
	skipWithoutCommands(t, w)
	t.Run("timeout", func(t *testing.T) {
		out, _, result := run(t, w, "echo begun; sleep 300", workspace.Command{Timeout: 300 * time.Millisecond})
		if !result.TimedOut || result.Canceled || result.Signal != "SIGTERM" || out != "begun\n" {
			t.Errorf("%q, %+v", out, result)
		}
	})
	t.Run("success after the timeout", func(t *testing.T) {
		_, _, result := run(t, w, "trap 'exit 0' TERM; while :; do sleep 0.05; done", workspace.Command{Timeout: 300 * time.Millisecond})
		if !result.TimedOut || result.Code != 0 || result.Signal != "" {
			t.Errorf("%+v", result)
		}
	})
	t.Run("deaf to being asked", func(t *testing.T) {
		_, _, result := run(t, w, "trap '' TERM; while :; do sleep 1; done", workspace.Command{Timeout: 200 * time.Millisecond, Grace: 200 * time.Millisecond})
		if !result.TimedOut || result.Signal != "SIGKILL" || result.Duration > 3*time.Second {
			t.Errorf("%+v", result)
		}
	})
	t.Run("canceled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		result, err := w.Exec().Run(ctx, workspace.Command{
			Args:   []string{"sh", "-c", "echo begun; sleep 300"},
			Output: func([]byte, bool) { cancel() },
		})
		if err != nil || !result.Canceled || result.TimedOut || result.Duration > 5*time.Second {
			t.Errorf("%+v, %v", result, err)
		}
	})
	t.Run("leftovers", func(t *testing.T) {
		out, _, result := run(t, w, "sleep 300 & echo $!", workspace.Command{})
		if result.Code != 0 || result.Leftover != 1 || result.Duration > 3*time.Second {
			t.Errorf("%q, %+v", out, result)
		}
	})
}

func skipWithoutCommands(t *testing.T, w workspace.Workspace) {
	t.Helper()
	if runtime.GOOS == "windows" {
		if _, err := w.Exec().Run(t.Context(), workspace.Command{Args: []string{"sh", "-c", "true"}}); err != nil {
			t.Skip(err)
		}
	}
}

func run(t *testing.T, w workspace.Workspace, script string, c workspace.Command) (stdout, stderr string, result workspace.Result) {
	t.Helper()
	c.Args = []string{"sh", "-c", script}
	var out, errs strings.Builder
	c.Output = func(p []byte, isErr bool) {
		if isErr {
			errs.Write(p)
		} else {
			out.Write(p)
		}
	}
	result, err := w.Exec().Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), result
}
