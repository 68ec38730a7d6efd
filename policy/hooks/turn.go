package hooks

import (
	"context"
	"errors"
	"time"

	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/workspace"
)

const (
	// maxStops is how often Stop hooks may keep one turn going.
	maxStops = 8
	// endTimeout bounds each hook of SessionEnd, and endBound all of them: the harness waits for them when it ends.
	endTimeout = 3 * time.Second
	endBound   = 6 * time.Second
)

// began notes how the session began. Its hooks are run with its first step, in whose context they can be cancelled.
func (h *hooks) began(_ context.Context, n agent.StartNotice) error {
	st := h.of(n.Agent.Session())
	st.mu.Lock()
	defer st.mu.Unlock()
	st.source, st.begun = n.Source, false
	return nil
}

// at returns an occasion in the life of an agent.
func (h *hooks) at(a agent.Agent, on event, turn int, subjects ...string) *occasion {
	return &occasion{
		state: h.of(a.Session()), workspace: a.Workspace(), event: on, subjects: subjects, turn: turn, model: a.Selection().Model,
		add: func(Style, map[string]any) {},
	}
}

// all runs the hooks of an occasion.
func (o *occasion) all(ctx context.Context) outcome {
	var all outcome
	for _, k := range o.hooks(ctx) {
		all.add(o.run(ctx, k))
	}
	return all
}

// admit runs the hooks of SessionStart before the first step, and those of UserPromptSubmit on what a person says.
func (h *hooks) admit(ctx context.Context, in *agent.StepInput, next plugin.Next[*agent.StepInput, agent.Admission]) (agent.Admission, error) {
	st := h.of(in.Agent.Session())
	source, first := st.enter(in.Turn)
	if first {
		o := h.at(in.Agent, sessionStart, in.Turn, source)
		o.add = func(_ Style, told map[string]any) { told["source"] = source }
		said := o.all(ctx)
		if said.halt {
			return rejected(said), nil
		}
		st.mu.Lock()
		st.context = said.context
		st.mu.Unlock()
	}
	var context []string
	for _, m := range in.Messages {
		if kind := m.Message.Source.Kind; m.Quiet || kind != "" && kind != "user" {
			continue
		}
		o := h.at(in.Agent, userPromptSubmit, in.Turn)
		o.add = func(_ Style, told map[string]any) { told["prompt"] = llm.PlainText(m.Message.Content) }
		said := o.all(ctx)
		if said.halt || said.decision == deny {
			return rejected(said), nil
		}
		context = append(context, said.context...)
	}
	a, err := next(ctx, in)
	if err != nil || a.Reject || len(a.Messages) == 0 && in.Step.Step <= 1 {
		return a, err
	}
	st.mu.Lock()
	opening := st.context
	st.context = nil
	st.mu.Unlock()
	if len(opening)+len(context) == 0 {
		return a, nil
	}
	var messages []session.Pending
	for _, text := range opening {
		messages = append(messages, session.Pending{Quiet: true, Message: contextFrom(sessionStart, text)})
	}
	messages = append(messages, a.Messages...)
	for _, text := range context {
		messages = append(messages, session.Pending{Quiet: true, Message: contextFrom(userPromptSubmit, text)})
	}
	a.Messages = messages
	return a, nil
}

// enter notes that a step of a turn begins. first tells that SessionStart is due, with its source.
func (st *state) enter(turn int) (source string, first bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if turn != st.turn {
		st.turn, st.stops, st.halted, st.why = turn, 0, false, ""
	}
	first = !st.begun
	st.begun = true
	return st.source, first
}

func rejected(said outcome) agent.Admission {
	if said.halt {
		return agent.Admission{Reject: true, Reason: halted(said.why)}
	}
	return agent.Admission{Reject: true, Reason: said.reason("blocked by UserPromptSubmit hook")}
}

// halt ends the turn after the step in which a hook said so.
func (h *hooks) halt(ctx context.Context, d *agent.StepDone, next plugin.Next[*agent.StepDone, agent.Continuation]) (agent.Continuation, error) {
	if why, ok := h.of(d.Agent.Session()).ending(); ok {
		return agent.Continuation{Reason: session.Blocked, Detail: halted(why)}, nil
	}
	return next(ctx, d)
}

// stop runs the hooks of Stop when the turn would be complete. One that blocks keeps it going, with its reason.
func (h *hooks) stop(ctx context.Context, d *agent.StepDone, next plugin.Next[*agent.StepDone, agent.Continuation]) (agent.Continuation, error) {
	c, err := next(ctx, d)
	if err != nil || c.Continue || c.Reason != "" {
		return c, err
	}
	o := h.at(d.Agent, stop, d.Turn)
	o.state.mu.Lock()
	stops := o.state.stops
	o.state.mu.Unlock()
	o.add = func(_ Style, told map[string]any) {
		told["stop_hook_active"] = stops > 0
		if d.Answer != nil {
			told["last_assistant_message"] = llm.PlainText(d.Answer.Content)
		}
	}
	said := o.all(ctx)
	switch {
	case said.halt:
		return agent.Continuation{Reason: session.Blocked, Detail: halted(said.why)}, nil
	case said.decision != deny:
		return c, nil
	case stops >= maxStops:
		h.scope.Log().Warn("Stop hooks have kept a turn going too often: it ends", "agent", d.Agent.ID(), "turn", d.Turn, "times", stops)
		return c, nil
	}
	o.state.mu.Lock()
	o.state.stops++
	o.state.mu.Unlock()
	c.Continue = true
	c.Messages = append(c.Messages, contextFrom(stop, said.reason("blocked by Stop hook")))
	for _, text := range said.context {
		c.Messages = append(c.Messages, contextFrom(stop, text))
	}
	return c, nil
}

// ended runs the hooks of SessionEnd and forgets the session.
func (h *hooks) ended(ctx context.Context, a agent.Agent) error {
	st := h.of(a.Session())
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.sessions, a.Session().ID())
	}()
	st.mu.Lock()
	begun := st.begun
	st.mu.Unlock()
	if !begun || a.Workspace() == nil {
		return nil
	}
	const reason = "other"
	o := h.at(a, sessionEnd, 0, reason)
	o.limit = endTimeout
	o.add = func(_ Style, told map[string]any) { told["reason"] = reason }
	if len(o.hooks(ctx)) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, endBound)
	defer cancel()
	// The workspace of the agent runs nothing any more.
	dir := workspace.Options{Dir: a.Workspace().Dir(), Session: a.Session().ID()}
	node, err := h.scope.Mount("session end", []plugin.Need{workspace.Service.Required()}, func(_ context.Context, s *plugin.Scope) error {
		w, err := workspace.Service.From(s).Open(ctx, s, dir)
		if err != nil {
			return err
		}
		o.workspace = w
		o.all(ctx)
		return nil
	})
	if err != nil {
		return err
	}
	return errors.Join(node.Settle(ctx), node.Close(context.WithoutCancel(ctx)))
}
