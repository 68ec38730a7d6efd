package agent

import (
	"context"

	"github.com/dsh-harness/dsh/plugin"
)

// Commands is the set of slash commands, by name without the slash. Plugins add to it; every surface
// offers what is there.
var Commands = plugin.NewSet[Command]("agent/commands")

// Command is something that a person can have done by typing /name.
type Command struct {
	Doc string // one line: what it does
	// Arguments hints at what may follow the name, such as "[name]"; "" when nothing does.
	Arguments string
	// Complete lists what the arguments may be that begin with prefix, best first. It is called while a person
	// types, must be quick, and may be nil.
	Complete func(ctx context.Context, a Agent, prefix string) []string
	// Run does it. It is called from any goroutine, also while a turn runs, and ends soon after ctx. The error is
	// for the person: one line.
	Run func(ctx context.Context, a Agent, arguments string) (CommandResult, error)
}

// CommandResult is what a command gives back. The zero value says that it was done.
type CommandResult struct {
	// Text is shown to the person, as Markdown. The model does not see it.
	Text string
	// Prompt is delivered to the agent as if the person had typed it; "" is nothing.
	Prompt string
}
