package dsh_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/dsh-harness/dsh"
	"github.com/dsh-harness/dsh/config"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/tool"
)

// scripted returns a layer with a model whose answers are written down, so that the examples
// need no key. A program of yours leaves it out, and has DEEPSEEK_API_KEY set.
func scripted(answers string) []config.Layer {
	return []config.Layer{{Kind: config.User, Text: `
- id: script
  plugin: llm-replay
  config:
    answers:
` + answers}}
}

// One task, one answer.
func ExampleRun() {
	result, err := dsh.Run(context.Background(), "Greet me.", dsh.Options{
		Layers: scripted(`
    - text: Hello!
`),
		Agent: dsh.AgentOptions{Model: "replay/scripted", Ephemeral: true},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Text, result.Reason, result.Steps)
	// Output: Hello! completed 1
}

// An agent that a program talks with, and listens to.
func ExampleOpen() {
	ctx := context.Background()
	agent, err := dsh.Open(ctx, dsh.Options{
		Layers: scripted(`
    - text: Paris.
    - text: Rome.
`),
		Agent: dsh.AgentOptions{
			Model:     "replay/scripted",
			Ephemeral: true,
			OnEvent: func(e session.Event) {
				if e.Type == session.TurnStart {
					fmt.Println("thinking…")
				}
			},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, country := range []string{"France", "Italy"} {
		result, err := agent.Ask(ctx, "What is the capital of "+country+"?")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(country+":", result.Text)
	}
	if err := agent.Close(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// thinking…
	// France: Paris.
	// thinking…
	// Italy: Rome.
}

// A tool of one's own is a Go function; what its argument may hold follows from the type.
func ExampleOptions_tools() {
	type input struct {
		Text string `json:"text" doc:"what to count in"`
	}
	count := tool.New(tool.Spec{Name: "count_words", Description: "Counts words.", Effect: session.EffectRead},
		func(_ context.Context, _ *tool.Call, in input) (tool.Result, error) {
			return tool.Text(fmt.Sprint(len(strings.Fields(in.Text)))), nil
		})
	result, err := dsh.Run(context.Background(), "How many words are in: to be or not to be?", dsh.Options{
		Tools: []tool.Definition{count},
		Layers: scripted(`
    - calls: [{name: count_words, arguments: {text: to be or not to be}}]
    - {expect: {last: "6"}, text: There are six.}
`),
		Agent: dsh.AgentOptions{Model: "replay/scripted", Ephemeral: true},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Text)
	// Output: There are six.
}

// Several agents on one composition.
func ExampleNew() {
	ctx := context.Background()
	h, err := dsh.New(ctx, dsh.Options{Layers: scripted(`
    - text: done
`)})
	if err != nil {
		log.Fatal(err)
	}
	for _, task := range []string{"one", "two"} {
		agent, err := h.Open(ctx, dsh.AgentOptions{Model: "replay/scripted", Ephemeral: true, SessionID: task})
		if err != nil {
			log.Fatal(err)
		}
		result, err := agent.Ask(ctx, task)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(result.SessionID, result.Text)
	}
	if err := h.Close(ctx); err != nil { // ends the agents, too
		log.Fatal(err)
	}
	// Output:
	// one done
	// two done
}
