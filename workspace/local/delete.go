package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/dsh-harness/dsh/internal/mounts"
	"github.com/dsh-harness/dsh/internal/trash"
	"github.com/dsh-harness/dsh/workspace"
)

// Delete implements [workspace.FS].
func (f *files) Delete(name string) (workspace.Deleted, error) {
	deleted, err := f.delete(name)
	if err != nil {
		return deleted, fmt.Errorf("delete %s: %w", name, cause(err))
	}
	return deleted, nil
}

func (f *files) delete(name string) (workspace.Deleted, error) {
	p, err := f.linkPath(name)
	if err != nil {
		return workspace.Deleted{}, err
	}
	if err := f.deletable(p); err != nil {
		return workspace.Deleted{}, err
	}
	dir, err := f.folder(p, false)
	if err != nil {
		return workspace.Deleted{}, err
	}
	defer func() { _ = dir.Close() }() // nothing was written through it
	base := filepath.Base(p.Path)
	size, err := trash.Measure(dir, base)
	if err != nil {
		return workspace.Deleted{}, err
	}
	deleted := workspace.Deleted{Files: size.Files, Bytes: size.Bytes}
	item, err := f.bin.Put(dir, base, p.Path, size)
	switch {
	case errors.Is(err, trash.ErrTooLarge):
		return deleted, dir.RemoveAll(base)
	case item.ID == "":
		return workspace.Deleted{}, err
	}
	deleted.Trash = item.ID
	return deleted, nil // that the trash could not be tidied is no failure of the deletion
}

// deletable refuses what nobody deletes in one go.
func (f *files) deletable(p workspace.Place) error {
	for _, kept := range append([]string{filepath.VolumeName(p.Path) + separator, f.home, f.realHome()}, f.roots...) {
		switch {
		case kept == "" || !within(p.Path, kept):
		case kept == p.Path:
			return fmt.Errorf("%w: %s", workspace.ErrKept, f.titleOf(kept))
		default:
			return fmt.Errorf("%w: it holds %s, %s", workspace.ErrKept, kept, f.titleOf(kept))
		}
	}
	if err := writable(p); err != nil {
		return err
	}
	if err := mounts.Below(p.Path); err != nil {
		return fmt.Errorf("%w: %w", workspace.ErrKept, err)
	}
	return nil
}

// realHome is the home folder without links.
func (f *files) realHome() string {
	real, err := filepath.EvalSymlinks(f.home)
	if err != nil {
		return ""
	}
	return real
}

func (f *files) titleOf(path string) string {
	switch {
	case path == f.home || path == f.realHome():
		return "the home folder"
	case strings.TrimRight(path, string(os.PathSeparator)) == filepath.VolumeName(path):
		return "the root of the file system"
	case path == f.roots[len(f.roots)-1]:
		return "the temporary folder of the session"
	}
	return "a folder that the session works in"
}
