package live

import (
	"context"
	"encoding/json"
	"errors"
	"iter"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/protocol"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/session/trajectory"
)

// view opens a session for reading: what is durable of one in memory, what is stored of another.
func (h *Hub) view(ctx context.Context, id string) (session.View, error) {
	if f, ok := h.current(id); ok {
		s := f.agent.Session()
		until := s.Durable()
		return session.NewView(s.Header(), s.Dir(), func(ctx context.Context, from int64) iter.Seq2[session.Event, error] {
			return func(yield func(session.Event, error) bool) {
				for e, err := range s.Events(ctx, from) {
					if (err == nil && e.Seq >= until) || !yield(e, err) {
						return
					}
				}
			}
		}), nil
	}
	kept, err := h.kept()
	if err != nil {
		return session.View{}, err
	}
	return kept.Load(ctx, id)
}

// Trajectory tells what happened in a session when.
func (h *Hub) Trajectory(ctx context.Context, id string) (protocol.TrajectoryResult, error) {
	v, err := h.view(ctx, id)
	if err != nil {
		return protocol.TrajectoryResult{}, err
	}
	t, err := trajectory.Of(ctx, v)
	if err != nil {
		return protocol.TrajectoryResult{}, err
	}
	raw, err := json.Marshal(t)
	return protocol.TrajectoryResult{Trajectory: raw}, err
}

// Request returns the bytes of a request that was sent to the model.
func (h *Hub) Request(ctx context.Context, p protocol.RequestBytesParams) (protocol.RequestBytesResult, error) {
	v, err := h.view(ctx, p.SessionID)
	if err != nil {
		return protocol.RequestBytesResult{}, err
	}
	r, err := trajectory.Request(ctx, v, p.Turn, p.Step, p.Attempt)
	if errors.Is(err, trajectory.ErrNoRequest) {
		return protocol.RequestBytesResult{}, &UnknownError{What: "request", Name: err.Error()}
	}
	if err != nil {
		return protocol.RequestBytesResult{}, err
	}
	body, exact, err := trajectory.Body(r, func(provider string) (llm.Provider, bool) { return llm.Providers.Get(h.scope, provider) })
	return protocol.RequestBytesResult{Body: string(body), Exact: exact}, err
}
