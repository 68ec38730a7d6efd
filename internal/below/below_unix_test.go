//go:build unix

package below

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestOnlyRegularFilesBelowAreRead(t *testing.T) {
	outer := t.TempDir()
	dir := filepath.Join(outer, "in")
	for _, err := range []error{
		os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(outer, "secret"), []byte("secret"), 0o600), os.WriteFile(filepath.Join(dir, "a"), []byte("abcdef"), 0o600),
		os.Symlink("a", filepath.Join(dir, "near")), os.Symlink("../secret", filepath.Join(dir, "far")), os.Symlink(filepath.Join(outer, "secret"), filepath.Join(dir, "absolute")),
		os.Symlink("loop", filepath.Join(dir, "loop")), os.Symlink("..", filepath.Join(dir, "up")), syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	root, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, name := range []string{"a", "near"} {
		if got, size, err := root.Read(name, 4); err != nil || string(got) != "abcd" || size != 6 {
			t.Errorf("%s is %q of %d bytes, %v", name, got, size, err)
		}
	}
	for _, name := range []string{"far", "absolute", "loop", "up/secret", "../secret", "pipe", ".", "missing", "/etc/hostname"} {
		got, _, err := root.Read(name, 4)
		if err == nil || got != nil || errors.Is(err, fs.ErrNotExist) != (name == "missing") {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
	var b bytes.Buffer
	if n, err := root.Copy(&b, "a", 6); err != nil || n != 6 || b.String() != "abcdef" {
		t.Errorf("copied %q, %v", b.String(), err)
	}
	if _, err := root.Copy(&b, "a", 5); err == nil {
		t.Error("more than allowed was copied")
	}
}
