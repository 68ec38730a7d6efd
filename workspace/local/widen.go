package local

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// widened holds the places outside of the roots that may be written for a while.
type widened struct {
	mu     sync.RWMutex
	places []*widening
}

// widening lets what is at path or below it be written. dir is the folder from which
// the way down is opened: path itself, or the nearest folder above it.
type widening struct{ path, dir string }

// add makes a place writable until undo is called.
func (w *widened) add(p *widening) (undo func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.places = append(w.places, p)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.places = slices.DeleteFunc(w.places, func(other *widening) bool { return other == p })
	}
}

// root returns the folder that a path may be written from, or "".
func (w *widened) root(path string) string {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for _, p := range w.places {
		if within(p.path, path) {
			return p.dir
		}
	}
	return ""
}

// widen implements [workspace.Workspace.Widen].
func (f *files) widen(name string) (undo func(), err error) {
	p, _, err := f.locate(name)
	if err != nil {
		return nil, fmt.Errorf("widen the workspace by %s: %w", name, err)
	}
	dir := p.Path
	for {
		if info, err := os.Lstat(dir); err == nil && info.IsDir() {
			break
		}
		up := filepath.Dir(dir)
		if up == dir {
			return nil, fmt.Errorf("widen the workspace by %s: there is no folder above it", name)
		}
		dir = up
	}
	return f.widened.add(&widening{path: p.Path, dir: dir}), nil
}
