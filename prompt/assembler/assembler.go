// Package assembler puts the sections of the system prompt together. It is the plugin
// "system-prompt", which needs nothing and has no configuration; the sections
// come from the plugins that add to [prompt.Sections]:
//
//	# cordis.yml
//	- {id: system-prompt, plugin: system-prompt}
//
// It serves [prompt.Service]; any goroutine may use it.
package assembler

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/prompt"
)

// Plugin provides [prompt.Service].
var Plugin = plugin.Plugin[struct{}]{
	Name: "system-prompt",
	Doc:  "Puts the sections of the system prompt together, in an order that never depends on who started first.",
	Start: func(_ context.Context, s *plugin.Scope, _ struct{}) error {
		return prompt.Service.Provide(s, assembler{s})
	},
}

// Names of the parts that come from the options of the agent.
const (
	Override = "override"
	Append   = "append"
)

// first is the place of an override: that of the identity, which it replaces.
const first = -100

type assembler struct{ scope *plugin.Scope }

type named struct {
	prompt.Section
	name string
}

// Assemble puts the visible sections in order, with the override in place of the base
// sections. Sections that are blank are left out; blank lines around one are cut.
func (a assembler) Assemble(ctx context.Context, s *plugin.Scope, in prompt.Input) (prompt.Prompt, error) {
	var sections []named
	if in.Override != "" {
		sections = append(sections, named{constant(first, in.Override), Override})
	}
	for name, section := range prompt.Sections.Visible(s) {
		if !section.Base || in.Override == "" {
			sections = append(sections, named{section, name})
		}
	}
	slices.SortStableFunc(sections, func(x, y named) int { return cmp.Compare(x.Order, y.Order) })
	sections = append(sections, named{constant(0, in.Append), Append})
	var p prompt.Prompt
	for _, section := range sections {
		text, err := a.text(ctx, section, in)
		if err != nil {
			return prompt.Prompt{}, fmt.Errorf("section %s of the system prompt: %w", section.name, err)
		}
		if text = strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD")); text != "" {
			p.Parts = append(p.Parts, prompt.Part{Name: section.name, Text: text})
		}
	}
	return p, nil
}

func constant(order int, text string) prompt.Section {
	return prompt.Section{Order: order, Text: func(context.Context, prompt.Input) (string, error) { return text, nil }}
}

// text contains a panic of the section: it fails the step, not the harness.
func (a assembler) text(ctx context.Context, section named, in prompt.Input) (text string, err error) {
	defer func() {
		if v := recover(); v != nil {
			p := &plugin.PanicError{Value: v, Stack: debug.Stack()}
			a.scope.Log().Error("panic", "in", "section "+section.name, "err", p, "stack", string(p.Stack))
			err = p
		}
	}()
	return section.Text(ctx, in)
}
