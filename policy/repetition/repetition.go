// Package repetition ends turns in which a model is stuck: it calls the same tool
// with the same arguments again and again, or makes calls that cannot be run. It is the
// plugin "repetition-guard":
//
//	# cordis.yml
//	- id: repetition-guard
//	  plugin: repetition-guard
//	  config:
//	    limit: 5      # equal calls in a row that end the turn; 0 never does
//
// Two calls before the limit the model is reminded. All results are in the log by
// then, so the conversation can go on with another prompt. The counts live in memory,
// for one turn. Its listeners run on the goroutines of agents.
package repetition

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/tool"
)

const name = "repetition-guard"

// Plugin ends turns that go round in circles.
var Plugin = plugin.Plugin[Config]{
	Name:    name,
	Doc:     "Ends a turn in which the model repeats itself: the same call over and over, or calls that cannot be run.",
	Default: func() Config { return Config{Limit: 5} },
	Start: func(_ context.Context, s *plugin.Scope, c Config) error {
		g := &guard{limit: c.Limit, turns: map[string]*turn{}}
		_, err := agent.TurnContinuation.On(s, g.listen, plugin.At(agent.Limit))
		_, err2 := agent.Gone.On(s, func(_ context.Context, a agent.Agent) error {
			g.forget(a.ID())
			return nil
		})
		return errors.Join(err, err2)
	},
}

// Config is the configuration of the plugin.
type Config struct {
	Limit int `json:"limit" doc:"how many equal calls in a row end the turn, at least 3; 0 for no limit"`
}

// Validate reports the first thing that is wrong.
func (c *Config) Validate() error {
	if c.Limit != 0 && c.Limit < 3 {
		return fmt.Errorf("limit: %d is neither 0 nor at least 3", c.Limit)
	}
	return nil
}

// maxFailures is how many steps in a row may bring calls that cannot be run: a second
// chance after the model was told, and no more.
const maxFailures = 3

type guard struct {
	limit int

	mu    sync.Mutex
	turns map[string]*turn // of each agent, the last one
}

// turn is what is remembered of one turn.
type turn struct {
	number    int
	call      [32]byte // the digest of the last call
	repeats   int      // how often it was made in a row
	truncated int      // steps in a row that the output limit cut
	invalid   int      // steps in a row of nothing but invalid calls
}

func (g *guard) forget(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.turns, id)
}

// of returns what is remembered of the turn that a step is part of. A person who
// steers it begins anew. Only the agent's own goroutine uses it.
func (g *guard) of(d *agent.StepDone) *turn {
	g.mu.Lock()
	defer g.mu.Unlock()
	id := d.Agent.ID()
	t := g.turns[id]
	if t == nil || t.number != d.Turn || d.Waiting {
		t = &turn{number: d.Turn}
		g.turns[id] = t
	}
	return t
}

func (g *guard) listen(ctx context.Context, d *agent.StepDone, next plugin.Next[*agent.StepDone, agent.Continuation]) (agent.Continuation, error) {
	c, err := next(ctx, d)
	if err != nil || len(d.Calls) == 0 {
		return c, err
	}
	t := g.of(d)
	if d.Waiting {
		return c, nil
	}
	reminder := t.count(d.Calls, g.limit)
	t.note(d.Results)
	switch {
	case t.truncated >= maxFailures:
		return agent.Continuation{Reason: session.MaxTokens, Detail: "output-limit"}, nil
	case t.invalid >= maxFailures:
		return agent.Continuation{Reason: session.Budget, Detail: "invalid-arguments"}, nil
	case g.limit > 0 && t.repeats >= g.limit:
		return agent.Continuation{Reason: session.Budget, Detail: "repetition"}, nil
	case reminder != "" && c.Continue:
		m := llm.UserText(reminder)
		m.Source = llm.Source{Kind: "plugin", Name: name, Form: "reminder"}
		c.Messages = append(c.Messages, m)
	}
	return c, nil
}

// count counts equal calls in a row, up to the limit, and returns what to remind the
// model of when one of them was the second before it.
func (t *turn) count(calls []llm.Block, limit int) (reminder string) {
	for _, call := range calls {
		digest := tool.Digest(&tool.Call{Name: call.Name, Arguments: canonical(call.Arguments)})
		if digest != t.call {
			t.call, t.repeats, reminder = digest, 0, ""
		}
		if t.repeats++; t.repeats == limit {
			return ""
		}
		if limit > 0 && t.repeats == max(2, limit-2) {
			reminder = fmt.Sprintf("You have called %s %d times in a row with the same arguments. The answer will not change: do something else, "+
				"or say what keeps you from going on. After %d such calls the turn ends.", call.Name, t.repeats, limit)
		}
	}
	return reminder
}

// note counts steps in a row that brought no call that could be run.
func (t *turn) note(results []tool.Result) {
	truncated, invalid := false, len(results) > 0
	for _, r := range results {
		code := ""
		if r.Error != nil {
			code = r.Error.Code
		}
		truncated = truncated || code == tool.CodeTruncated
		invalid = invalid && code == tool.CodeInvalidArgs
	}
	t.truncated = extend(t.truncated, truncated)
	t.invalid = extend(t.invalid, invalid)
}

// extend makes a row one longer, or ends it.
func extend(row int, again bool) int {
	if again {
		return row + 1
	}
	return 0
}

// canonical spells arguments so that the order of the members and the space between
// them make no difference. What is no JSON stays as it is.
func canonical(arguments string) json.RawMessage {
	raw := []byte(arguments)
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil || d.More() {
		return raw
	}
	sorted, err := json.Marshal(v)
	if err != nil {
		return raw
	}
	return sorted
}
