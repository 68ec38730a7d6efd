// Package local is the workspace on this machine: files below the session's roots, and
// commands that a guardian process watches. Its plugin provides [workspace.Service].
//
// # Files
//
// A name is resolved once, link by link, and what was found is what is opened: reads ask
// the kernel where the open file is, writes go down from the root folder by folder with
// [os.Root]. Writing replaces a file as a whole.
//
// # Commands
//
// For every command the program starts itself again as a guardian (see [Guard]), which
// confines itself, starts the command in a session of its own and outlives everything that
// the command leaves behind: such processes are ended with the command, and all of them when the
// program dies, however it dies. There is no terminal and no input; the environment is
// allow-listed. What a command may touch is what [workspace.Confining] says; package
// sandbox holds it there.
//
// On systems other than Linux only the command's process group is ended, so that a
// process which leaves the group survives; on Windows commands are not supported.
//
// A workspace may be used by many goroutines at once.
package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/dsh-harness/dsh/internal/mounts"
	"github.com/dsh-harness/dsh/internal/trash"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/workspace"
)

// Config is the configuration of [Plugin].
type Config struct {
	// Env names further variables of the environment that commands get.
	Env []string `json:"env,omitempty" doc:"Names of further environment variables that commands get, e.g. AWS_PROFILE. Keys and tokens are only passed when they are named here."`
	// Limits bound each confined command.
	Limits LimitConfig `json:"limits" doc:"What each confined command may use."`
	// Caches are shown to confined commands through layers.
	Caches []string `json:"caches" doc:"Folders, absolute or from ~/, that confined commands see through a layer: they read what is there, and what they write is kept apart, for confined commands only."`
	// Trash says how long what file tools delete can be restored.
	Trash TrashConfig `json:"trash" doc:"How long what file tools delete can be restored."`
}

// Validate refuses what is not a name.
func (c Config) Validate() error {
	for _, name := range c.Env {
		if name == "" || strings.ContainsAny(name, "=\x00 ") {
			return fmt.Errorf("env: %q is not the name of a variable; give names only, not NAME=value", name)
		}
	}
	for _, path := range c.Caches {
		if !filepath.IsAbs(path) && !strings.HasPrefix(path, "~/") {
			return fmt.Errorf("caches: %q is neither absolute nor from ~/", path)
		}
	}
	if err := c.Limits.Validate(); err != nil {
		return fmt.Errorf("limits: %w", err)
	}
	if err := c.Trash.Validate(); err != nil {
		return fmt.Errorf("trash: %w", err)
	}
	return nil
}

// Plugin provides the workspaces of this machine.
//
//	# cordis.yml
//	- id: workspace
//	  plugin: workspace-local
//	  config:
//	    env: [AWS_PROFILE, DOCKER_HOST]
var Plugin = plugin.Plugin[Config]{
	Name: "workspace-local",
	Doc:  "Files below the session's roots and confined commands under a guardian process, on this machine.",
	Default: func() Config {
		return Config{Limits: defaultLimits(), Caches: defaultCaches(), Trash: defaultTrash()}
	},
	Start: func(_ context.Context, s *plugin.Scope, config Config) error {
		return workspace.Service.Provide(s, &provider{extra: config.Env, bin: config.Trash.bin(), launcher: newLauncher(config)})
	},
}

type provider struct {
	extra  []string
	bin    trash.Bin
	commit sync.Mutex // see files
	*launcher
}

// Open implements [workspace.Provider].
func (p *provider) Open(_ context.Context, s *plugin.Scope, o workspace.Options) (workspace.Workspace, error) {
	roots := make([]string, 0, len(o.Dirs)+2)
	for _, dir := range slices.Concat([]string{o.Dir}, o.Dirs) {
		root, err := folder(dir)
		if err != nil {
			return nil, fmt.Errorf("open workspace %s: %w", dir, err)
		}
		roots = append(roots, root)
	}
	tempRoot, err := filepath.EvalSymlinks(os.TempDir())
	if err != nil {
		return nil, fmt.Errorf("open workspace %s: find the folder for temporary files: %w", o.Dir, err)
	}
	temp := filepath.Join(tempRoot, "dsh-"+rand.Text())
	makeTemp := sync.OnceValue(func() error { return os.Mkdir(temp, 0o700) })
	home, err := os.UserHomeDir()
	if err != nil {
		home = "" // ~ is refused then
	}
	w := &local{
		launcher: p.launcher,
		session:  o.Session,
		scope:    s,
		temp:     temp,
		files:    files{dir: roots[0], home: home, roots: append(roots, temp), makeTemp: makeTemp, commit: &p.commit, bin: p.bin},
		env:      environment(os.Environ(), p.extra, o.Env),
	}
	if _, err := s.Defer("workspace "+roots[0], func(context.Context) error { return w.removeTemp() }); err != nil {
		return nil, fmt.Errorf("open workspace %s: %w", o.Dir, err)
	}
	return w, nil
}

// folder resolves the links of a root.
func folder(dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		return "", errors.New("the path must be absolute")
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", cause(err)
	}
	info, err := os.Stat(real)
	if err != nil {
		return "", cause(err)
	}
	if !info.IsDir() {
		return "", errors.New("it is not a folder")
	}
	return real, nil
}

// local is one session's workspace.
type local struct {
	*launcher
	session string // its id
	scope   *plugin.Scope
	temp    string
	files   files
	env     []string
}

func (w *local) Dir() string          { return w.files.dir }
func (w *local) FS() workspace.FS     { return &w.files }
func (w *local) Exec() workspace.Exec { return w }
func (w *local) Roots() []string      { return slices.Clone(w.files.roots) }

// Widen implements [workspace.Workspace].
func (w *local) Widen(path string) (undo func(), err error) { return w.files.widen(path) }

// Temp makes the folder when it is asked for the first time; when that fails, so will
// whoever uses it.
func (w *local) Temp() string {
	_ = w.files.makeTemp() // it is kept, and returned to who writes or runs there
	return w.temp
}

func (w *local) removeTemp() error {
	if _, err := os.Lstat(w.temp); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	err := mounts.Below(w.temp)
	if err == nil {
		err = os.RemoveAll(w.temp)
	}
	if err != nil {
		return fmt.Errorf("remove the temporary folder %s: %w", w.temp, err)
	}
	return nil
}
