// Package prompt is the seam for the system prompt: sections that plugins
// contribute, put together in an order that never depends on who started first,
// so that the text is stable byte for byte.
//
// Sections are assembled on the goroutine of the agent that asks.
package prompt

import (
	"context"
	"strings"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/workspace"
)

// Input is what a section may depend on. It is fixed for one assembly.
type Input struct {
	Agent     string // the agent's name
	Session   *session.Session
	Workspace workspace.Workspace // nil when the agent has none
	Model     llm.Model
	// Override replaces the base section when it is not empty (--system-prompt);
	// Append comes after all sections (--append-system-prompt).
	Override, Append string
}

// Section is one part of the system prompt.
type Section struct {
	// Order places the section among the others, low first; equal orders keep
	// the order of the rows. Identity is at -100, instructions between 0 and 99,
	// guidance on tools from 100.
	Order int
	// Base sections are dropped when the user overrides the system prompt.
	Base bool
	// Text returns the section, or "" for none. An error fails the step before
	// any request is made. It must return the same bytes for the same input.
	Text func(ctx context.Context, in Input) (string, error)
}

// Sections is the set of sections by name.
var Sections = plugin.NewSet[Section]("prompt/sections")

// Service is the key of the assembler.
var Service = plugin.NewKey[Assembler]("systemPrompt")

// Assembler puts the visible sections together.
type Assembler interface {
	// Assemble returns the system prompt for s: the sections in order. The loop
	// calls it before each step; what it returned at the first request of a
	// session stays the session's system text, and a section that changed later
	// reaches the model as a context message, see the design of the loop.
	Assemble(ctx context.Context, s *plugin.Scope, in Input) (Prompt, error)
}

// Prompt is an assembled system prompt.
type Prompt struct{ Parts []Part }

// Part is one section's text; it is never empty.
type Part struct {
	Name string
	Text string
}

// Text joins the parts by empty lines.
func (p Prompt) Text() string {
	texts := make([]string, len(p.Parts))
	for i, part := range p.Parts {
		texts[i] = part.Text
	}
	return strings.Join(texts, "\n\n")
}
