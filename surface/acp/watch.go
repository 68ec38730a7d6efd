package acp

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/dsh-harness/dsh"
	"github.com/dsh-harness/dsh/internal/jsonrpc"
	"github.com/dsh-harness/dsh/protocol"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/surface/live"
)

func stamp(e session.Event) string { return time.UnixMilli(e.Time).UTC().Format(time.RFC3339) }

// watch begins to tell what happens in a session, behind its answer. The watch holds the session.
func (c *client) watch(m jsonrpc.Incoming) jsonrpc.Reply {
	var p protocol.WatchParams
	if err := m.Decode(&p); err != nil {
		return jsonrpc.Fail(err)
	}
	var begin func()
	return jsonrpc.Later(func(ctx context.Context) (any, error) {
		s, err := c.o.Hub.Open(ctx, p.SessionID, dsh.AgentOptions{})
		if err != nil {
			return nil, explain(err)
		}
		w, err := s.Watch(ctx, live.WatchOptions{From: p.From, Deltas: !p.NoDeltas, Name: c.who()})
		if err != nil {
			s.Release()
			return nil, explain(err)
		}
		life, end := context.WithCancel(c.life)
		t := &teller{client: c, session: s, watch: w, name: c.nextWatch(end)}
		begin = func() {
			if !c.start(func() { t.run(life) }) {
				s.Release()
			}
		}
		status := "idle"
		if s.Status() != "idle" {
			status = "running"
		}
		return protocol.WatchResult{Watch: t.name, From: w.From(), DurableSeq: w.Durable(), Status: status}, nil
	}).Then(func() {
		if begin != nil {
			begin()
		}
	})
}

func (c *client) unwatch(name string) error {
	c.mu.Lock()
	end := c.watches[name]
	delete(c.watches, name)
	c.mu.Unlock()
	if end == nil {
		return invalid("end the watch %q: %v", name, errNoWatch)
	}
	end()
	return nil
}

// teller sends what a watch tells.
type teller struct {
	client  *client
	session *live.Session
	watch   *live.Watch
	name    string
}

func (t *teller) run(ctx context.Context) {
	defer t.session.Release()
	var err error
	for err == nil {
		var item live.Item
		if item, err = t.watch.Next(ctx); err == nil {
			err = t.tell(ctx, item)
		}
	}
	c := t.client
	c.mu.Lock()
	end := c.watches[t.name]
	delete(c.watches, t.name)
	c.mu.Unlock()
	if end == nil || ctx.Err() != nil {
		return // nobody wants to know
	}
	defer end()
	note := protocol.EndedNote{Watch: t.name, Next: t.watch.From(), Reason: "failed", Message: err.Error()}
	if errors.Is(err, live.ErrClosed) {
		note.Reason = "closed"
	}
	if err := c.conn.Notify(ctx, protocol.NoteEnded, note); err != nil {
		c.o.Logger.Debug("tell the end of a watch", "err", err)
	}
}

func (t *teller) tell(ctx context.Context, i live.Item) error {
	c := t.client
	switch {
	case i.Event != nil:
		note := protocol.EventNote{Watch: t.name, Event: protocol.Event{Line: i.Event.Line()}}
		if i.View != nil {
			view, err := json.Marshal(i.View)
			if err != nil {
				return err
			}
			note.View = view
		}
		return c.conn.Notify(ctx, protocol.NoteEvent, note)
	case i.Delta != nil:
		i.Delta.Watch = t.name
		return c.conn.Notify(ctx, protocol.NoteDelta, i.Delta)
	case i.Progress != nil:
		i.Progress.Watch = t.name
		return c.conn.Notify(ctx, protocol.NoteProgress, i.Progress)
	case i.Status != "":
		return c.conn.Notify(ctx, protocol.NoteStatus, protocol.StatusNote{Watch: t.name, Status: i.Status})
	case i.Projected != nil:
		return c.conn.Notify(ctx, protocol.NoteProjected, protocol.ProjectedNote{Watch: t.name, Projected: i.Projected.Projected})
	case i.Asked != nil:
		c.mu.Lock()
		wanted := c.ask.Questions
		c.mu.Unlock()
		if wanted {
			return c.conn.Notify(ctx, protocol.NoteAsked, i.Asked.Question)
		}
	case i.Answered != nil:
		return c.conn.Notify(ctx, protocol.NoteAnswered, i.Answered)
	}
	return nil
}
