package jsonl

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// memDisk is a disk in memory that knows what is durable, fails when it is told
// to, and can lose its power.
type memDisk struct {
	mu    sync.Mutex
	names map[string]*inode // what programs see
	safe  map[string]*inode // what survives a loss of power
	locks map[string][]byte
	ticks int64

	ops    []string // what was done so far
	before func(op string, n int) error
}

// inode is a file, or a folder when dir is set.
type inode struct {
	dir      bool
	data     []byte
	safe     []byte // what of data survives a loss of power
	modified int64
}

func newMemDisk() *memDisk {
	root := &inode{dir: true}
	return &memDisk{names: map[string]*inode{"/": root}, safe: map[string]*inode{"/": root}, locks: map[string][]byte{}}
}

// step notes an operation and lets it fail.
func (d *memDisk) step(op, path string) error {
	d.ops = append(d.ops, op+" "+filepath.Base(path))
	d.ticks++
	if d.before != nil {
		return d.before(op, len(d.ops))
	}
	return nil
}

// begin is step for operations of the disk itself.
func (d *memDisk) begin(op, path string) (end func(), err error) {
	d.mu.Lock()
	if err := d.step(op, path); err != nil {
		d.mu.Unlock()
		return nil, &fs.PathError{Op: op, Path: path, Err: err}
	}
	return d.mu.Unlock, nil
}

func (d *memDisk) open(path string, flag int) (file, error) {
	end, err := d.begin("open", path)
	if err != nil {
		return nil, err
	}
	defer end()
	f := d.names[path]
	switch {
	case f == nil && flag&os.O_CREATE == 0, d.names[filepath.Dir(path)] == nil:
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	case f != nil && flag&os.O_EXCL != 0:
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrExist}
	case f == nil:
		f = &inode{modified: d.ticks}
		d.names[path] = f
	case flag&os.O_TRUNC != 0:
		f.data, f.modified = nil, d.ticks
	}
	return &memFile{d, path, f}, nil
}

func (d *memDisk) mkdir(path string) error {
	end, err := d.begin("mkdir", path)
	if err != nil {
		return err
	}
	defer end()
	for p := path; d.names[p] == nil; p = filepath.Dir(p) {
		d.names[p] = &inode{dir: true}
		if p != path {
			d.safe[p] = d.names[p]
		}
	}
	return nil
}

func (*memDisk) same(a, b fs.FileInfo) bool { return a.Sys() == b.Sys() }

func (d *memDisk) rename(from, to string) error {
	end, err := d.begin("rename", from)
	if err != nil {
		return err
	}
	defer end()
	if d.names[from] == nil {
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	d.names[to] = d.names[from]
	delete(d.names, from)
	return nil
}

func (d *memDisk) syncDir(path string) error {
	end, err := d.begin("syncdir", path)
	if err != nil {
		return err
	}
	defer end()
	for name, f := range d.names {
		if filepath.Dir(name) == path {
			d.safe[name] = f
		}
	}
	for name := range d.safe {
		if filepath.Dir(name) == path && d.names[name] == nil {
			delete(d.safe, name)
		}
	}
	return nil
}

func (d *memDisk) stat(path string) (fs.FileInfo, error) {
	end, err := d.begin("stat", path)
	if err != nil {
		return nil, err
	}
	defer end()
	f := d.names[path]
	if f == nil {
		return nil, &fs.PathError{Op: "stat", Path: path, Err: fs.ErrNotExist}
	}
	return f.info(path), nil
}

func (d *memDisk) readDir(path string) ([]fs.DirEntry, error) {
	end, err := d.begin("readdir", path)
	if err != nil {
		return nil, err
	}
	defer end()
	var entries []fs.DirEntry
	for name, f := range d.names {
		if filepath.Dir(name) == path && name != path {
			entries = append(entries, fs.FileInfoToDirEntry(f.info(name)))
		}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

func (d *memDisk) removeAll(path string) error {
	end, err := d.begin("remove", path)
	if err != nil {
		return err
	}
	defer end()
	for name := range d.names {
		if name == path || strings.HasPrefix(name, path+"/") {
			delete(d.names, name)
		}
	}
	return nil
}

func (d *memDisk) lock(path string, owner []byte) (unlock func() error, holder []byte, err error) {
	end, err := d.begin("lock", path)
	if err != nil {
		return nil, nil, err
	}
	defer end()
	if d.names[filepath.Dir(path)] == nil {
		return nil, nil, &fs.PathError{Op: "lock", Path: path, Err: fs.ErrNotExist}
	}
	if holder, held := d.locks[path]; held {
		return nil, holder, nil
	}
	d.locks[path] = owner
	return func() error {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.locks, path)
		return nil
	}, nil, nil
}

// restart is the disk after the process that used it was killed.
func (d *memDisk) restart() *memDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := newMemDisk()
	next.ticks = d.ticks
	for name, f := range d.names {
		next.names[name] = &inode{f.dir, slices.Clone(f.data), slices.Clone(f.safe), f.modified}
	}
	for name := range d.safe {
		if f := next.names[name]; f != nil {
			next.safe[name] = f
		}
	}
	return next
}

// powerLoss is the disk after the power was lost: what was not synced may be
// there, in part, in pieces, or not at all.
func (d *memDisk) powerLoss(r *rand.Rand) *memDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := newMemDisk()
	after := map[*inode]*inode{}
	survive := func(f *inode) *inode {
		if after[f] == nil {
			data := f.lossy(r)
			after[f] = &inode{f.dir, data, slices.Clone(data), f.modified}
		}
		return after[f]
	}
	for name, f := range d.safe {
		if d.names[name] != f && r.IntN(2) == 0 {
			continue // it was removed or replaced, and that survived
		}
		next.names[name] = survive(f)
	}
	for name, f := range d.names {
		if d.safe[name] != f && r.IntN(2) == 0 {
			next.names[name] = survive(f)
		}
	}
	for name := range next.names { // what is in a lost folder is lost
		for p := filepath.Dir(name); p != "/"; p = filepath.Dir(p) {
			if next.names[p] == nil {
				delete(next.names, name)
			}
		}
	}
	for name, f := range next.names {
		next.safe[name] = f
	}
	return next
}

// lossy returns what is left of a file.
func (f *inode) lossy(r *rand.Rand) []byte {
	kept := len(f.safe)
	if len(f.data) < kept { // it was cut, and the cut was not synced
		if r.IntN(2) == 0 {
			return slices.Clone(f.data)
		}
		return slices.Clone(f.safe)
	}
	unsynced := slices.Clone(f.data[kept:])
	switch n := len(unsynced); {
	case n == 0:
	case r.IntN(4) == 0:
		unsynced = nil
	case r.IntN(3) == 0: // the size came through, the end of the content did not
		clear(unsynced[r.IntN(n):])
	default:
		unsynced = unsynced[:r.IntN(n+1)]
	}
	return append(slices.Clone(f.safe), unsynced...)
}

type memFile struct {
	d    *memDisk
	path string
	f    *inode
}

var errShort = errors.New("a write was cut short")

func (m *memFile) Write(p []byte) (int, error) {
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	err := m.d.step("write", m.path)
	if errors.Is(err, errShort) {
		n := len(p) / 2
		m.f.data = append(m.f.data, p[:n]...)
		return n, err
	}
	if err != nil {
		return 0, err
	}
	m.f.data, m.f.modified = append(m.f.data, p...), m.d.ticks
	return len(p), nil
}

func (m *memFile) ReadAt(p []byte, off int64) (int, error) {
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	if off >= int64(len(m.f.data)) {
		return 0, io.EOF
	}
	n := copy(p, m.f.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (m *memFile) sync() error {
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	if err := m.d.step("sync", m.path); err != nil {
		return err
	}
	m.f.safe = slices.Clone(m.f.data)
	return nil
}

func (m *memFile) Truncate(size int64) error {
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	if err := m.d.step("truncate", m.path); err != nil {
		return err
	}
	m.f.data = slices.Clip(m.f.data[:size])
	return nil
}

func (m *memFile) Stat() (fs.FileInfo, error) {
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	if err := m.d.step("fstat", m.path); err != nil {
		return nil, err
	}
	return m.f.info(m.path), nil
}

func (m *memFile) Close() error {
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	return m.d.step("close", m.path)
}

// memInfo is a [fs.FileInfo]. The inode stands for the identity of the file.
type memInfo struct {
	name     string
	f        *inode
	size     int64
	modified int64
}

func (f *inode) info(path string) fs.FileInfo {
	return memInfo{filepath.Base(path), f, int64(len(f.data)), f.modified}
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) ModTime() time.Time { return time.UnixMilli(i.modified) }
func (i memInfo) IsDir() bool        { return i.f.dir }
func (i memInfo) Sys() any           { return i.f }
func (i memInfo) Mode() fs.FileMode {
	if i.f.dir {
		return fs.ModeDir | 0o700
	}
	return 0o600
}

// put makes a file with this content, durably.
func (d *memDisk) put(path string, content []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ticks++
	for p := filepath.Dir(path); d.names[p] == nil; p = filepath.Dir(p) {
		d.names[p] = &inode{dir: true}
		d.safe[p] = d.names[p]
	}
	d.names[path] = &inode{data: slices.Clone(content), safe: slices.Clone(content), modified: d.ticks}
	d.safe[path] = d.names[path]
}

// content returns a file's content, and fails the test by a panic when there is none.
func (d *memDisk) content(path string) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.names[path]
	if f == nil {
		panic(fmt.Sprintf("there is no file %s", path))
	}
	return slices.Clone(f.data)
}
