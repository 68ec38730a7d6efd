// Package redaction keeps secrets away from models: keys and tokens in what goes to a
// model are replaced by marks, ‹secret:NAME›, before they are logged. It is the plugin "redaction":
//
//	# cordis.yml
//	- id: redaction
//	  plugin: redaction
//	  config:
//	    env: [CUSTOMER_ID]       # further variables whose values are secrets
//	    ignore: [SESSION_TOKEN]  # variables whose values are none
//
// A secret is the value of an environment variable whose name says so (…KEY, …TOKEN,
// …PASSWORD and the like), and what has the shape of a well-known kind of token or of a private
// key. Prompts, results of tools, system prompts and what plugins add to a conversation are
// redacted; what a model says never is. A tool refuses arguments with a mark, so that a
// redacted text is never written over a secret.
//
// The plugin provides [policy.Redaction] for what is written beside the log. It may be used from any goroutine.
package redaction

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/tool"
)

const name = "redaction"

// Plugin puts marks in place of secrets.
var Plugin = plugin.Plugin[Config]{
	Name:  name,
	Doc:   "Replaces keys and tokens by marks in what goes to a model, and refuses to write a mark back.",
	Start: start,
}

// Config is the configuration of the plugin.
type Config struct {
	Env    []string `json:"env,omitempty" doc:"further environment variables whose values are secrets, whatever their names and values look like"`
	Ignore []string `json:"ignore,omitempty" doc:"environment variables whose values are no secrets, although their names say so"`
}

// Validate reports the first thing that is wrong.
func (c *Config) Validate() error {
	for _, variable := range append(c.Env[:len(c.Env):len(c.Env)], c.Ignore...) {
		if variable == "" || strings.ContainsAny(variable, "=\x00 ") {
			return fmt.Errorf("%q is not the name of an environment variable", variable)
		}
	}
	return nil
}

func start(_ context.Context, s *plugin.Scope, c Config) error {
	p := &guard{secrets: sync.OnceValue(func() *redactor { return newRedactor(fromEnvironment(os.Environ(), c)) })}
	err := policy.Redaction.Provide(s, p)
	for _, register := range []func() error{
		func() error { return second(agent.Receiving.On(s, p.prompt)) },
		func() error { return second(agent.PreStep.On(s, p.input, plugin.At(agent.Guard))) },
		func() error { return second(agent.Requesting.On(s, p.request, plugin.At(agent.Select))) },
		func() error { return second(agent.TurnContinuation.On(s, p.more, plugin.At(agent.Limit))) },
		func() error { return second(tool.PreExecute.On(s, p.decide, plugin.At(tool.Decide))) },
		func() error { return second(tool.PostExecute.On(s, p.result, plugin.At(tool.Redact))) },
	} {
		err = errors.Join(err, register())
	}
	return err
}

func second(_ func(context.Context) error, err error) error { return err }

// guard is one life of the plugin. The environment is looked at once, at the first use.
type guard struct {
	secrets func() *redactor
	system  lastText
}

// prompt redacts what a person or program says to an agent.
func (g *guard) prompt(ctx context.Context, in *agent.Incoming, next plugin.Next[*agent.Incoming, llm.Message]) (llm.Message, error) {
	m, err := next(ctx, in)
	if err == nil {
		m = g.message(m)
	}
	return m, err
}

// input redacts what plugins add to the input of a step.
func (g *guard) input(ctx context.Context, in *agent.StepInput, next plugin.Next[*agent.StepInput, agent.Admission]) (agent.Admission, error) {
	a, err := next(ctx, in)
	if err != nil {
		return a, err
	}
	a.Reason = g.Redact(a.Reason)
	messages := make([]session.Pending, len(a.Messages))
	for i, p := range a.Messages {
		p.Message = g.message(p.Message)
		messages[i] = p
	}
	a.Messages = messages
	return a, nil
}

// request redacts the system prompt. It is the same in nearly all requests of a session.
func (g *guard) request(ctx context.Context, d *agent.RequestDraft, next plugin.Next[*agent.RequestDraft, *llm.Request]) (*llm.Request, error) {
	r, err := next(ctx, d)
	if err != nil || r == nil || r.Header == nil {
		return r, err
	}
	if system := g.system.redact(r.Header.System, g.Redact); system != r.Header.System {
		header, copied := *r.Header, *r
		header.System = system
		copied.Header = &header
		r = &copied
	}
	return r, nil
}

// more redacts what keeps a turn going.
func (g *guard) more(ctx context.Context, d *agent.StepDone, next plugin.Next[*agent.StepDone, agent.Continuation]) (agent.Continuation, error) {
	c, err := next(ctx, d)
	if err == nil {
		c.Detail = g.Redact(c.Detail)
		c.Messages = g.messages(c.Messages)
	}
	return c, err
}

// decide refuses arguments with a mark.
func (g *guard) decide(ctx context.Context, p *tool.Pending, next plugin.Next[*tool.Pending, tool.Verdict]) (tool.Verdict, error) {
	if mark := marked(string(p.Call.Arguments)); mark != "" {
		p.Raise(tool.Deny, name, fmt.Sprintf("the arguments hold %s, which stands for a secret that you were not shown; "+
			"leave the place where it is out of what you write, or name the variable that holds it", mark))
	}
	return next(ctx, p)
}

// result redacts what a call gives back, to the model and to surfaces.
func (g *guard) result(ctx context.Context, p *tool.Prepared, next plugin.Next[*tool.Prepared, tool.Result]) (tool.Result, error) {
	r, err := next(ctx, p)
	if err != nil {
		return r, errors.New(g.Redact(err.Error()))
	}
	r.Content = g.blocks(r.Content)
	r.Context = g.messages(r.Context)
	if r.Error != nil {
		e := *r.Error
		e.Code = g.Redact(e.Code)
		r.Error = &e
	}
	if r.Meta != nil {
		r.Meta = g.value(r.Meta)
	}
	return r, nil
}

func (g *guard) message(m llm.Message) llm.Message {
	m.Content = g.blocks(m.Content)
	return m
}

func (g *guard) messages(all []llm.Message) []llm.Message {
	if len(all) == 0 {
		return all
	}
	out := make([]llm.Message, len(all))
	for i, m := range all {
		out[i] = g.message(m)
	}
	return out
}

// blocks copies only when something changes.
func (g *guard) blocks(content []llm.Block) []llm.Block {
	for i, b := range content {
		text := g.Redact(b.Text)
		if text == b.Text {
			continue
		}
		content = append(content[:0:0], content...)
		for j := i; j < len(content); j++ {
			content[j].Text = g.Redact(content[j].Text)
		}
		return content
	}
	return content
}

// lastText remembers what became of a text.
type lastText struct {
	mu              sync.Mutex
	text, redaction string
}

func (l *lastText) redact(text string, with func(string) string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if text != l.text {
		l.text, l.redaction = text, with(text)
	}
	return l.redaction
}
