package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/protocol"
)

// Question is a call that somebody has to allow.
type Question struct {
	protocol.Question
	Request policy.Request
}

// question is a [Question] that stands.
type question struct {
	Question
	at       int64              // a watch asks it behind the events before this one
	reply    chan policy.Answer // takes one
	by       string             // who answered; counts once answered is set
	answered bool
	fits     func(policy.Answer) error
}

// answerer puts questions to whoever watches the session.
type answerer struct{ hub *Hub }

// Answer implements [policy.Answerer].
func (a answerer) Answer(ctx context.Context, r policy.Request) (policy.Answer, error) {
	if r.Call.Session == nil {
		return policy.Answer{}, errors.New("the call belongs to no session that a client could watch")
	}
	f, ok := a.hub.current(r.Call.Session.ID())
	if !ok {
		return policy.Answer{}, errors.New("no client has opened the session")
	}
	q := &question{Question: f.question(r), reply: make(chan policy.Answer, 1), fits: policy.Fitting(f.scope(), &r)}
	f.mu.Lock()
	q.at = f.agent.Session().Next()
	f.questions = append(f.questions, q)
	f.tellLocked()
	f.mu.Unlock()
	answer, err := f.await(ctx, q)
	note := protocol.AnsweredNote{SessionID: q.SessionID, ID: q.ID, By: answer.By, Outcome: string(policy.Rejected)}
	by := (*policy.AnsweredError)(nil)
	switch {
	case err == nil && answer.Allow:
		note.Outcome = string(policy.Allowed)
	case errors.As(context.Cause(ctx), &by):
		note.Outcome, note.By = string(policy.Withdrawn), by.By
	case ctx.Err() != nil:
		note.Outcome = string(policy.Withdrawn)
	case err != nil:
		note.Outcome = string(policy.Unavailable)
	}
	f.settle(q, note)
	return answer, err
}

// await waits for an answer: as long as somebody holds the session, and for a while when nobody does.
func (f *feed) await(ctx context.Context, q *question) (policy.Answer, error) {
	var alone *time.Timer
	var expired <-chan time.Time
	defer func() {
		if alone != nil {
			alone.Stop()
		}
	}()
	for {
		f.mu.Lock()
		changed := f.waitLocked()
		f.mu.Unlock()
		switch held, patience := f.entry.held(), f.entry.hub.o.Wait; {
		case held && alone != nil:
			alone.Stop()
			alone, expired = nil, nil
		case !held && patience <= 0:
			return policy.Answer{}, errors.New("no client has the session open")
		case !held && alone == nil:
			alone = time.NewTimer(patience)
			expired = alone.C
		}
		select {
		case answer := <-q.reply:
			return answer, nil
		case <-ctx.Done():
			return policy.Answer{}, context.Cause(ctx)
		case <-expired:
			return policy.Answer{}, fmt.Errorf("no client has opened the session for %v", f.entry.hub.o.Wait)
		case <-changed:
		}
	}
}

// settle ends a question, and has the watches told.
func (f *feed) settle(q *question, note protocol.AnsweredNote) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.questions = slices.DeleteFunc(f.questions, func(other *question) bool { return other == q })
	f.answered = append(f.answered, settled{note, f.agent.Session().Next()})
	if over := len(f.answered) - maxAnswered; over > 0 {
		f.answered = slices.Clone(f.answered[over:])
		f.answers += over
	}
	f.tellLocked()
}

// question describes a request for surfaces.
func (f *feed) question(r policy.Request) Question {
	q := protocol.Question{
		SessionID: r.Call.Session.ID(), ID: r.ID, CallID: r.Call.ID, Tool: r.Call.Name, Arguments: r.Call.Arguments,
		Reason: r.Reason, By: r.By, Rules: r.Rules,
	}
	if view, err := json.Marshal(present(f, r.Call.Name, string(r.Call.Arguments))); err == nil {
		q.View = view
	}
	for _, a := range r.Accesses {
		q.Accesses = append(q.Accesses, protocol.Touch{Kind: string(a.Kind), Target: a.Target})
	}
	for _, refused := range r.Refused {
		q.Refused = append(q.Refused, protocol.Refused{Kind: string(refused.Kind), Target: refused.Target})
	}
	return Question{q, r}
}

// ErrAnswer is in the chain of the error of an answer that does not fit its question, which then stands on.
var ErrAnswer = errors.New("the answer does not fit the question")

// Answer answers a question of this session. by names the client for the others. The first answer counts: for a later one Accepted is
// false and By says who was first. An answer that does not fit is an [ErrAnswer].
func (s *Session) Answer(by string, p protocol.AnswerParams) (protocol.AnswerResult, error) {
	f := s.e.now()
	if f == nil {
		return protocol.AnswerResult{}, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.questions, func(q *question) bool { return q.ID == p.ID })
	if i < 0 {
		for _, a := range f.answered {
			if a.note.ID == p.ID {
				return protocol.AnswerResult{By: a.note.By}, nil
			}
		}
		return protocol.AnswerResult{}, nil
	}
	q := f.questions[i]
	if q.answered {
		return protocol.AnswerResult{By: q.by}, nil
	}
	answer := policy.Answer{Allow: p.Allow, Reason: p.Reason, By: by, Remember: policy.Scope(p.Remember), Rule: p.Rule, Arguments: p.Arguments}
	if len(p.Arguments) == 0 {
		answer.Arguments = nil
	}
	if err := q.fits(answer); err != nil { // it can still be mended
		return protocol.AnswerResult{}, fmt.Errorf("answer question %s: %w: %w", p.ID, ErrAnswer, err)
	}
	q.answered, q.by = true, by
	q.reply <- answer
	return protocol.AnswerResult{Accepted: true}, nil
}
