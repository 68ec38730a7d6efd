// Package environment tells the model where it works: folder, system, version
// control, model, and the day on which the session began. It is the plugin
// "prompt-environment", without configuration:
//
//	# cordis.yml
//	- {id: prompt-environment, plugin: prompt-environment}
//
// The text depends on the session and the folder alone, and not on the clock: so it
// is the same at every step, also of a session that lasts for days. Its section may
// be assembled by any goroutine.
package environment

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/prompt"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/workspace"
)

// order places the section after everything that is the same in all sessions, so
// that providers can share what comes before it.
const order = 200

// Plugin adds the section "environment" to [prompt.Sections].
var Plugin = plugin.Plugin[struct{}]{
	Name: "prompt-environment",
	Doc:  "A section of the system prompt: the folder, the system, version control, the model, and the day on which the session began.",
	Start: func(_ context.Context, s *plugin.Scope, _ struct{}) error {
		e := &environment{repositories: map[*session.Session]bool{}}
		_, err := prompt.Sections.Add(s, "environment", prompt.Section{Order: order, Text: e.text})
		if err == nil {
			_, err = session.Gone.On(s, e.forget)
		}
		return err
	},
}

// environment writes the section. It looks for a repository once a session: the
// section is asked for before each step, and is fixed at the first.
type environment struct {
	mu           sync.Mutex
	repositories map[*session.Session]bool
}

func (e *environment) forget(_ context.Context, s *session.Session) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.repositories, s)
	return nil
}

func (e *environment) inRepository(in prompt.Input) bool {
	if in.Session == nil {
		return inRepository(in.Workspace)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	found, known := e.repositories[in.Session]
	if !known {
		found = inRepository(in.Workspace)
		e.repositories[in.Session] = found
	}
	return found
}

func (e *environment) text(_ context.Context, in prompt.Input) (string, error) {
	var b strings.Builder
	line := func(name, value string) { fmt.Fprintf(&b, "\n- %s: %s", name, value) }
	b.WriteString("Environment")
	if ws := in.Workspace; ws != nil {
		line("Folder", printable(ws.Dir())+" (relative paths are below it)")
		if added := addedRoots(ws); len(added) > 0 {
			line("Other folders that may be written", strings.Join(added, ", "))
		}
		line("Git repository", yesNo(e.inRepository(in)))
	}
	line("System", runtime.GOOS+"/"+runtime.GOARCH)
	if in.Model.ID != "" {
		line("Model", printable(in.Model.Ref()))
	}
	if in.Session != nil {
		line("This session began on", time.UnixMilli(in.Session.Header().Created).Format("Monday, 2 January 2006"))
	}
	return b.String(), nil
}

// inRepository reports whether the folder, or one above it, holds .git. It
// runs no program: a folder that nobody trusts yet may not start one.
func inRepository(ws workspace.Workspace) bool {
	for dir := ws.Dir(); ; {
		if _, err := ws.FS().Lstat(filepath.Join(dir, ".git")); err == nil {
			return true
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return false
		}
		dir = parent
	}
}

// addedRoots are the folders that may be written beside the session's own. The
// temporary one has another name in every process, and is left out.
func addedRoots(ws workspace.Workspace) []string {
	var added []string
	for _, root := range ws.Roots()[1:] {
		if root != ws.Temp() {
			added = append(added, printable(root))
		}
	}
	return added
}

// printable quotes a name that could be read as more than a name: whoever
// names a folder does not write the system prompt.
func printable(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(name)
	}
	return name
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
