// Package trash keeps what was deleted for a while, so that it can be restored. A [Bin] is a
// folder of the harness's state with one folder for each deletion; it has no other state, so
// several processes may use it at once, from any goroutine.
package trash

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/dsh-harness/dsh/internal/atomicfile"
	"github.com/dsh-harness/dsh/internal/mounts"
	"github.com/dsh-harness/dsh/internal/uuid7"
)

// Bin is a folder for what was deleted.
type Bin struct {
	Dir  string        // need not exist
	Keep time.Duration // how long an item stays; 0 for ever
	Max  int64         // how many bytes all items may have together
}

// Item is one deletion.
type Item struct {
	ID      string    `json:"id"`
	Path    string    `json:"path"` // where it was
	Deleted time.Time `json:"deleted"`
	Files   int       `json:"files"` // files and links
	Bytes   int64     `json:"bytes"`
	Folder  bool      `json:"folder,omitempty"`
}

const (
	about   = "about.json"
	content = "content"
)

// Put moves what is called base in parent into the bin; path is where that is, and size
// what [Measure] said. What is too large for the bin is refused with [ErrTooLarge] and stays where it is. Older
// items make room for it.
func (b Bin) Put(parent *os.Root, base, path string, size Size) (item Item, err error) {
	if size.Bytes > b.Max || b.Max == 0 {
		return Item{}, fmt.Errorf("keep %s in the trash: %w: it has %d bytes, and the trash keeps %d", path, ErrTooLarge, size.Bytes, b.Max)
	}
	item = Item{ID: uuid7.New(), Path: path, Deleted: time.Now().UTC(), Files: size.Files, Bytes: size.Bytes, Folder: size.Folder}
	dir := filepath.Join(b.Dir, item.ID)
	defer func() {
		if err != nil {
			err = fmt.Errorf("keep %s in the trash: %w", path, err)
		}
	}()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Item{}, err
	}
	text, err := json.Marshal(item)
	if err != nil {
		return Item{}, err
	}
	if err := atomicfile.Write(filepath.Join(dir, about), text, 0o600); err != nil {
		return Item{}, err
	}
	if err := move(parent, base, filepath.Join(dir, content)); err != nil {
		_ = os.Remove(filepath.Join(dir, about)) // there is nothing to tell about
		_ = os.Remove(dir)
		return Item{}, err
	}
	return item, b.Prune()
}

// ErrTooLarge is about what the bin has no room for.
var ErrTooLarge = errors.New("it is too large for the trash")

// ErrNotFound is about an item that is not there.
var ErrNotFound = errors.New("it is not in the trash")

// ErrElsewhere is about an item whose old place cannot be reached without following a link.
var ErrElsewhere = errors.New("where it was there was no link")

// List returns the items, newest first. What is no item is left out.
func (b Bin) List() ([]Item, error) {
	entries, err := os.ReadDir(b.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the trash: %w", err)
	}
	var items []Item
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(b.Dir, e.Name(), about))
		if err != nil {
			continue
		}
		var item Item
		if json.Unmarshal(text, &item) == nil && item.ID == e.Name() {
			items = append(items, item)
		}
	}
	slices.SortFunc(items, func(x, y Item) int { return cmp.Or(y.Deleted.Compare(x.Deleted), cmp.Compare(y.ID, x.ID)) })
	return items, nil
}

// Restore moves an item back to where it was, or to the path to when that is not
// empty. It replaces nothing. Where it was there were no links on the way: if there are now, somebody
// put them there, and it fails with [ErrElsewhere].
func (b Bin) Restore(id, to string) (Item, error) {
	items, err := b.List()
	if err != nil {
		return Item{}, err
	}
	i := slices.IndexFunc(items, func(item Item) bool { return item.ID == id })
	if i < 0 {
		return Item{}, fmt.Errorf("restore %s: %w", id, ErrNotFound)
	}
	item := items[i]
	if to == "" {
		to, err = item.Path, leadsThere(item.Path)
	}
	if err == nil {
		err = b.restore(item, to)
	}
	if err != nil {
		return Item{}, fmt.Errorf("restore %s to %s: %w", id, to, err)
	}
	return item, nil
}

// leadsThere fails when what there is of the way to a path goes through a link.
func leadsThere(path string) error {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		real, err := filepath.EvalSymlinks(dir)
		switch {
		case err == nil && real != dir:
			return fmt.Errorf("%s leads to %s now, %w: say where to restore it to", dir, real, ErrElsewhere)
		case err == nil || dir == filepath.Dir(dir):
			return nil
		}
		if _, err := os.Lstat(dir); err == nil {
			return fmt.Errorf("%s is a link that leads nowhere, %w: say where to restore it to", dir, ErrElsewhere)
		}
	}
}

func (b Bin) restore(item Item, to string) error {
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("%w: move that out of the way, or restore to another path", fs.ErrExist)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		return err
	}
	dir := filepath.Join(b.Dir, item.ID)
	from, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }() // nothing was written through it
	if err := move(from, content, to); err != nil {
		return err
	}
	return errors.Join(os.Remove(filepath.Join(dir, about)), os.Remove(dir))
}

// Empty removes items for good: those that ids name, or all when there are none.
func (b Bin) Empty(ids ...string) error {
	items, err := b.List()
	for _, item := range items {
		if len(ids) == 0 || slices.Contains(ids, item.ID) {
			err = errors.Join(err, b.remove(item))
		}
	}
	return err
}

// Prune removes for good what is too old, and the oldest of what is too much.
func (b Bin) Prune() error {
	items, err := b.List()
	var total int64
	for _, item := range items {
		total += item.Bytes
		if total > b.Max || b.Keep > 0 && time.Since(item.Deleted) > b.Keep {
			total -= item.Bytes
			err = errors.Join(err, b.remove(item))
		}
	}
	return err
}

func (b Bin) remove(item Item) error {
	dir := filepath.Join(b.Dir, item.ID)
	if err := mounts.Below(dir); err != nil {
		return fmt.Errorf("remove %s from the trash: %w", item.ID, err)
	}
	if err := writableFolders(dir); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// writableFolders lets folders be emptied whose mode forbids it.
func writableFolders(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			if info, err := d.Info(); err == nil && info.Mode().Perm()&0o700 != 0o700 {
				return os.Chmod(path, 0o700)
			}
		}
		return nil // what is in the way is said when it is removed
	})
}

// Size is how much there is.
type Size struct {
	Files  int // files and links
	Bytes  int64
	Folder bool
}

// Measure looks at what is called base in parent, and follows no link.
func Measure(parent *os.Root, base string) (Size, error) {
	info, err := parent.Lstat(base)
	if err != nil {
		return Size{}, err
	}
	if !info.IsDir() {
		return Size{Files: 1, Bytes: info.Size()}, nil
	}
	size := Size{Folder: true}
	err = fs.WalkDir(parent.FS(), filepath.ToSlash(base), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return nil
		}
		size.Files++
		info, err := d.Info()
		if err == nil {
			size.Bytes += info.Size()
		}
		return err
	})
	return size, err
}
