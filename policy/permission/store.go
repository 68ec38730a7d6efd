package permission

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/dsh-harness/dsh/internal/sharedfile"
	"github.com/dsh-harness/dsh/tool"
)

// Remembered is a rule that was remembered beyond a session.
type Remembered struct {
	Rule   string    `json:"rule"`
	Effect string    `json:"effect"` // allow, ask or deny
	Dir    string    `json:"dir"`    // the folder that it holds in
	Time   time.Time `json:"time"`
	By     string    `json:"by,omitempty"` // the session whose question it answered
}

// remembered is the content of the file.
type remembered struct {
	Version int          `json:"version"`
	Rules   []Remembered `json:"rules"`
}

const storeVersion = 1

// entries are the rules of the file, as they are written and as they are understood, in the same order.
type entries struct {
	list  []Remembered
	rules []*rule
}

// store is the file of the rules that are remembered.
type store struct {
	file *sharedfile.File[entries]
}

func newStore(path string) store { return store{sharedfile.New(path, parseEntries)} }

// load returns what the file holds. Nobody changes what it returns.
func (s store) load() ([]Remembered, []*rule, error) {
	all, err := s.file.Load()
	if err != nil {
		return nil, nil, fmt.Errorf("the remembered rules: %w", err)
	}
	return all.list, all.rules, nil
}

func parseEntries(text []byte) (entries, error) {
	var content remembered
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&content); err != nil {
		return entries{}, err
	}
	if content.Version != storeVersion {
		return entries{}, fmt.Errorf("its version is %d instead of %d", content.Version, storeVersion)
	}
	all := entries{list: content.Rules}
	for i := range content.Rules {
		r, err := content.Rules[i].parse()
		if err != nil {
			return entries{}, err
		}
		all.rules = append(all.rules, r)
	}
	return all, nil
}

func (e *Remembered) parse() (*rule, error) {
	effect, err := parseEffect(e.Effect)
	if err != nil {
		return nil, err
	}
	if !filepath.IsAbs(e.Dir) {
		return nil, fmt.Errorf("rule %.200q: the folder %.200q is not absolute", e.Rule, e.Dir)
	}
	r, err := parseRule(e.Rule, effect)
	if err != nil {
		return nil, err
	}
	r.source, r.dir = "remembered", e.Dir
	return r, nil
}

// change replaces the entries by what edit makes of them, unless that fails.
func (s store) change(ctx context.Context, edit func([]Remembered) ([]Remembered, error)) error {
	err := s.file.Change(ctx, func(all entries) ([]byte, error) {
		list, err := edit(all.list)
		if err != nil {
			return nil, err
		}
		return json.MarshalIndent(remembered{storeVersion, list}, "", "  ")
	})
	if err != nil {
		return fmt.Errorf("keep rules: %w", err)
	}
	return nil
}

func (s store) add(ctx context.Context, e Remembered) error {
	return s.change(ctx, func(list []Remembered) ([]Remembered, error) {
		list = slices.DeleteFunc(list, func(old Remembered) bool { return old.Rule == e.Rule && old.Effect == e.Effect && old.Dir == e.Dir })
		return append(list, e), nil
	})
}

func parseEffect(name string) (tool.Decision, error) {
	for _, d := range []tool.Decision{tool.Allow, tool.Ask, tool.Deny} {
		if d.String() == name {
			return d, nil
		}
	}
	return tool.Deny, fmt.Errorf("unknown effect %.50q: expected allow, ask or deny", name)
}
