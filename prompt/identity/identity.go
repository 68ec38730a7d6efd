// Package identity says who the agent is and how it works: the base section of the
// system prompt, which --system-prompt replaces. It is the plugin "prompt-identity",
// without configuration:
//
//	# cordis.yml
//	- {id: prompt-identity, plugin: prompt-identity}
//
// Its section may be assembled by any goroutine.
package identity

import (
	"context"
	_ "embed"

	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/prompt"
)

//go:embed identity.md
var text string

// Plugin adds the section "identity" to [prompt.Sections].
var Plugin = plugin.Plugin[struct{}]{
	Name: "prompt-identity",
	Doc:  "The base of the system prompt: who the agent is and how it works.",
	Start: func(_ context.Context, s *plugin.Scope, _ struct{}) error {
		_, err := prompt.Sections.Add(s, "identity", prompt.Section{
			Order: -100,
			Base:  true,
			Text:  func(context.Context, prompt.Input) (string, error) { return text, nil },
		})
		return err
	},
}
