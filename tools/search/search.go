// Package search gives the model eyes for a project: the tools glob and grep. Its
// plugin adds them to [tool.Tools].
//
// Both see the same files. Links are not followed. What .gitignore files exclude is left
// out, and so are the folders of version control; names with a leading dot are like any
// other. What a path or the fixed beginning of a pattern names is searched in any case. Where
// rg can be run it makes the list of files that come into question, otherwise we walk
// ourselves; what is found in them is decided here, so that both ways give the same results.
//
// The tools may be used by many agents at once.
package search

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
)

// Config is the configuration of [Plugin].
type Config struct {
	Files   int `json:"files" doc:"How many files one glob lists at most."`
	Matches int `json:"matches" doc:"How many matches one grep shows at most."`
	// TimeMS bounds one search; what was found by then is shown.
	TimeMS int `json:"timeMs" doc:"After how many milliseconds a search stops."`
	// Ripgrep can be turned off to have the same time everywhere.
	Ripgrep bool `json:"ripgrep" doc:"Whether rg is used where it is installed."`
}

// Validate refuses limits that would leave nothing to find.
func (c Config) Validate() error {
	for _, limit := range []struct {
		name  string
		value int
	}{{"files", c.Files}, {"matches", c.Matches}, {"timeMs", c.TimeMS}} {
		if limit.value < 1 {
			return fmt.Errorf("%s is %d: it must be at least 1", limit.name, limit.value)
		}
	}
	return nil
}

// Plugin adds the tools glob and grep.
//
//	# cordis.yml
//	- id: search
//	  plugin: tools-search
//	  config:
//	    files: 100
//	    matches: 250
//	    timeMs: 20000
//	    ripgrep: true
var Plugin = plugin.Plugin[Config]{
	Name:    "tools-search",
	Doc:     "The tools glob and grep: files by name and by content, as .gitignore leaves them.",
	Default: func() Config { return Config{Files: 100, Matches: 250, TimeMS: 20_000, Ripgrep: true} },
	Start: func(_ context.Context, s *plugin.Scope, config Config) error {
		t := &tools{config: config}
		t.noRipgrep.Store(!config.Ripgrep)
		return tool.Add(s, t.globTool(), t.grepTool())
	},
}

type tools struct {
	config    Config
	noRipgrep atomic.Bool // it is off, or not installed
}

const (
	codeNotFound = "not-found"
	codePattern  = "invalid-pattern"
	codeNotText  = "not-text"
)

// timeout is what the registry allows: a search stops by itself before.
func (t *tools) timeout() time.Duration {
	return time.Duration(t.config.TimeMS)*time.Millisecond + 10*time.Second
}

// limited returns a context that ends with the time of a search.
func (t *tools) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, time.Duration(t.config.TimeMS)*time.Millisecond)
}

// failure turns an error of the workspace into a result.
func failure(err error) tool.Result {
	code := tool.CodeFailed
	if errors.Is(err, fs.ErrNotExist) {
		code = codeNotFound
	}
	return tool.Failure(code, err.Error())
}

// place locates what must exist.
func place(w workspace.Workspace, name string) (workspace.Place, fs.FileInfo, error) {
	info, err := w.FS().Stat(name)
	if err != nil {
		return workspace.Place{}, nil, err
	}
	p, err := w.FS().Locate(name)
	return p, info, err
}

// shown is a path as the model sees it: relative to the session's folder where it is below it.
func shown(w workspace.Workspace, abs string) string {
	rel, err := filepath.Rel(w.Dir(), abs)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return filepath.ToSlash(abs)
	}
	return filepath.ToSlash(rel)
}

// below joins a path of a workspace and a part of a pattern without cleaning: what .. means
// behind a link is for the workspace to say.
func below(dir, rel string) string {
	switch {
	case path.IsAbs(rel) || filepath.IsAbs(rel) || rel == "~" || strings.HasPrefix(rel, "~/"):
		return rel
	case dir == "" || dir == ".":
		return rel
	case rel == "" || rel == ".":
		return dir
	}
	return strings.TrimRight(dir, "/") + "/" + rel
}
