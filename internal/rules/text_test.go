package rules

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
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

// TestS26_DecisionsAreRecorded checks that the decision records are numbered, and say why.
func TestS26_DecisionsAreRecorded(t *testing.T) {
	s := sources(t)
	names, err := filepath.Glob(filepath.Join(s.root, "docs/adr/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	numbered, seen := regexp.MustCompile(`^(\d{4})-[a-z0-9-]+\.md$`), map[string]string{}
	for _, full := range names {
		name := filepath.Base(full)
		if name == "README.md" {
			continue
		}
		m := numbered.FindStringSubmatch(name)
		if m == nil {
			t.Errorf("docs/adr/%s: a record is named NNNN-title.md", name)
			continue
		}
		if other, taken := seen[m[1]]; taken {
			t.Errorf("docs/adr: %s and %s have one number", name, other)
		}
		seen[m[1]] = name
		text, err := os.ReadFile(full)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"context", "decision", "consequences"} {
			if !strings.Contains(strings.ToLower(string(text)), part) {
				t.Errorf("docs/adr/%s: a record has a context, a decision and consequences; %s is missing", name, part)
			}
		}
	}
	if len(seen) == 0 {
		t.Error("docs/adr holds no record")
	}
}
