package acp

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/dsh-harness/dsh/internal/jsonrpc"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/protocol"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/surface/live"
)

// prompt is a session/prompt that is not answered yet. All stands under the mutex of its [held].
type prompt struct {
	id        string // of the message
	delivery  string // in the inbox, once its event came
	turn      int    // that took it, 0 before
	cancelled bool
	done      chan ended // takes one
	over      bool
}

// ended is what became of a prompt.
type ended struct {
	result protocol.PromptResult
	err    error
}

// prompt takes a prompt. It is known from here on, so that a cancellation that is read next finds it; it is delivered and waited for later.
// Prompts that come while a turn runs are queued, and each is answered at the end of its own turn.
func (c *client) prompt(m jsonrpc.Incoming) jsonrpc.Reply {
	var params protocol.PromptParams
	if err := m.Decode(&params); err != nil {
		return jsonrpc.Fail(err)
	}
	content, err := blocks(params.Prompt)
	if err != nil {
		return jsonrpc.Fail(err)
	}
	h, err := c.find(params.SessionID)
	if err != nil {
		return jsonrpc.Fail(err)
	}
	p := &prompt{id: live.NewMessageID(), done: make(chan ended, 1)}
	delivered := make(chan struct{})
	h.mu.Lock()
	before := h.last
	h.last = delivered
	h.prompts = append(h.prompts, p)
	h.mu.Unlock()
	return jsonrpc.Later(func(ctx context.Context) (any, error) {
		h.deliver(ctx, p, content, before)
		close(delivered)
		select {
		case e := <-p.done:
			return e.result, e.err
		case <-ctx.Done():
		}
		// The client took the request back, or is gone.
		if errors.Is(context.Cause(ctx), jsonrpc.ErrCancelled) {
			h.session.Cancel(false)
		}
		return nil, context.Cause(ctx)
	})
}

// deliver delivers a prompt behind the one before it, unless it is cancelled by then.
func (h *held) deliver(ctx context.Context, p *prompt, content []llm.Block, before <-chan struct{}) {
	if before != nil {
		select {
		case <-before:
		case <-ctx.Done():
			return
		}
	}
	h.mu.Lock()
	cancelled := p.cancelled
	if cancelled {
		h.settleLocked(p, protocol.PromptResult{StopReason: protocol.StopCancelled}, nil)
	}
	h.mu.Unlock()
	if cancelled {
		return
	}
	err := h.session.Deliver(ctx, p.id, content, false)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case p.cancelled: // meanwhile: the cancellation may have found nothing yet
		h.session.Cancel(false)
		if err != nil {
			h.settleLocked(p, protocol.PromptResult{StopReason: protocol.StopCancelled}, nil)
		}
	case err != nil:
		h.settleLocked(p, protocol.PromptResult{}, explain(err))
	}
}

// cancel ends what a session does. Every prompt of the client that is not answered is answered as cancelled, at the end of its turn.
func (c *client) cancel(id string) {
	h, err := c.find(id)
	if err != nil {
		return // a notification gets no answer
	}
	h.mu.Lock()
	for _, p := range h.prompts {
		p.cancelled = true
	}
	h.mu.Unlock()
	h.session.Cancel(false)
}

// settleLocked answers a prompt, once.
func (h *held) settleLocked(p *prompt, r protocol.PromptResult, err error) {
	if p.over {
		return
	}
	p.over = true
	p.done <- ended{r, err}
	h.prompts = slices.DeleteFunc(h.prompts, func(other *prompt) bool { return other == p })
}

func (h *held) settleAll(r protocol.PromptResult, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range slices.Clone(h.prompts) {
		h.settleLocked(p, r, err)
	}
}

// queued notes under which name a prompt waits in the inbox.
func (h *held) queued(d session.InboxData) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.prompts {
		if p.id == d.Message.ID {
			p.delivery = d.ID
		}
	}
}

// own reports whether a message is a prompt of this client, and notes the turn that took it.
func (h *held) own(d session.InputData, turn int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.prompts {
		if p.id == d.ID {
			p.turn = turn
			return true
		}
	}
	return false
}

// cleared is told of input that will never run. Within a turn its end says why.
func (h *held) cleared(ids []string, turn int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range slices.Clone(h.prompts) {
		switch {
		case !slices.Contains(ids, p.delivery):
		case turn > 0:
			p.turn = turn
		default:
			h.settleLocked(p, protocol.PromptResult{StopReason: protocol.StopCancelled}, nil)
		}
	}
}

// turnEnded answers the prompts of a turn.
func (h *held) turnEnded(d session.TurnEndData) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range slices.Clone(h.prompts) {
		if p.turn != d.Turn {
			continue
		}
		r, err := stop(d)
		if p.cancelled {
			// The protocol wants this whatever the turn made of the cancellation.
			r, err = protocol.PromptResult{StopReason: protocol.StopCancelled}, nil
		}
		h.settleLocked(p, r, err)
	}
}

// stop says how the end of a turn is told.
func stop(d session.TurnEndData) (protocol.PromptResult, error) {
	result := func(r protocol.StopReason) (protocol.PromptResult, error) {
		return protocol.PromptResult{StopReason: r}, nil
	}
	switch d.Reason {
	case session.Completed:
		return result(protocol.StopEndTurn)
	case session.MaxTokens:
		return result(protocol.StopMaxTokens)
	case session.Budget:
		return result(protocol.StopMaxTurnRequests)
	case session.Aborted, session.Interrupted, session.Disposed:
		return result(protocol.StopCancelled)
	case session.Blocked:
		return result(protocol.StopRefusal)
	case session.Failed:
	}
	message, code := "the turn failed", "failed"
	if d.Error != nil {
		message, code = d.Error.Message, d.Error.Code
	}
	if code == "refusal" {
		return result(protocol.StopRefusal)
	}
	return protocol.PromptResult{}, jsonrpc.NewError(jsonrpc.CodeInternal, protocol.Problem{Code: code}, "%s", fmt.Sprintf("turn %d: %s", d.Turn, message))
}
