package hooks

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/tool"
)

// permitted signs what a hook of PermissionRequest allowed.
const permitted = "hook PermissionRequest"

type saidKey struct{}

// before is what the hooks of PreToolUse said, on its way from one stage to the next.
func before(ctx context.Context) (o outcome, ok bool) {
	o, ok = ctx.Value(saidKey{}).(outcome)
	return o, ok
}

// about returns the occasion of a call.
func (h *hooks) about(c *tool.Call, on event) *occasion {
	o := &occasion{
		state: h.of(c.Session), workspace: c.Workspace, event: on, callID: c.ID, subjects: subjects(c.Name), turn: c.Turn,
	}
	o.add = func(style Style, told map[string]any) {
		told["tool_name"], told["tool_input"] = foreign(c.Name), input(style, c, o.dir())
		if on != permissionRequest {
			told["tool_use_id"] = c.ID
		}
	}
	return o
}

// asks fills in what only the agent knows, once it is known that a hook will be told.
func (o *occasion) asks(id string) {
	if agents, ok := agent.Service.Current(o.state.h.scope); ok {
		if a, ok := agents.Get(id); ok {
			o.model = a.Selection().Model
		}
	}
}

// rewrite runs the hooks of PreToolUse. The arguments that one rewrites are those that the next is asked about; the ones before it
// are asked again, once, and what they then rewrite does not count.
func (h *hooks) rewrite(ctx context.Context, p *tool.Pending, next plugin.Next[*tool.Pending, tool.Verdict]) (tool.Verdict, error) {
	o := h.about(p.Call, preToolUse)
	if permit, ok := p.Permitted(); ok && permit.By == permitted {
		return next(ctx, p) // they have been asked
	}
	matching := o.hooks(ctx)
	if len(matching) == 0 {
		return next(ctx, p)
	}
	o.asks(p.Call.Agent)
	said := make([]outcome, len(matching))
	rewriter := -1
	for i, k := range matching {
		said[i] = o.run(ctx, k)
		if said[i].updated == nil {
			continue
		}
		was := p.Call.Arguments
		if err := p.Rewrite(name, said[i].updated); err != nil {
			said[i].add(outcome{decision: deny, reasons: []string{fmt.Sprintf("the hook %q replaced the arguments by others that do not fit: %v", head(k.command), err)}})
		} else if !bytes.Equal(was, p.Call.Arguments) {
			rewriter = i
		}
	}
	for i := range max(rewriter, 0) {
		again := o.run(ctx, matching[i])
		if again.updated != nil {
			h.scope.Log().Warn("a hook rewrites what another one has rewritten: that is not used", "command", head(matching[i].command))
		}
		if said[i].decision > allow { // what it allowed was something else
			again.decide(said[i].decision, said[i].reasons)
		}
		again.halt, again.why = again.halt || said[i].halt, again.why+said[i].why
		said[i] = again
	}
	var all outcome
	for _, one := range said {
		all.add(one)
	}
	o.state.keep(p.Call.ID, all.context)
	if all.halt {
		o.state.end(all.why)
	}
	return next(context.WithValue(ctx, saidKey{}, all), p)
}

// decide raises what the hooks of PreToolUse said. What they allow permits the call, as a rule does: the question of
// a rule, a control file or a guard stays.
func (h *hooks) decide(ctx context.Context, p *tool.Pending, next plugin.Next[*tool.Pending, tool.Verdict]) (tool.Verdict, error) {
	if why, ok := h.of(p.Call.Session).ending(); ok {
		p.Raise(tool.Deny, name, halted(why))
	}
	said, _ := before(ctx)
	by := "hook " + string(preToolUse)
	switch said.decision {
	case deny:
		p.Raise(tool.Deny, by, said.reason("blocked by PreToolUse hook"))
	case ask:
		p.Raise(tool.Ask, by, said.reason("a PreToolUse hook asks about it"))
	case allow:
		p.Permit(by, said.reason("a PreToolUse hook allows it"))
	case silent:
	}
	return next(ctx, p)
}

// halted tells a model or a person that a hook ended the turn.
func halted(why string) string {
	if why == "" {
		return "a hook ends the turn"
	}
	return "a hook ends the turn: " + why
}

// answer runs the hooks of PermissionRequest before anybody is asked. What they allow is decided about again with a permit.
func (h *hooks) answer(ctx context.Context, p *tool.Pending, next plugin.Next[*tool.Pending, tool.Verdict]) (tool.Verdict, error) {
	if p.Verdict.Decision != tool.Ask {
		return next(ctx, p)
	}
	if _, ok := p.ApprovedAlready(); ok {
		return next(ctx, p)
	}
	if permit, ok := p.Permitted(); ok && permit.By == permitted {
		return next(ctx, p) // they have been asked, and it was not theirs to allow
	}
	o := h.about(p.Call, permissionRequest)
	matching := o.hooks(ctx)
	if len(matching) == 0 {
		return next(ctx, p)
	}
	o.asks(p.Call.Agent)
	var all outcome
	for _, k := range matching {
		all.add(o.run(ctx, k))
	}
	if all.halt {
		o.state.end(all.why)
		all.decide(deny, []string{halted(all.why)})
	}
	switch {
	case all.decision == deny:
		p.Settle(false, permitted, all.reason("denied by PermissionRequest hook"))
	case all.decision != allow:
	case all.updated != nil:
		h.scope.Log().Warn("a PermissionRequest hook allows a call with other arguments: that is not supported, and a person is asked", "tool", p.Call.Name)
	default:
		if said, _ := before(ctx); said.decision != ask { // that hook asked for a person
			p.Reconsider(permitted, all.reason("a PermissionRequest hook allows it"))
			return p.Verdict, nil
		}
	}
	return next(ctx, p)
}

// keep holds the context of a call for its result.
func (st *state) keep(call string, context []string) {
	if len(context) == 0 {
		return
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.calls[call] = append(st.calls[call], context...)
}

// taken returns what was kept for a call, once.
func (st *state) taken(call string) []string {
	st.mu.Lock()
	defer st.mu.Unlock()
	context := st.calls[call]
	delete(st.calls, call)
	return context
}

// inspect runs the hooks of PostToolUse or PostToolUseFailure on the result of a call that ran, and adds context.
func (h *hooks) inspect(ctx context.Context, p *tool.Prepared, next plugin.Next[*tool.Prepared, tool.Result]) (tool.Result, error) {
	result, err := next(ctx, p)
	if err != nil {
		return result, err
	}
	st := h.of(p.Call.Session)
	for _, text := range st.taken(p.Call.ID) {
		result.Context = append(result.Context, contextFrom(preToolUse, text))
	}
	if p.Refused != nil || neverRan(result) {
		return result, nil
	}
	on := postToolUse
	if result.IsError {
		on = postToolUseFailure
	}
	o := h.about(p.Call, on)
	matching := o.hooks(ctx)
	if len(matching) == 0 {
		return result, nil
	}
	o.asks(p.Call.Agent)
	call := o.add
	o.add = func(style Style, told map[string]any) {
		call(style, told)
		if result.IsError {
			told["error"], told["is_interrupt"] = llm.PlainText(result.Content), result.Error != nil && result.Error.Code == tool.CodeAborted
		} else {
			told["tool_response"] = llm.PlainText(result.Content)
		}
	}
	var all outcome
	replaces := false
	for _, k := range matching {
		said := o.run(ctx, k)
		replaces = replaces || said.decision == deny && k.style == Codex
		all.add(said)
	}
	if all.halt {
		st.end(all.why)
	}
	if all.decision == deny {
		feedback := string(on) + " hook: " + all.reason("blocked by "+string(on)+" hook")
		if replaces {
			result.Content = []llm.Block{llm.Text(feedback)}
		} else {
			result.Content = append(result.Content[:len(result.Content):len(result.Content)], llm.Text("\n"+feedback))
		}
	}
	for _, text := range all.context {
		result.Context = append(result.Context, contextFrom(on, text))
	}
	return result, nil
}

// neverRan reports whether a call was refused or cancelled before its tool began.
func neverRan(r tool.Result) bool {
	return r.Error != nil && (r.Error.Code == tool.CodeDenied || r.Error.Code == tool.CodeNotStarted)
}

// contextFrom is what a hook adds to the conversation.
func contextFrom(on event, text string) llm.Message {
	m := llm.UserText(strings.TrimSpace(text))
	m.Source = llm.Source{Kind: "hook", Name: string(on), Form: "context"}
	return m
}
