// Package trust knows what of a folder a person lets come to execution. It is the plugin "trust", which
// provides [policy.Trust], and a library for the command line, which asks before anything is composed:
//
//	# cordis.yml
//	- id: trust
//	  plugin: trust
//	  config:
//	    accept: [9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08]
//
// A folder brings definitions: files that say what is composed, allowed or run there, see [Scan]. Each has a hash, over its
// path, its content, and the files of the folder that its hooks run. A person trusts a folder with exactly these hashes; a
// definition that changes is not trusted until somebody says so again, and the others stay. Trust in a folder says nothing of
// the folders in it.
//
// Nothing here starts a process or writes into a folder. Everything may be used by many goroutines at once.
package trust

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/dsh-harness/dsh/internal/home"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/policy"
)

// Config is the configuration of the plugin.
type Config struct {
	Accept []string `json:"accept,omitempty" doc:"hashes of sets of definitions, as dsh trust prints them: a folder that brings exactly such a set is trusted while this runs"`
}

// Validate reports the first hash that is none.
func (c *Config) Validate() error {
	for i, hash := range c.Accept {
		if err := CheckHash(hash); err != nil {
			return fmt.Errorf("accept[%d]: %w", i, err)
		}
	}
	return nil
}

// CheckHash reports whether text has the form of the hash of a set.
func CheckHash(text string) error {
	if raw, err := hex.DecodeString(text); err != nil || hex.EncodeToString(raw) != text || len(raw) != hashSize {
		return fmt.Errorf("%.80q is no hash: expected the %d hexadecimal digits that dsh trust prints", text, 2*hashSize)
	}
	return nil
}

// Plugin provides [policy.Trust].
var Plugin = plugin.Plugin[Config]{
	Name: "trust",
	Doc:  "Knows which folders a person trusts, and with which definitions exactly.",
	Start: func(_ context.Context, s *plugin.Scope, c Config) error {
		dirs, err := home.Find(os.Getenv)
		if err != nil {
			return fmt.Errorf("find the list of trusted folders: %w", err)
		}
		return policy.Trust.Provide(s, &truster{store: NewStore(dirs.State), accept: c.Accept})
	},
}

// truster answers from the files as they are now, so that what changes is not trusted from then on.
type truster struct {
	store  *Store
	accept []string
}

// Trusted implements [policy.Truster].
func (t *truster) Trusted(ctx context.Context, dir, path string) ([]byte, error) {
	k, known := kindOf(path)
	if !known {
		return nil, nil
	}
	// Most folders bring nothing, and this is asked for each call.
	if _, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(path))); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	real, err := realPath(dir)
	if err != nil {
		return nil, err
	}
	entries, err := t.store.load()
	if err != nil {
		return nil, err
	}
	recorded, stored := entries[real][path]
	if !stored && len(t.accept) == 0 {
		return nil, nil
	}
	if stored {
		d, err := scanOne(ctx, real, k)
		if err != nil || d == nil || d.Problem != "" {
			return nil, err
		}
		if d.Hash == recorded.Hash {
			return d.Content, nil
		}
	}
	if len(t.accept) == 0 {
		return nil, nil
	}
	f, err := Scan(ctx, real)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(t.accept, f.Hash) {
		return nil, nil
	}
	for _, d := range f.Definitions {
		if d.Path == path && d.Problem == "" {
			return d.Content, nil
		}
	}
	return nil, nil
}

// realPath is the name that a folder is trusted under, whichever way it was reached.
func realPath(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", fmt.Errorf("find out what %s brings along: %w", dir, err)
	}
	return abs, nil
}
