package local

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/dsh-harness/dsh/workspace"
)

// swapped is a workspace in which the folder sub was looked up, and then made a link
// that leads to where there is a file of the same name.
func swapped(t *testing.T, target string) (*files, workspace.Place) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{filepath.Join(dir, "sub"), filepath.Join(dir, target)} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "f"), []byte(folder), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f := &files{dir: dir, roots: []string{dir, "/nowhere"}, commit: new(sync.Mutex)}
	p, _, err := f.locate("sub/f")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "sub"), filepath.Join(dir, "old")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, filepath.Join(dir, "sub")); err != nil {
		t.Skipf("no links here: %v", err)
	}
	return f, p
}

func TestTrust_F02_AReadOpensWhatWasLookedUp(t *testing.T) {
	_, p := swapped(t, "other")
	file, err := openNoFollow(p.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if isAt(file, info, p.Path) {
		t.Error("a file behind a new link counts as the one that was looked up")
	}
}

func TestTrust_F02_AWriteGoesWhereWasLookedUp(t *testing.T) {
	for _, target := range []string{"other", "../outside"} { // a control folder of the project, or out of it
		f, p := swapped(t, target)
		dir, err := f.folder(p, true)
		if err == nil {
			_ = dir.Close()
		}
		if !errors.Is(err, workspace.ErrChanged) {
			t.Errorf("sub became a link to %s: %v", target, err)
		}
	}
}
