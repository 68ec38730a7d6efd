// Package instructions gives the model what people wrote down for agents: AGENTS.md and CLAUDE.md. It is the
// plugin "prompt-instructions":
//
//	# cordis.yml
//	- id: prompt-instructions
//	  plugin: prompt-instructions
//	  config:
//	    fileBytes: 65536
//	    totalBytes: 131072
//
// It reads AGENTS.md of the user's configuration folder, then AGENTS.md, CLAUDE.md, AGENTS.local.md and CLAUDE.local.md of each
// folder from the project's root, the nearest one above that holds .git, down to the folder of the session; the more specific is last. Nobody
// has to trust a folder for this, as text runs nothing: it is capped, links that lead out of the project are not followed, and characters that a
// reader would not see are made visible.
//
// The files are read once a session and process. Its section may be assembled by any goroutine.
package instructions

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/dsh-harness/dsh/internal/below"
	"github.com/dsh-harness/dsh/internal/home"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/prompt"
	"github.com/dsh-harness/dsh/session"
)

// order places the section after the identity and before guidance on tools.
const order = 50

// Config is the configuration of the plugin.
type Config struct {
	FileBytes  int `json:"fileBytes" doc:"How many bytes of one file are used at most; 0 for no file at all."`
	TotalBytes int `json:"totalBytes" doc:"How many bytes of all files are used at most: what does not fit is left out, the least specific first."`
}

// Validate reports a size that makes no sense.
func (c *Config) Validate() error {
	const most = 16 << 20
	if c.FileBytes < 0 || c.FileBytes > most || c.TotalBytes < c.FileBytes || c.TotalBytes > most {
		return fmt.Errorf("fileBytes must be from 0 to totalBytes, and totalBytes at most %d", most)
	}
	return nil
}

// Plugin adds the section "instructions" to [prompt.Sections].
var Plugin = plugin.Plugin[Config]{
	Name:    "prompt-instructions",
	Doc:     "A section of the system prompt: AGENTS.md and CLAUDE.md of the user and of the project.",
	Default: func() Config { return Config{FileBytes: 64 << 10, TotalBytes: 128 << 10} },
	Start: func(_ context.Context, s *plugin.Scope, c Config) error {
		i := &instructions{config: c, texts: map[*session.Session]string{}}
		_, err := prompt.Sections.Add(s, "instructions", prompt.Section{Order: order, Text: i.text})
		if err == nil {
			_, err = session.Gone.On(s, i.forget)
		}
		return err
	},
}

// instructions writes the section. A session keeps what was read first, as the section is asked for before each step.
type instructions struct {
	config Config

	mu    sync.Mutex
	texts map[*session.Session]string
}

func (i *instructions) forget(_ context.Context, s *session.Session) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.texts, s)
	return nil
}

func (i *instructions) text(_ context.Context, in prompt.Input) (string, error) {
	dir := ""
	if in.Workspace != nil {
		dir = in.Workspace.Dir()
	}
	if in.Session == nil {
		return i.read(dir), nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	text, known := i.texts[in.Session]
	if !known {
		text = i.read(dir)
		i.texts[in.Session] = text
	}
	return text, nil
}

// read returns the section for the folder dir, "" when there is no file.
func (i *instructions) read(dir string) string {
	if i.config.FileBytes == 0 {
		return ""
	}
	var all []*file
	if dirs, err := home.Find(os.Getenv); err == nil {
		all = append(all, i.readOwn(filepath.Join(dirs.Config, "AGENTS.md"))...)
	}
	if dir != "" {
		root := rootOf(dir)
		for _, folder := range between(root, dir) {
			all = append(all, i.readFolder(root, folder, []string{"AGENTS.md", "CLAUDE.md", "AGENTS.local.md", "CLAUDE.local.md"})...)
		}
	}
	return render(all, i.config.TotalBytes)
}

// readOwn reads the user's own file, which may well be a link to where they keep such files.
func (i *instructions) readOwn(path string) []*file {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil
	}
	all := i.readFolder(filepath.Dir(real), filepath.Dir(real), []string{filepath.Base(real)})
	for _, f := range all {
		f.path = path
	}
	return all
}

// readFolder reads the files of a folder below root. Of those with the same text only the first is used.
func (i *instructions) readFolder(root, folder string, names []string) []*file {
	var all []*file
	var dir *below.Root
	for _, name := range names {
		path := filepath.Join(folder, name)
		// Most folders have none, and to look is cheaper than to open the root.
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			continue
		}
		f := &file{path: path}
		rel, err := filepath.Rel(root, path)
		if err == nil && dir == nil {
			if dir, err = below.Open(root); err == nil {
				defer func() { _ = dir.Close() }() // only read from
			}
		}
		if err == nil {
			var content []byte
			content, f.size, err = dir.Read(rel, int64(i.config.FileBytes))
			f.cut = int64(len(content)) < f.size
			f.text, f.hidden = visible(toText(content, f.cut))
		}
		if err != nil {
			f.problem = err.Error()
		}
		if f.problem == "" && f.text == "" || containsText(all, f) {
			continue
		}
		all = append(all, f)
	}
	return all
}

func containsText(all []*file, f *file) bool {
	for _, other := range all {
		if f.problem == "" && other.problem == "" && other.text == f.text {
			return true
		}
	}
	return false
}

// rootOf is the nearest folder, from dir up, that holds .git, else dir. It runs no program.
func rootOf(dir string) string {
	for at := dir; ; {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return at
		}
		parent := filepath.Dir(at)
		if parent == at {
			return dir
		}
		at = parent
	}
}

// between are the folders from root down to dir.
func between(root, dir string) []string {
	var all []string
	for at := dir; ; at = filepath.Dir(at) {
		all = append([]string{at}, all...)
		if at == root || at == filepath.Dir(at) {
			return all
		}
	}
}
