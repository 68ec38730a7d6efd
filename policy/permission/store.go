package permission

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/dsh-harness/dsh/internal/atomicfile"
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

const (
	storeVersion = 1
	maxStore     = 4 << 20 // bytes
	lockWait     = 5 * time.Second
)

// store is the file of the rules that are remembered. What another process changes there
// holds at the next look. It may be used by many goroutines at once.
type store struct {
	path string

	mu     sync.Mutex
	seen   fs.FileInfo // of the file that entries were read from; nil when there was none
	loaded bool
	list   []Remembered
	rules  []*rule // those of list, in the same order
}

// load returns what the file holds. Nobody changes what it returns.
func (s *store) load() ([]Remembered, []*rule, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	info, err := os.Stat(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		s.loaded, s.seen, s.list, s.rules = true, nil, nil, nil
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the remembered rules: %w", err)
	}
	if s.loaded && s.seen != nil && os.SameFile(s.seen, info) && s.seen.ModTime().Equal(info.ModTime()) && s.seen.Size() == info.Size() {
		return s.list, s.rules, nil
	}
	list, rules, err := readStore(s.path)
	if err != nil {
		return nil, nil, err
	}
	s.loaded, s.seen, s.list, s.rules = true, info, list, rules
	return list, rules, nil
}

func readStore(path string) ([]Remembered, []*rule, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the remembered rules: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxStore+1))
	err = errors.Join(err, f.Close())
	if err == nil && len(text) > maxStore {
		err = fmt.Errorf("it has more than %d bytes", maxStore)
	}
	var content remembered
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		err = d.Decode(&content)
	}
	if err == nil && content.Version != storeVersion {
		err = fmt.Errorf("its version is %d instead of %d", content.Version, storeVersion)
	}
	var rules []*rule
	for i := 0; err == nil && i < len(content.Rules); i++ {
		var r *rule
		if r, err = content.Rules[i].parse(); err == nil {
			rules = append(rules, r)
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the remembered rules in %s: %w; mend the file, or move it away to forget them", path, err)
	}
	return content.Rules, rules, nil
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

// change replaces the entries by what edit makes of them, unless that fails. No other
// process does so meanwhile.
func (s *store) change(ctx context.Context, edit func([]Remembered) ([]Remembered, error)) (err error) {
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return fmt.Errorf("keep rules: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	lock := flock.New(s.path+".lock", flock.SetPermissions(0o600))
	if held, err := lock.TryLockContext(ctx, 10*time.Millisecond); err != nil || !held {
		return fmt.Errorf("keep rules in %s: another process is at it: %w", s.path, errors.Join(err, context.Cause(ctx)))
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	list, _, err := readStore(s.path)
	if err != nil {
		return err
	}
	list, err = edit(slices.Clone(list))
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(remembered{storeVersion, list}, "", "  ")
	if err != nil {
		return fmt.Errorf("keep rules: %w", err)
	}
	if err := atomicfile.Write(s.path, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("keep rules: %w", err)
	}
	return nil
}

func (s *store) add(ctx context.Context, e Remembered) error {
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
