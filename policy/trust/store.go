package trust

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/dsh-harness/dsh/internal/sharedfile"
)

// Record says that a person trusts one definition of a folder.
type Record struct {
	Hash string    `json:"hash"`
	Time time.Time `json:"time"`
	By   string    `json:"by"` // who asked: a command
}

// records are by folder and path.
type records map[string]map[string]Record

// stored is the content of the file.
type stored struct {
	Version int     `json:"version"`
	Folders records `json:"folders"`
}

const storeVersion = 1

// Store is the file trust.json of the state folder. What another process changes there counts at the next look. A file
// that cannot be understood makes every method fail: then nothing is trusted.
type Store struct {
	file *sharedfile.File[records]
}

// NewStore returns the store in the state folder. Nothing is read or made yet.
func NewStore(state string) *Store {
	return &Store{sharedfile.New(filepath.Join(state, "trust.json"), func(text []byte) (records, error) {
		content, err := parse(text)
		return content.Folders, err
	})}
}

// load returns what the file holds. Nobody changes what it returns.
func (s *Store) load() (records, error) {
	all, err := s.file.Load()
	if err != nil {
		return nil, fmt.Errorf("which folders are trusted: %w", err)
	}
	return all, nil
}

func parse(text []byte) (stored, error) {
	var content stored
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&content); err != nil {
		return content, err
	}
	if content.Version != storeVersion {
		return content, fmt.Errorf("its version is %d instead of %d", content.Version, storeVersion)
	}
	if err := d.Decode(new(any)); !errors.Is(err, io.EOF) {
		return content, errors.New("something follows its end")
	}
	return content, nil
}

// change has edit change the records; no other process does so meanwhile.
func (s *Store) change(ctx context.Context, edit func(records)) error {
	err := s.file.Change(ctx, func(all records) ([]byte, error) {
		if all == nil {
			all = records{}
		}
		edit(all)
		return json.MarshalIndent(stored{storeVersion, all}, "", "  ")
	})
	if err != nil {
		return fmt.Errorf("keep which folders are trusted: %w", err)
	}
	return nil
}

// Add records that a person trusts f as it was scanned, in place of what was recorded of the folder; by says who asked them.
// It waits at most 5 s for other processes.
func (s *Store) Add(ctx context.Context, f Folder, by string) error {
	recorded := map[string]Record{}
	for _, d := range f.Definitions {
		if d.Problem == "" {
			recorded[d.Path] = Record{d.Hash, time.Now().UTC().Truncate(time.Second), by}
		}
	}
	if len(recorded) == 0 {
		return fmt.Errorf("trust %s: it brings nothing that could be trusted", f.Dir)
	}
	return s.change(ctx, func(all records) { all[f.Dir] = recorded })
}

// Remove forgets a folder, which need not exist any more, and reports whether it was trusted. dir is the name that
// [Store.List] has, or another one of the same folder. It waits at most 5 s for other processes.
func (s *Store) Remove(ctx context.Context, dir string) (removed bool, err error) {
	dir = filepath.Clean(dir)
	names := []string{dir}
	if real, err := realPath(dir); err == nil && real != dir {
		names = append(names, real)
	}
	err = s.change(ctx, func(all records) {
		for _, name := range names {
			_, known := all[name]
			removed = removed || known
			delete(all, name)
		}
	})
	return removed && err == nil, err
}

// Trusted is a folder that a person trusts.
type Trusted struct {
	Dir         string            `json:"dir"`
	Definitions map[string]Record `json:"definitions"` // by path
}

// List returns all folders that are trusted, by name.
func (s *Store) List() ([]Trusted, error) {
	all, err := s.load()
	if err != nil {
		return nil, err
	}
	list := make([]Trusted, 0, len(all))
	for _, dir := range slices.Sorted(maps.Keys(all)) {
		list = append(list, Trusted{dir, maps.Clone(all[dir])})
	}
	return list, nil
}

// State is what a person said of a definition.
type State string

const (
	New     State = "new"     // nobody said anything
	Changed State = "changed" // it was trusted with another content
	Held    State = "trusted"
	Unfit   State = "unfit" // it has a problem, and nobody can trust it
)

// States returns the state of each definition of f, in their order.
func (s *Store) States(f Folder) ([]State, error) {
	all, err := s.load()
	if err != nil {
		return nil, err
	}
	states := make([]State, len(f.Definitions))
	for i, d := range f.Definitions {
		recorded, known := all[f.Dir][d.Path]
		switch {
		case d.Problem != "":
			states[i] = Unfit
		case !known:
			states[i] = New
		case recorded.Hash != d.Hash:
			states[i] = Changed
		default:
			states[i] = Held
		}
	}
	return states, nil
}
