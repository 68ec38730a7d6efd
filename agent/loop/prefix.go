package loop

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/prompt"
	"github.com/dsh-harness/dsh/session"
)

// prefix keeps what stands before the messages of a session's requests: system
// text and tools are fixed at the first request, so that the provider's cache holds.
// Later changes of a section are told in a message; new tools join at the end, at the
// next turn.
type prefix struct {
	turn  int       // whose first step has looked for new tools
	model llm.Model // that the selection resolved to
	ref   string    // the selection
}

// header returns the header of the next request. It logs nothing but the
// messages that tell what changed.
func (a *loopAgent) header(ctx context.Context, at agent.Step) (*llm.Header, error) {
	model, params, err := a.resolve()
	if err != nil {
		return nil, err
	}
	assembled, err := a.services.prompt.Assemble(ctx, a.scope, prompt.Input{
		Agent: a.id, Session: a.session, Workspace: a.workspace, Model: model,
		Override: a.options.SystemPrompt, Append: a.options.SystemAppend,
	})
	if err != nil {
		return nil, fmt.Errorf("assemble the system prompt: %w", err)
	}
	now := a.session.RequestHeader()
	if now == nil || now.Provider != model.Provider || now.Model != model.ID {
		a.prefix.turn = at.Turn
		header := &llm.Header{
			Provider: model.Provider, Model: model.ID, Params: params,
			System: assembled.Text(), Tools: a.services.tools.Schemas(a.scope),
		}
		return header, a.tellChanges(header.System, assembled)
	}
	if err := a.tellChanges(now.System, assembled); err != nil {
		return nil, err
	}
	tools := now.Tools
	if a.prefix.turn != at.Turn {
		a.prefix.turn = at.Turn
		tools = withNewTools(tools, a.services.tools.Schemas(a.scope))
	}
	if sameParams(now.Params, params) && len(tools) == len(now.Tools) {
		return now, nil
	}
	return &llm.Header{Provider: now.Provider, Model: now.Model, Params: params, System: now.System, Tools: tools}, nil
}

// resolve returns the model and parameters of the next request: what was
// selected, otherwise what the session used last, otherwise the default.
func (a *loopAgent) resolve() (llm.Model, llm.Params, error) {
	selection := a.Selection()
	last := a.session.RequestHeader()
	params := a.options.Params
	ref := selection.Model
	if ref == "" && last != nil {
		ref = last.Provider + "/" + last.Model
	}
	if ref != a.prefix.ref || a.prefix.model.ID == "" {
		model, err := a.services.llm.Resolve(a.scope, ref)
		if err != nil {
			return llm.Model{}, llm.Params{}, err
		}
		a.prefix.ref, a.prefix.model = ref, model
	}
	model := a.prefix.model
	if selection.Effort != "" {
		params.Effort = selection.Effort
	}
	if params.Effort == "" && last != nil && last.Provider == model.Provider && last.Model == model.ID {
		params.Effort = last.Params.Effort
	}
	return model, params, nil
}

// sectionForm marks the messages that tell a section which changed; their source is
// named like the section.
const sectionForm = "section"

const sectionChanged = "Part of your instructions has changed. From now on this holds:\n\n"

// tellChanges appends a message for each section that is not what the model knows of
// it: what it was told last, otherwise what the system text says.
func (a *loopAgent) tellChanges(system string, assembled prompt.Prompt) error {
	known := toldIn(a.session.History())
	for _, part := range assembled.Parts {
		told, ok := known[part.Name]
		if ok && told == part.Text || !ok && strings.Contains(system, part.Text) {
			continue
		}
		_, err := a.session.Append(contextDraft(llm.Message{
			Role: llm.RoleUser, Content: []llm.Block{llm.Text(sectionChanged + part.Text)},
			Source: llm.Source{Kind: "plugin", Name: part.Name, Form: sectionForm},
		}))
		if err != nil {
			return err
		}
	}
	return nil
}

// told is what the messages of a conversation told last of each section. It grows with the
// conversation, and begins anew when that is cut or rewritten.
type told struct {
	mu       sync.Mutex
	read     int // of how many messages
	sections map[string]string
}

type toldKey struct{}

// toldIn reads it from the messages that came since it was last asked for.
func toldIn(h llm.History) map[string]string {
	t := h.Memo(toldKey{}, func() any { return &told{} }).(*told)
	t.mu.Lock()
	defer t.mu.Unlock()
	for ; t.read < h.Len(); t.read++ {
		m := h.At(t.read)
		if m.Source.Form != sectionForm {
			continue
		}
		next := map[string]string{}
		maps.Copy(next, t.sections) // who has asked before keeps theirs
		next[m.Source.Name] = strings.TrimPrefix(llm.PlainText(m.Content), sectionChanged)
		t.sections = next
	}
	return t.sections
}

// withNewTools adds the tools that were not there before. One that was removed stays
// listed, and answers with an error.
func withNewTools(fixed, now []llm.ToolSchema) []llm.ToolSchema {
	all := fixed
	for _, t := range now {
		if !slices.ContainsFunc(fixed, func(f llm.ToolSchema) bool { return f.Name == t.Name }) {
			all = append(all[:len(all):len(all)], t)
		}
	}
	return all
}

func sameParams(a, b llm.Params) bool {
	return a.Effort == b.Effort && a.MaxTokens == b.MaxTokens && slices.Equal(a.Stop, b.Stop) &&
		(a.Temperature == nil) == (b.Temperature == nil) && (a.Temperature == nil || *a.Temperature == *b.Temperature)
}

func sameHeader(a, b *llm.Header) bool {
	return a == b || a != nil && b != nil &&
		a.Provider == b.Provider && a.Model == b.Model && a.System == b.System && sameParams(a.Params, b.Params) &&
		slices.EqualFunc(a.Tools, b.Tools, func(x, y llm.ToolSchema) bool {
			return x.Name == y.Name && x.Description == y.Description && string(x.Parameters) == string(y.Parameters)
		})
}

// logHeader writes the header of a request when it is not the one in force.
func (a *loopAgent) logHeader(h *llm.Header) (*llm.Header, error) {
	now := a.session.RequestHeader()
	if sameHeader(now, h) {
		return now, nil
	}
	drafts := []session.Draft{{Type: session.RequestHeader, Data: h}}
	if now == nil || now.Provider != h.Provider || now.Model != h.Model {
		data := session.RequestContextData{Provider: h.Provider, Model: h.Model}
		if m := a.prefix.model; m.Provider == h.Provider && m.ID == h.Model {
			data.Window = m.Window
		}
		drafts = append(drafts, session.Draft{Type: session.RequestContext, Data: data})
	}
	if _, err := a.session.Append(drafts...); err != nil {
		return nil, err
	}
	return a.session.RequestHeader(), nil
}
