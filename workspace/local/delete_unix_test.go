//go:build unix

package local_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dsh-harness/dsh/internal/trash"
	"github.com/dsh-harness/dsh/workspace"
)

// deleting opens a workspace with a home and a trash of the test's own.
func deleting(t *testing.T) (w workspace.Workspace, dir, home string, bin trash.Bin) {
	t.Helper()
	home, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	t.Setenv("HOME", home)
	t.Setenv("DSH_HOME", filepath.Join(home, "dsh"))
	dir = filepath.Join(home, "work", "project")
	must(t, os.MkdirAll(dir, 0o755))
	return open(t, workspace.Options{Dir: dir}), dir, home, trash.Bin{Dir: filepath.Join(home, "dsh", "state", "trash"), Keep: time.Hour, Max: 1 << 30}
}

func TestDeleteCanBeUndone(t *testing.T) {
	w, dir, _, bin := deleting(t)
	must(t, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o750))
	must(t, os.WriteFile(filepath.Join(dir, "a", "b", "f"), []byte("kept"), 0o640))
	outside := filepath.Join(t.TempDir(), "outside")
	must(t, os.WriteFile(outside, []byte("mine"), 0o600))
	must(t, os.Symlink(outside, filepath.Join(dir, "a", "link")))
	got, err := w.FS().Delete("a")
	must(t, err)
	if got.Files != 2 || got.Trash == "" {
		t.Errorf("Delete = %+v, want 2 files and something in the trash", got)
	}
	if _, err := os.Lstat(filepath.Join(dir, "a")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a is still there: %v", err)
	}
	if b, err := os.ReadFile(outside); err != nil || string(b) != "mine" {
		t.Errorf("what the link led to is %q, %v", b, err)
	}
	_, err = bin.Restore(got.Trash, "")
	must(t, err)
	if b, err := os.ReadFile(filepath.Join(dir, "a", "b", "f")); err != nil || string(b) != "kept" {
		t.Errorf("restored %q, %v", b, err)
	}
	if link, err := os.Readlink(filepath.Join(dir, "a", "link")); err != nil || link != outside {
		t.Errorf("restored link %q, %v", link, err)
	}
	if _, err := bin.Restore(got.Trash, ""); !errors.Is(err, trash.ErrNotFound) {
		t.Errorf("restoring twice: %v", err)
	}
}

func TestTrust_T13_WhatIsNeverDeleted(t *testing.T) {
	w, dir, home, _ := deleting(t)
	must(t, os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o600))
	must(t, os.Symlink("/", filepath.Join(dir, "top")))
	must(t, os.Symlink(home, filepath.Join(dir, "home")))
	for _, name := range []string{"/", "//", "/.", "~", "~/", home, filepath.Dir(home), dir, ".", "./", "..", filepath.Join(dir, "..", "project"), w.Temp(), filepath.Dir(dir), "top/.", "home/.", "home/work", "home/work/project"} {
		if _, err := w.FS().Delete(name); !errors.Is(err, workspace.ErrKept) {
			t.Errorf("Delete(%q) = %v, want ErrKept", name, err)
		}
	}
	for _, name := range []string{"/etc/passwd", filepath.Join(home, "other"), "home/other", "top/etc"} {
		if _, err := w.FS().Delete(name); err == nil {
			t.Errorf("Delete(%q) went well", name)
		}
	}
	for _, path := range []string{filepath.Join(dir, "f"), home} {
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
	// A link is deleted, not what it leads to.
	_, err := w.FS().Delete("home")
	must(t, err)
	if _, err := os.Lstat(dir); err != nil {
		t.Error(err)
	}
}

func TestWiden(t *testing.T) {
	w, _, home, _ := deleting(t)
	other := filepath.Join(home, "other")
	must(t, os.Mkdir(other, 0o755))
	write := func(name string) error { return w.FS().WriteFile(name, []byte("x"), workspace.WriteOptions{}) }
	if err := write(filepath.Join(other, "f")); !errors.Is(err, workspace.ErrOutside) {
		t.Fatalf("before: %v", err)
	}
	undo, err := w.Widen(filepath.Join(other, "new", "f"))
	must(t, err)
	must(t, write(filepath.Join(other, "new", "f")))
	if err := write(filepath.Join(other, "g")); !errors.Is(err, workspace.ErrOutside) {
		t.Errorf("beside it: %v", err)
	}
	undo()
	if err := write(filepath.Join(other, "new", "f")); !errors.Is(err, workspace.ErrOutside) {
		t.Errorf("after: %v", err)
	}
}
