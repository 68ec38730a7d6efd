// Package demo holds the example project that the demo works on: a shell script that writes
// Roman numerals, and its tests, some of which fail. It needs no program but sh. Any
// goroutine may use it.
package demo

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

//go:embed project
var project embed.FS

// Prompt is what the demo asks of the agent.
const Prompt = "The tests fail. Find out why, and mend it."

// Copy writes the project into dir, which is made if need be and must be empty.
func Copy(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("copy the example project: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("copy the example project to %s: the folder is not empty", dir)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("copy the example project: %w", err)
	}
	// One time for all of them, so that what lists the newest first goes by name.
	now := time.Now()
	all := files()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, []byte(all[name]), 0o644), os.Chtimes(path, now, now)); err != nil {
			return fmt.Errorf("copy the example project: %w", err)
		}
	}
	return nil
}

// Change is a file of the project that is not any more what it was.
type Change struct {
	Name        string
	Before, Now string // "" when there was, or is, no such file
}

// Changes returns what was changed in a copy of the project, by name.
func Changes(dir string) ([]Change, error) {
	before := files()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var changes []Change
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		if was := before[e.Name()]; was != string(text) {
			changes = append(changes, Change{e.Name(), was, string(text)})
		}
		delete(before, e.Name())
	}
	for name, was := range before {
		changes = append(changes, Change{Name: name, Before: was})
	}
	slices.SortFunc(changes, func(a, b Change) int { return strings.Compare(a.Name, b.Name) })
	return changes, nil
}

// files returns the files of the project by name.
func files() map[string]string {
	all := map[string]string{}
	entries, err := project.ReadDir("project")
	for _, e := range entries {
		var text []byte
		if text, err = project.ReadFile("project/" + e.Name()); err != nil {
			break
		}
		all[e.Name()] = string(text)
	}
	if err != nil {
		panic(fmt.Sprintf("the embedded project cannot be read: %v", err)) // it is part of the program
	}
	return all
}
