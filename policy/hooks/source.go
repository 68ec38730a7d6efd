package hooks

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/dsh-harness/dsh/internal/home"
	"github.com/dsh-harness/dsh/policy"
)

// maxFile bounds a hook file.
const maxFile = 1 << 20

// set is the hooks of one session.
type set struct{ sources []*source }

// source is one file that was there when the session began.
type source struct {
	origin
	path string // relative to the folder, "" for the person's own

	mu     sync.Mutex
	hooks  []*hook
	hash   [sha256.Size]byte // of the content that the hooks are from
	warned bool              // that the content has changed
}

// projectFiles are where a folder brings hooks.
func projectFiles() []origin {
	return []origin{
		{name: ".dsh/hooks.json", style: Claude},
		{name: ".claude/settings.json", style: Claude},
		{name: ".claude/settings.local.json", style: Claude},
		{name: ".codex/hooks.json", style: Codex},
	}
}

// sources returns the hooks of the session; the first call reads the files.
func (st *state) sources(ctx context.Context, dir string) []*source {
	st.load.Do(func() { st.set = st.h.read(ctx, dir) })
	return st.set.sources
}

// read reads the files of the person, then those of the folder that are trusted.
func (h *hooks) read(ctx context.Context, dir string) *set {
	all := &set{}
	add := func(s *source, content []byte) {
		if s.take(h, content); len(s.hooks) > 0 {
			all.sources = append(all.sources, s)
		}
	}
	for _, f := range h.files() {
		s := &source{origin: origin{name: f.Path, style: f.Style, onFailure: f.OnFailure, own: true}}
		content, err := readFile(f.Path)
		if errors.Is(err, fs.ErrNotExist) && f.Path == h.ownFile() {
			continue // nobody has to have one
		}
		if err != nil {
			s.reject(h, fmt.Errorf("read the hooks in %s: %w", f.Path, err))
			if len(s.hooks) > 0 {
				all.sources = append(all.sources, s)
			}
			continue
		}
		add(s, content)
	}
	trust, ok := policy.Trust.Current(h.scope)
	if !ok || !h.config.Project || dir == "" {
		return all
	}
	for _, o := range projectFiles() {
		content, err := trust.Trusted(ctx, dir, o.name)
		if err != nil {
			h.scope.Log().Warn("hooks are not run", "file", o.name, "err", err)
			continue
		}
		if content != nil {
			o.onFailure = h.config.OnFailure
			add(&source{origin: o, path: o.name}, content)
		}
	}
	return all
}

// ownFile is where the person's hooks are without being listed, "" when nobody knows where that is.
func (h *hooks) ownFile() string {
	dirs, err := home.Find(os.Getenv)
	if err != nil {
		h.scope.Log().Warn("the hooks of the user are not looked for", "err", err)
		return ""
	}
	return filepath.Join(dirs.Config, "hooks.json")
}

// files returns the person's own files, with absolute paths.
func (h *hooks) files() []File {
	var all []File
	if own := h.ownFile(); own != "" {
		all = append(all, File{Path: own, Style: Claude, OnFailure: h.config.OnFailure})
	}
	for _, f := range h.config.Files {
		if rest, ok := strings.CutPrefix(f.Path, "~/"); ok {
			if user, err := os.UserHomeDir(); err == nil {
				f.Path = filepath.Join(user, rest)
			}
		}
		all = append(all, f)
	}
	return all
}

// readFile reads a regular file that is not too large.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is no regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil && len(content) > maxFile {
		err = fmt.Errorf("it is larger than %d bytes", maxFile)
	}
	return content, err
}

// take replaces the hooks by those in content.
func (s *source) take(h *hooks, content []byte) {
	parsed, notes, err := parse(s.origin, content)
	s.hash = sha256.Sum256(content)
	for _, note := range notes {
		h.scope.Log().Warn(note)
	}
	if err != nil {
		s.reject(h, err)
		return
	}
	s.hooks = parsed
}

// reject notes that the file cannot be used. Where its hooks are to block when they fail, so does the file.
func (s *source) reject(h *hooks, err error) {
	h.scope.Log().Warn("hooks are not run", "file", s.name, "err", err, "on_failure", string(s.onFailure))
	s.hooks = nil
	if s.onFailure == blockOnFailure {
		for _, on := range []event{preToolUse, userPromptSubmit} {
			s.hooks = append(s.hooks, &hook{
				event: on, match: func(string) bool { return true }, onFailure: blockOnFailure, style: s.style, file: s.name, broken: err,
			})
		}
	}
}

// matching returns the hooks that an event is for, in order. A file of the folder has to be trusted still, with
// exactly the content that its hooks are from, or with what it holds by now.
func (st *state) matching(ctx context.Context, dir string, on event, subjects ...string) []*hook {
	var all []*hook
	for _, s := range st.sources(ctx, dir) {
		if len(s.of(on, subjects)) > 0 && s.current(ctx, st.h, dir) {
			all = append(all, s.of(on, subjects)...)
		}
	}
	return all
}

func (s *source) of(on event, subjects []string) []*hook {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*hook
	for _, k := range s.hooks {
		if k.event != on {
			continue
		}
		matched := len(subjects) == 0
		for _, subject := range subjects {
			matched = matched || k.match(subject)
		}
		if matched {
			all = append(all, k)
		}
	}
	return all
}

// current reports whether the file may be used as it is now, and reads it again when it changed and is trusted again.
func (s *source) current(ctx context.Context, h *hooks, dir string) bool {
	if s.path == "" {
		return true
	}
	var content []byte
	trust, ok := policy.Trust.Current(h.scope)
	err := errors.New("nobody knows what is trusted any more")
	if ok {
		content, err = trust.Trusted(ctx, dir, s.path)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || content == nil {
		if !s.warned {
			s.warned = true
			h.scope.Log().Warn("hooks are not run any more: their file has changed or is not trusted now", "file", s.name, "err", err)
		}
		return false
	}
	if sha256.Sum256(content) != s.hash {
		s.take(h, content)
	}
	s.warned = false
	return true
}
