// Package dsh runs agents from Go. [Run] gives one task to an agent and returns its
// answer, [Open] embeds an agent to talk with, and [New] is for programs with several
// agents. What an agent is made of, from the model to the loop, are plugins that a
// composition lists; see [Options].
//
//	func main() {
//		dsh.Guard()
//		result, err := dsh.Run(context.Background(), "What does this project do?", dsh.Options{})
//		if err != nil {
//			log.Fatal(err)
//		}
//		fmt.Println(result.Text)
//	}
//
// Everything here may be used from any goroutine.
package dsh

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/dsh-harness/dsh/config"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace/local"
)

// Options say what a program is composed of, and what its agent starts with. The zero
// value is the shipped composition for programs, with a new agent in the current folder.
type Options struct {
	// Profile is the shipped composition to start from, see package profiles; "" is "headless".
	Profile string
	// Layers are laid over the profile: files or texts of rows. The user's own cordis.yml
	// is one only if it is listed here.
	Layers []config.Layer
	// Set changes single values last, each "id.key=value" as [config.Compose] says.
	Set []string
	// Plugins are what rows may name; nil is [std.Plugins]. A program with plugins of its
	// own appends them to that list and adds their rows in Layers.
	Plugins []plugin.Definition
	// Tools are given to all agents, after those of the composition.
	Tools []tool.Definition
	// Lookup finds environment variables, as [os.LookupEnv] does, which nil stands for.
	Lookup func(name string) (string, bool)
	// Logger receives what goes wrong inside; nil discards it.
	Logger *slog.Logger

	// Agent is what [Open] and [Run] start.
	Agent AgentOptions
}

// AgentOptions say which session an agent works on, and how. The zero value is a new session in
// the current folder, with the default model.
type AgentOptions struct {
	// Dir is the folder that the agent works in; "" is the current one, or that of the
	// session which is resumed.
	Dir string
	// AddDirs are further folders, absolute, that the agent may write in, as in Dir.
	AddDirs []string
	// SessionID names the new session, see [session.ValidID]; "" gives it an id that sorts by time.
	SessionID string
	// Resume is a stored session to go on with, instead of a new one.
	Resume string
	// Ephemeral sessions leave nothing on disk.
	Ephemeral bool

	Model     string // provider/model; "" is that of the session, or the default
	Effort    string // of reasoning, as the model offers it; "" is its default
	MaxTokens int64  // ceiling of one answer in tokens; 0 is the provider's

	SystemPrompt string // replaces the base of the system prompt
	SystemAppend string // follows the system prompt

	MaxSteps int           // of one turn; 0 is no limit
	Timeout  time.Duration // of one turn; 0 is no limit

	// OnEvent is called with each event of the session, in order, once it is durable. It runs on a
	// goroutine of its own that [Agent.Ask] waits for, so it must not call Ask or Close.
	OnEvent func(session.Event)
}

// Run gives prompt to an agent, waits for the end of the turn, and takes everything down again.
// The error tells why there is no answer: what kept the agent from starting, or a
// [*TurnError]. The result says in any case how far it came. When ctx ends the turn is
// cancelled, and Run returns once its end is logged.
func Run(ctx context.Context, prompt string, o Options) (Result, error) {
	a, err := Open(ctx, o)
	if err != nil {
		return Result{}, err
	}
	result, err := a.Ask(ctx, prompt)
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), plugin.CleanupTimeout)
	defer cancel()
	return result, errors.Join(err, a.Close(bounded))
}

// Open starts an agent on a composition of its own; [Agent.Close] ends both.
func Open(ctx context.Context, o Options) (*Agent, error) {
	h, err := New(ctx, o)
	if err != nil {
		return nil, err
	}
	a, err := h.Open(ctx, o.Agent)
	if err != nil {
		return nil, errors.Join(err, h.Close(context.WithoutCancel(ctx)))
	}
	a.owned = h
	return a, nil
}

// Guard must be the first call in the main function of a program whose agents run
// commands. For each command the program starts itself once more, as the guardian that
// ends whatever the command leaves behind; in that process Guard never returns.
func Guard() { local.Guard() }
