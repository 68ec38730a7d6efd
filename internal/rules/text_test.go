package rules

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestNoTextNamesTheWorkplace keeps paths and hosts of the machines that people happen to work on out of the repository.
func TestNoTextNamesTheWorkplace(t *testing.T) {
	s := sources(t)
	// Written in pieces, so that this file does not find itself.
	forbidden := []string{"/wo" + "rk/main", "/wo" + "rk/shared", "proxy.gol" + "ang.org", "registry.np" + "mjs.org", "/tm" + "p/session-api"}
	err := walk(s.root, func(name string) error {
		text, err := os.ReadFile(filepath.Join(s.root, name))
		if err != nil {
			return err
		}
		for _, word := range forbidden {
			if i := bytes.Index(text, []byte(word)); i >= 0 {
				t.Errorf("%s:%d: %q", name, bytes.Count(text[:i], []byte("\n"))+1, word)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
