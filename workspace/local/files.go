package local

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/dsh-harness/dsh/internal/trash"
	"github.com/dsh-harness/dsh/workspace"
)

// files is the [workspace.FS] of one workspace. It holds no descriptors: a root that is
// deleted and made again is found again.
type files struct {
	dir   string   // the session's folder, without links
	home  string   // what ~ means; "" when there is none
	roots []string // without links, dir first, the temporary folder last
	// makeTemp makes the temporary folder, at its first use.
	makeTemp func() error
	// commit makes looking at a file and replacing it one step. All workspaces of a
	// provider share it, since their roots may overlap.
	commit *sync.Mutex
	bin    trash.Bin

	widened widened // beside the roots
}

// Open implements [workspace.FS].
func (f *files) Open(name string) (fs.File, error) {
	file, err := f.open(name)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	return file, nil
}

// open opens what locate found, without following a link that has come since, and
// makes sure that it did: the policy decided on the path, not on the name.
func (f *files) open(name string) (*os.File, error) {
	p, info, err := f.find(name)
	if err != nil {
		return nil, err
	}
	if err := plain(info); err != nil {
		return nil, err
	}
	file, err := openNoFollow(p.Path)
	if err != nil {
		return nil, cause(err)
	}
	opened, err := file.Stat()
	if err == nil {
		err = plain(opened)
	}
	if err == nil && !opened.IsDir() {
		err = madeUp(file)
	}
	if err == nil && !isAt(file, opened, p.Path) {
		err = fmt.Errorf("%w: it is not any more what it was when it was looked up; try again", workspace.ErrChanged)
	}
	if err != nil {
		_ = file.Close() // nothing was written
		return nil, err
	}
	return file, nil
}

// find is locate for what must exist.
func (f *files) find(name string) (workspace.Place, fs.FileInfo, error) {
	p, info, err := f.locate(name)
	if err != nil {
		return p, nil, cause(err)
	}
	if p.Exists && info == nil {
		info, err = os.Lstat(p.Path)
		if err != nil {
			return p, nil, cause(err)
		}
	}
	if !p.Exists {
		return p, nil, f.missing(p)
	}
	return p, info, nil
}

// plain refuses what reading could block on or never end.
func plain(info fs.FileInfo) error {
	if kind := info.Mode().Type(); kind != 0 && kind != fs.ModeDir {
		return fmt.Errorf("%w: it is a %s", workspace.ErrSpecial, kindName(kind))
	}
	return nil
}

func kindName(kind fs.FileMode) string {
	switch {
	case kind&fs.ModeNamedPipe != 0:
		return "named pipe"
	case kind&fs.ModeSocket != 0:
		return "socket"
	case kind&fs.ModeDevice != 0:
		return "device"
	case kind&fs.ModeSymlink != 0:
		return "link"
	default:
		return "special file"
	}
}

// Stat implements [workspace.FS].
func (f *files) Stat(name string) (fs.FileInfo, error) {
	_, info, err := f.find(name)
	if err != nil {
		return nil, fmt.Errorf("stat %s: %w", name, err)
	}
	return info, nil
}

// Lstat implements [workspace.FS].
func (f *files) Lstat(name string) (fs.FileInfo, error) {
	path, err := f.linkPath(name)
	if err != nil {
		return nil, fmt.Errorf("lstat %s: %w", name, err)
	}
	info, err := os.Lstat(path.Path)
	if err != nil {
		return nil, fmt.Errorf("lstat %s: %w", name, cause(err))
	}
	return info, nil
}

// ReadDir implements [workspace.FS]. The entries are sorted by name.
func (f *files) ReadDir(name string) ([]fs.DirEntry, error) {
	dir, err := f.open(name)
	if err != nil {
		return nil, fmt.Errorf("read folder %s: %w", name, err)
	}
	defer func() { _ = dir.Close() }() // it was only read
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return nil, fmt.Errorf("read folder %s: %w", name, cause(err))
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}
