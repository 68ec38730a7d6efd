//go:build unix

package local_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/dsh-harness/dsh/internal/need"
	"github.com/dsh-harness/dsh/workspace"
	"github.com/dsh-harness/dsh/workspace/local"
	"github.com/dsh-harness/dsh/workspace/workspacetest"
)

// times is how often a race is tried: few in the quick gate, full with DSH_TEST_FULL=1.
func times(quick, full int) int {
	if os.Getenv("DSH_TEST_FULL") == "1" {
		return full
	}
	return quick
}

func realDir(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
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

func get(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestTrust_F01_NoWriteLeavesTheRoots(t *testing.T) {
	t.Parallel()
	base := realDir(t)
	dir, outside := filepath.Join(base, "app"), filepath.Join(base, "outside")
	put(t, filepath.Join(dir, "f"), "f")
	put(t, filepath.Join(outside, "f"), "secret")
	put(t, filepath.Join(base, "app2", "f"), "secret")
	w := open(t, workspace.Options{Dir: dir})
	for name, target := range map[string]string{
		"file": "../outside/f", "absolute": outside + "/f", "folder": "../outside", "chain": "folder", "chain2": "chain/f",
		"dangling": "../outside/new", "root": "/", "up": "..",
		"magic": "/proc/self/root" + outside, "cwd": "/proc/self/cwd",
	} {
		must(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	for _, name := range []string{
		"../outside/f", outside + "/f", base + "/app2/f", dir + "/../app2/f", dir + "//../outside/f", "f/../../outside/f",
		"file", "absolute", "folder/f", "folder/new", "chain/f", "chain2", "dangling", "root" + outside + "/f", "up/outside/f",
		"magic/f", "/proc/self/root" + outside + "/f", "folder/../outside/f",
	} {
		for _, o := range []workspace.WriteOptions{{}, {MustExist: true}, {MustBeNew: true}, {Expect: []byte("secret")}} {
			if err := w.FS().WriteFile(name, []byte("x"), o); err == nil {
				t.Errorf("WriteFile(%s, %+v) worked", name, o)
			}
		}
		if err := w.FS().Remove(name); err == nil && !strings.Contains("file absolute chain2 dangling", name) {
			t.Errorf("Remove(%s) worked", name)
		}
	}
	for _, path := range []string{outside + "/f", base + "/app2/f"} {
		if got := get(t, path); got != "secret" {
			t.Errorf("%s holds %q", path, got)
		}
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 1 {
		t.Errorf("outside: %v, %v", entries, err)
	}
}

func TestTrust_F03_AHardLinkIsCut(t *testing.T) {
	t.Parallel()
	base := realDir(t)
	dir := filepath.Join(base, "app")
	put(t, base+"/store/f", "shared")
	must(t, os.MkdirAll(dir, 0o755))
	must(t, os.Link(base+"/store/f", dir+"/f"))
	w := open(t, workspace.Options{Dir: dir})
	must(t, w.FS().WriteFile("f", []byte("mine"), workspace.WriteOptions{Expect: []byte("shared")}))
	if get(t, base+"/store/f") != "shared" || get(t, dir+"/f") != "mine" {
		t.Errorf("store %q, mine %q", get(t, base+"/store/f"), get(t, dir+"/f"))
	}
}

func TestTrust_F05_TemporaryFilesArePrivate(t *testing.T) {
	t.Parallel()
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	w := open(t, workspace.Options{})
	info, err := os.Lstat(w.Temp())
	must(t, err)
	if info.Mode() != fs.ModeDir|0o700 || len(filepath.Base(w.Temp())) < 24 {
		t.Errorf("%s: %v", w.Temp(), info.Mode())
	}
	other := open(t, workspace.Options{})
	if w.Temp() == other.Temp() {
		t.Error("two workspaces share their temporary folder")
	}
}

func TestTrust_T13_NothingMountedIsRemoved(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux lists mounts")
	}
	target := filepath.Join(realDir(t), "precious")
	put(t, target+"/f", "precious")
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.Command("unshare", "-m", exe, "-test.run=^TestHelperMount$", "-test.v")
	cmd.Env = append(os.Environ(), "DSH_TEST_MOUNT="+target)
	out, err := cmd.CombinedOutput()
	if bytes.Contains(out, []byte("unshare:")) || errors.Is(err, exec.ErrNotFound) {
		need.Missing(t, "no mount namespace of its own here: %s %v", out, err)
	}
	if err != nil || !bytes.Contains(out, []byte("is mounted in it")) {
		t.Errorf("%v: %s", err, out)
	}
	if get(t, target+"/f") != "precious" {
		t.Error("the content of a mounted folder was removed")
	}
}

func TestClosingRemovesNoLinkTarget(t *testing.T) {
	t.Parallel()
	target := realDir(t)
	put(t, target+"/f", "precious")
	w, closeNow := workspacetest.OpenScope(t, local.Plugin.Definition(), workspace.Options{})
	must(t, os.Symlink(target, filepath.Join(w.Temp(), "link")))
	closeNow()
	if get(t, target+"/f") != "precious" {
		t.Error("the target of a link was removed")
	}
	if _, err := os.Lstat(w.Temp()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the temporary folder: %v", err)
	}
}

func TestCase_o_edt_04_ModesAndOwners(t *testing.T) {
	// Not parallel: the umask is the process's.
	old := syscall.Umask(0o002)
	defer syscall.Umask(old)
	dir := realDir(t)
	w := open(t, workspace.Options{Dir: dir})
	must(t, w.FS().WriteFile("new.txt", nil, workspace.WriteOptions{}))
	must(t, w.FS().WriteFile("script", nil, workspace.WriteOptions{Mode: 0o777}))
	for name, mode := range map[string]fs.FileMode{"new.txt": 0o664, "script": 0o775} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if os.Geteuid() != 0 {
		return
	}
	put(t, dir+"/theirs", "x")
	must(t, os.Chown(dir+"/theirs", 1234, 4321))
	must(t, w.FS().WriteFile("theirs", []byte("y"), workspace.WriteOptions{}))
	info, err := os.Stat(dir + "/theirs")
	must(t, err)
	if st := info.Sys().(*syscall.Stat_t); st.Uid != 1234 || st.Gid != 4321 {
		t.Errorf("owner %d, group %d", st.Uid, st.Gid)
	}
}

func TestCase_o_edt_05_LinksStay(t *testing.T) {
	t.Parallel()
	dir := realDir(t)
	put(t, dir+"/store/real.conf", "old")
	must(t, os.Symlink(dir+"/store/real.conf", dir+"/absolute.conf"))
	must(t, os.Symlink("store/new.conf", dir+"/dangling.conf"))
	w := open(t, workspace.Options{Dir: dir})
	for _, name := range []string{"absolute.conf", "dangling.conf"} {
		must(t, w.FS().WriteFile(name, []byte("by "+name), workspace.WriteOptions{}))
		if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || info.Mode()&fs.ModeSymlink == 0 {
			t.Errorf("%s is no link any more: %v, %v", name, info, err)
		}
		if got := get(t, filepath.Join(dir, name)); got != "by "+name {
			t.Errorf("behind %s: %q", name, got)
		}
	}
}

func TestCase_o_edt_09_OneFileInBothSpellings(t *testing.T) {
	t.Parallel()
	dir := realDir(t)
	put(t, dir+"/re\u0301sume\u0301.md", "cv")
	w := open(t, workspace.Options{Dir: dir})
	must(t, w.FS().WriteFile("r\u00e9sum\u00e9.md", []byte("new"), workspace.WriteOptions{Expect: []byte("cv")}))
	entries, err := os.ReadDir(dir)
	must(t, err)
	if len(entries) != 1 || get(t, dir+"/re\u0301sume\u0301.md") != "new" {
		t.Errorf("%v", entries)
	}
}

func TestCase_o_edt_11_TildeIsHome(t *testing.T) {
	home, dir := realDir(t), realDir(t)
	t.Setenv("HOME", home)
	put(t, home+"/n.txt", "at home")
	w := open(t, workspace.Options{Dir: dir})
	file, err := w.FS().Open("~/n.txt")
	must(t, err)
	got, err := io.ReadAll(file)
	must(t, err)
	must(t, file.Close())
	if string(got) != "at home" {
		t.Errorf("%q", got)
	}
	if p, err := w.FS().Locate("~"); err != nil || p.Path != home {
		t.Errorf("%+v, %v", p, err)
	}
	if err := w.FS().WriteFile("~/new.txt", nil, workspace.WriteOptions{}); !errors.Is(err, workspace.ErrOutside) {
		t.Errorf("a write outside of the roots: %v", err)
	}
	if out, _ := sh(t, w, "pwd", workspace.Command{Dir: "~"}); out != home+"\n" {
		t.Errorf("a command in ~: %q", out)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("%v, %v", entries, err)
	}
}

// Whoever reads while others write sees one of the contents, whole.
func TestWritesAreAtomic(t *testing.T) {
	t.Parallel()
	w := open(t, workspace.Options{})
	content := func(i int) []byte { return bytes.Repeat([]byte{byte('a' + i%26)}, 1000+i) }
	must(t, w.FS().WriteFile("f", content(0), workspace.WriteOptions{}))
	ctx, cancel := context.WithCancel(t.Context())
	var reader sync.WaitGroup
	reader.Go(func() {
		for ctx.Err() == nil {
			got, err := os.ReadFile(filepath.Join(w.Dir(), "f"))
			if err != nil || len(got) < 1000 || !bytes.Equal(got, bytes.Repeat(got[:1], len(got))) {
				t.Errorf("a reader saw %d bytes: %v", len(got), err)
			}
		}
	})
	for i := range times(200, 5000) {
		must(t, w.FS().WriteFile("f", content(i), workspace.WriteOptions{}))
	}
	cancel()
	reader.Wait()
}

// Of writers that expect the same content one wins, and the others are told.
func TestOneOfManyWritersWins(t *testing.T) {
	t.Parallel()
	w := open(t, workspace.Options{})
	must(t, w.FS().WriteFile("f", []byte("old"), workspace.WriteOptions{}))
	var writers sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		writers.Go(func() {
			errs[i] = w.FS().WriteFile("f", fmt.Appendf(nil, "by %d", i), workspace.WriteOptions{Expect: []byte("old")})
		})
	}
	writers.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if !errors.Is(err, workspace.ErrChanged) {
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d writers won", won)
	}
	created := make([]error, 8)
	for i := range created {
		writers.Go(func() { created[i] = w.FS().WriteFile("new", []byte("x"), workspace.WriteOptions{MustBeNew: true}) })
	}
	writers.Wait()
	won = 0
	for _, err := range created {
		if err == nil {
			won++
		} else if !errors.Is(err, fs.ErrExist) {
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d writers made the same new file", won)
	}
}

// Law: Locate agrees with the system about where a path leads, whatever links there are.
func TestLocateIsWhatTheSystemDoes(t *testing.T) {
	t.Parallel()
	base := realDir(t)
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		dir := filepath.Join(base, strconv.Itoa(run))
		for _, d := range []string{"a/b", "c"} {
			if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "a/b/f"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		part := rapid.SampledFrom([]string{"a", "b", "c", "f", "l", "m", "..", ".", "x"})
		path := rapid.Map(rapid.SliceOfN(part, 1, 5), func(p []string) string { return strings.Join(p, "/") })
		for _, name := range []string{"l", "a/m", "c/l"} {
			target := path.Draw(t, name)
			if rapid.Bool().Draw(t, "absolute") {
				target = dir + "/" + target
			}
			if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		w := local.Locator(dir)
		name := path.Draw(t, "name")
		want, wantErr := filepath.EvalSymlinks(dir + "/" + name)
		got, err := w.Locate(name)
		switch {
		case wantErr == nil && (err != nil || !got.Exists || got.Path != want):
			t.Fatalf("Locate(%s) = %+v, %v; the system finds %s", name, got, err, want)
		case wantErr != nil && err == nil && got.Exists:
			t.Fatalf("Locate(%s) = %+v; the system says %v", name, got, wantErr)
		}
	})
}
