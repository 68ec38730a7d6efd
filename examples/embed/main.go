// Command embed holds a conversation with an agent inside a Go program.
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log"

	"github.com/dsh-harness/dsh"
	"github.com/dsh-harness/dsh/config"
	"github.com/dsh-harness/dsh/session"
)

//go:embed cordis.yml
var rows string

func main() {
	dsh.Guard()
	if err := talk(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func talk(ctx context.Context) (err error) {
	agent, err := dsh.Open(ctx, dsh.Options{
		Layers: []config.Layer{{Kind: config.User, Text: rows}},
		Agent:  dsh.AgentOptions{Ephemeral: true, OnEvent: show},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, agent.Close(ctx)) }()
	for _, prompt := range []string{"Which module is this?", "And which Go does it need?"} {
		result, err := agent.Ask(ctx, prompt)
		if err != nil {
			return err
		}
		fmt.Printf("> %s\n%s\n", prompt, result.Text)
	}
	return nil
}

// show is called with each event of the session's log.
func show(e session.Event) {
	if e.Type == session.ToolCall {
		fmt.Printf("  event %d is a %s\n", e.Seq, e.Type)
	}
}
