// Package files gives the model its hands on files: the tools read, write, edit and
// delete. Its plugin adds them to [tool.Tools].
//
// What is changed must have been read: write and edit refuse an existing file that
// this session did not read, or that has changed since. What was read is remembered in
// memory by the session, as a hash of the content: a formatter that touches a file without
// changing it invalidates nothing, and a resumed session reads again. Edits are made on bytes:
// outside of the replaced text nothing changes, whatever the encoding, and inside
// line ends follow what stands around.
//
// The tools may be used by many agents at once.
package files

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
)

// Config is the configuration of [Plugin].
type Config struct {
	ReadLines int `json:"readLines" doc:"How many lines one read returns at most."`
	// LineLength is in characters.
	LineLength int `json:"lineLength" doc:"After how many characters a line is cut."`
	// ReadBytes is below what the registry lets through in one piece.
	ReadBytes int `json:"readBytes" doc:"How many bytes of text one read returns at most."`
}

// Validate refuses limits that would leave nothing to read.
func (c Config) Validate() error {
	for _, limit := range []struct {
		name         string
		value, least int
	}{{"readLines", c.ReadLines, 1}, {"lineLength", c.LineLength, 20}, {"readBytes", c.ReadBytes, 1000}} {
		if limit.value < limit.least {
			return fmt.Errorf("%s is %d: it must be at least %d", limit.name, limit.value, limit.least)
		}
	}
	return nil
}

// Plugin adds the tools read, write, edit and delete.
//
//	# cordis.yml
//	- id: files
//	  plugin: tools-files
//	  config:
//	    readLines: 2000
//	    lineLength: 2000
//	    readBytes: 45000
var Plugin = plugin.Plugin[Config]{
	Name:    "tools-files",
	Doc:     "The tools read, write, edit and delete. A file is only changed as it was last read.",
	Default: func() Config { return Config{ReadLines: 2000, LineLength: 2000, ReadBytes: 45_000} },
	Start: func(_ context.Context, s *plugin.Scope, config Config) error {
		t := &tools{config: config, seen: newObservations()}
		_, err := session.Gone.On(s, func(_ context.Context, gone *session.Session) error {
			t.seen.forget(gone.ID())
			return nil
		})
		if err != nil {
			return err
		}
		return tool.Add(s, t.readTool(), t.writeTool(), t.editTool(), t.deleteTool())
	},
}

// editBytes is up to which size files can be changed, and are hashed when they are read.
const editBytes = 16 << 20

type tools struct {
	config Config
	seen   *observations
}

// access lists what a call touches: the one path of its arguments.
func access(kind tool.AccessKind) func(*tool.Call) []tool.Access {
	return func(c *tool.Call) []tool.Access {
		return []tool.Access{{Kind: kind, Target: pathArgument(c.Arguments)}}
	}
}

// Codes of failed results, beside those of the pipeline.
const (
	codeNotFound   = "not-found"
	codeFolder     = "is-folder"
	codeSpecial    = "not-regular"
	codeNotText    = "not-text"
	codeTooLarge   = "too-large"
	codeOutside    = "outside"
	codePermission = "permission"
	codeNotRead    = "not-read"
	codeStale      = "stale"
	codeNoMatch    = "no-match"
	codeAmbiguous  = "ambiguous"
	codeNoChange   = "no-change"
	codeRange      = "out-of-range"
	codeKept       = "never-deleted"
)

// failure turns an error of the workspace into a result: the model can mend most of them.
func failure(err error) tool.Result {
	code := tool.CodeFailed
	for _, c := range []struct {
		is   error
		code string
	}{
		{fs.ErrNotExist, codeNotFound},
		{fs.ErrPermission, codePermission},
		{workspace.ErrOutside, codeOutside},
		{workspace.ErrSpecial, codeSpecial},
		{workspace.ErrKept, codeKept},
		{workspace.ErrChanged, codeStale},
	} {
		if errors.Is(err, c.is) {
			code = c.code
			break
		}
	}
	return tool.Failure(code, err.Error())
}

func noWorkspace(name string) error {
	return fmt.Errorf("%s: this agent has no workspace", name)
}

func isFolder(name string) tool.Result {
	return tool.Failure(codeFolder, fmt.Sprintf("%s is a folder: list what is in it with glob, e.g. the pattern %s/*", name, strings.TrimRight(name, "/")))
}

// load reads the whole of a file that is going to be changed.
func load(w workspace.Workspace, name string, p workspace.Place) ([]byte, *tool.Result) {
	refuse := func(r tool.Result) ([]byte, *tool.Result) { return nil, &r }
	file, err := w.FS().Open(p.Path)
	if err != nil {
		return refuse(failure(err))
	}
	defer func() { _ = file.Close() }() // it was only read
	info, err := file.Stat()
	if err != nil {
		return refuse(failure(err))
	}
	if info.IsDir() {
		return refuse(isFolder(name))
	}
	tooLarge := func() ([]byte, *tool.Result) {
		return refuse(tool.Failure(codeTooLarge, fmt.Sprintf("%s is larger than %d MiB, too large to change with this tool: use a command", name, editBytes>>20)))
	}
	if info.Size() > editBytes {
		return tooLarge()
	}
	content := make([]byte, 0, info.Size()+512)
	for {
		n, err := file.Read(content[len(content):cap(content)])
		content = content[:len(content)+n]
		switch {
		case errors.Is(err, io.EOF):
			return content, nil
		case err != nil:
			return refuse(failure(fmt.Errorf("read %s: %w", name, err)))
		case len(content) > editBytes:
			return tooLarge()
		case len(content) == cap(content):
			content = append(content, make([]byte, len(content))...)[:len(content)]
		}
	}
}
