package atomicfile_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/dsh-harness/dsh/internal/atomicfile"
)

func TestWrite(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(t *testing.T, path string)
	}{
		{"new file", func(*testing.T, string) {}},
		{"existing file", func(t *testing.T, path string) { put(t, path, "old", 0o644) }},
		{"existing file that is read-only", func(t *testing.T, path string) { put(t, path, "old", 0o400) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "settings.json")
			c.before(t, path)
			if err := atomicfile.Write(path, []byte("new"), 0o600); err != nil {
				t.Fatal(err)
			}
			check(t, path, "new", 0o600)
			only(t, filepath.Dir(path), "settings.json")
		})
	}
}

func TestModeIgnoresUmask(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := atomicfile.Write(path, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	check(t, path, "", 0o666)
}

// Case o-cfg-04: a settings file that is a link into a dotfiles folder stays one.
func TestLinkStaysALink(t *testing.T) {
	for _, c := range []struct {
		name   string
		target string // relative to the folder of the link
		exists bool
	}{
		{"relative target", filepath.Join("dotfiles", "real"), true},
		{"missing target", filepath.Join("dotfiles", "real"), false},
		{"through another link", "second", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			real := filepath.Join(dir, "dotfiles", "real")
			if err := os.Mkdir(filepath.Dir(real), 0o700); err != nil {
				t.Fatal(err)
			}
			if c.exists {
				put(t, real, "old", 0o600)
			}
			link := filepath.Join(dir, "link")
			symlink(t, filepath.Join(dir, "dotfiles", "real"), filepath.Join(dir, "second"))
			symlink(t, c.target, link)
			if err := atomicfile.Write(link, []byte("new"), 0o600); err != nil {
				t.Fatal(err)
			}
			if got, err := os.Readlink(link); err != nil || got != c.target {
				t.Fatalf("the link is now %q, %v", got, err)
			}
			check(t, real, "new", 0o600)
			only(t, filepath.Dir(real), "real")
		})
	}
}

func TestRefused(t *testing.T) {
	dir := t.TempDir()
	symlink(t, "loop", filepath.Join(dir, "loop"))
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, want string }{
		{"loop", "more than 40 symbolic links in a row"},
		{"folder", "it exists and is not a regular file"},
		{filepath.Join("missing", "f"), "no such file or directory"},
	} {
		path := filepath.Join(dir, c.path)
		err := atomicfile.Write(path, []byte("x"), 0o600)
		if err == nil || !strings.HasPrefix(err.Error(), "write "+path+": ") {
			t.Errorf("%s: error %v", c.path, err)
			continue
		}
		if runtime.GOOS != "windows" && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s", c.path, err, c.want)
		}
	}
	if err := atomicfile.Write(filepath.Join(dir, "missing", "f"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the cause is lost: %v", err)
	}
	only(t, dir, "folder", "loop")
}

// A failed write leaves the old content and nothing beside it.
func TestFailureKeepsTheOldContent(t *testing.T) {
	if runtime.GOOS == "windows" || os.Getuid() == 0 {
		t.Skip("permissions do not bind this user")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	put(t, path, "old", 0o600)
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) }) // so that the folder can be removed
	if err := atomicfile.Write(path, []byte("new"), 0o600); !errors.Is(err, fs.ErrPermission) {
		t.Fatalf("error %v", err)
	}
	check(t, path, "old", 0o600)
	only(t, dir, "f")
}

// Whoever reads while others write sees one of the contents, whole.
func TestReadersSeeWholeContents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	contents := [][]byte{bytes.Repeat([]byte("a"), 100_000), bytes.Repeat([]byte("b"), 10), bytes.Repeat([]byte("c"), 50_000)}
	if err := atomicfile.Write(path, contents[0], 0o600); err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	done := make(chan struct{})
	for _, content := range contents {
		writers.Go(func() {
			for range 20 {
				if err := atomicfile.Write(path, content, 0o600); err != nil {
					t.Error(err)
				}
			}
		})
	}
	go func() { writers.Wait(); close(done) }()
	for reads := 0; ; reads++ {
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, contents[0]) && !bytes.Equal(got, contents[1]) && !bytes.Equal(got, contents[2]) {
			t.Fatalf("read %d saw a part: %d bytes", reads, len(got))
		}
		select {
		case <-done:
			only(t, filepath.Dir(path), "f")
			return
		default:
		}
	}
}

func put(t *testing.T, path, content string, mode fs.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

func symlink(t *testing.T, target, link string) {
	t.Helper()
	if err := os.Symlink(target, link); err != nil {
		if runtime.GOOS == "windows" {
			t.Skip("links need a privilege on this system: " + err.Error())
		}
		t.Fatal(err)
	}
}

func check(t *testing.T, path, content string, mode fs.FileMode) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != content {
		t.Errorf("content %q, want %q", got, content)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm() != mode {
		t.Errorf("mode %v, want %v", info.Mode().Perm(), mode)
	}
}

// only fails unless dir holds just these names: no temporary file was left.
func only(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("the folder holds %q, want %q", got, want)
	}
}
