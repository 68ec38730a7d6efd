package loop

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/internal/uuid7"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/session"
)

// ask sends the conversation to the model until it has answered, and logs the
// answer.
func (a *loopAgent) ask(t *turn, at agent.Step) (*agent.Answer, error) {
	for attempt := 1; ; attempt++ {
		header, err := a.header(t.ctx, at)
		if err != nil {
			return nil, err
		}
		req := &llm.Request{Header: header, History: a.session.History(), Session: a.session.ID()}
		draft := &agent.RequestDraft{Step: at, Attempt: attempt, Request: req}
		req, err = agent.Requesting.Run(t.ctx, a.scope, draft, func(_ context.Context, d *agent.RequestDraft) (*llm.Request, error) {
			return d.Request, nil
		})
		if err != nil {
			return nil, err
		}
		if t.ctx.Err() != nil {
			return nil, context.Cause(t.ctx)
		}
		if header, err = a.logHeader(req.Header); err != nil {
			return nil, err
		}
		sent := *req
		sent.Header = header
		assembler := &llm.Assembler{}
		failure, err := a.stream(t.ctx, at, attempt, &sent, assembler)
		if err != nil {
			return nil, err
		}
		if failure == nil {
			return a.logAnswer(t, at, header, assembler)
		}
		retry, err := a.recover(t, at, attempt, &sent, assembler, failure)
		if err != nil || !retry {
			return nil, errors.Join(err, a.keepInterrupted(at, header, assembler), failureUnless(err, failure))
		}
	}
}

// failureUnless returns the failure of a request as the error of its step, unless
// another one explains more.
func failureUnless(other error, failure *llm.Error) error {
	if other != nil {
		return nil
	}
	return failure
}

// stream reads one answer. It returns how the call failed; err is for what
// failed in the harness.
func (a *loopAgent) stream(ctx context.Context, at agent.Step, attempt int, req *llm.Request, assembler *llm.Assembler) (failure *llm.Error, err error) {
	writer := newChunkWriter(a.session, at)
	notice := agent.ChunkNotice{Agent: a, Turn: at.Turn, Step: at.Step, Attempt: attempt}
	for chunk, failed := range a.services.llm.Stream(ctx, a.scope, req) {
		if failed != nil {
			failure = asFailure(failed)
			break
		}
		kept, failed := assembler.Add(chunk)
		if failed != nil {
			failure = asFailure(failed)
			break
		}
		if !kept {
			continue
		}
		writer.add(chunk)
		notice.Chunk = chunk
		a.tell(ctx, agent.StreamChunk.Emit(ctx, a.scope, notice))
	}
	if err := writer.close(); err != nil {
		return nil, err
	}
	if failure == nil && assembler.Finish() != llm.FinishContentFilter && isEmpty(assembler.Blocks()) {
		failure = &llm.Error{
			Code:    llm.CodeEmpty,
			Message: fmt.Sprintf("%s/%s answered with nothing: try again, or choose another model", req.Header.Provider, req.Header.Model),
		}
	}
	return failure, nil
}

// asFailure is the error of a call of a model, whatever it came as.
func asFailure(err error) *llm.Error {
	var failure *llm.Error
	if errors.As(err, &failure) {
		return failure
	}
	return &llm.Error{Code: llm.CodeUnknown, Message: err.Error(), Err: err}
}

// isEmpty reports whether an answer says nothing and asks for nothing.
func isEmpty(content []llm.Block) bool {
	for _, b := range content {
		switch b.Type {
		case llm.BlockToolCall, llm.BlockImage, llm.BlockOpaque:
			return false
		case llm.BlockText:
			if strings.TrimSpace(b.Text) != "" {
				return false
			}
		case llm.BlockReasoning:
		}
	}
	return true
}

// recover asks what follows a failed request.
func (a *loopAgent) recover(t *turn, at agent.Step, attempt int, req *llm.Request, assembler *llm.Assembler, failure *llm.Error) (bool, error) {
	if t.ctx.Err() != nil {
		return false, context.Cause(t.ctx)
	}
	p := &agent.RequestFailure{
		Step: at, Attempt: attempt, Request: req, Err: failure, Streamed: len(assembler.Interrupted()) > 0,
	}
	recovery, err := agent.RequestFailed.Run(t.ctx, a.scope, p, func(context.Context, *agent.RequestFailure) (agent.Recovery, error) {
		return agent.Recovery{}, nil
	})
	if t.ctx.Err() != nil {
		return false, context.Cause(t.ctx)
	}
	return recovery.Retry && err == nil, err
}

// keepInterrupted logs what had been said before the answer broke off.
func (a *loopAgent) keepInterrupted(at agent.Step, header *llm.Header, assembler *llm.Assembler) error {
	content := assembler.Interrupted()
	if len(content) == 0 {
		return nil
	}
	return a.appendAnswer(header, session.AssistantData{
		Turn: at.Turn, Step: at.Step, Message: session.AssistantContent{Content: content}, Usage: assembler.Usage(), Interrupted: true,
	})
}

// logAnswer passes a complete answer through agent/step-result and logs it.
func (a *loopAgent) logAnswer(t *turn, at agent.Step, header *llm.Header, assembler *llm.Assembler) (*agent.Answer, error) {
	answer := &agent.Answer{Step: at, Content: assembler.Blocks(), Usage: assembler.Usage(), Finish: assembler.Finish()}
	answer, err := agent.StepResult.Run(t.ctx, a.scope, answer, func(_ context.Context, r *agent.Answer) (*agent.Answer, error) {
		return r, nil
	})
	if err != nil {
		return nil, errors.Join(err, a.keepInterrupted(at, header, assembler))
	}
	calls := 0
	for i := range answer.Content {
		if b := &answer.Content[i]; b.Type == llm.BlockToolCall {
			b.CallID = fmt.Sprintf("c%d_%d_%d", at.Turn, at.Step, calls)
			calls++
		}
	}
	err = a.appendAnswer(header, session.AssistantData{
		Turn: at.Turn, Step: at.Step, Message: session.AssistantContent{Content: answer.Content}, Usage: answer.Usage, Finish: answer.Finish,
	})
	if err != nil {
		return nil, err
	}
	t.maxTokens = t.maxTokens || answer.Finish == llm.FinishMaxTokens
	return answer, nil
}

func (a *loopAgent) appendAnswer(header *llm.Header, data session.AssistantData) error {
	data.Provider, data.Model = header.Provider, header.Model
	data.Message.ID = uuid7.New()
	_, err := a.session.Append(session.Draft{
		Type: session.AssistantMessage, Data: data, Surface: &session.SurfaceOp{Op: session.OpAppend},
	})
	return err
}
