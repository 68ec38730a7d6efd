package live

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dsh-harness/dsh"
	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/plugin"
)

// entry is what the hub knows of a session, in memory or parked.
type entry struct {
	hub *Hub
	id  string
	// token is held by who starts or ends the agent.
	token chan struct{}

	// o is how the agent is started again, known whether it ever was. Both stand under the token.
	o     dsh.AgentOptions
	known bool

	mu      sync.Mutex
	holders int
	feed    *feed // of the agent; nil while there is none
	timer   *time.Timer
}

func (e *entry) lock(ctx context.Context) error {
	select {
	case e.token <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for session %s: %w", e.id, context.Cause(ctx))
	}
}

func (e *entry) unlock() { <-e.token }

// now returns the feed of the agent, nil when there is no agent.
func (e *entry) now() *feed {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.feed
}

// live reports whether there is an agent that works. A reload may have disposed of it.
func (e *entry) live() bool {
	f := e.now()
	return f != nil && f.agent.Status() != agent.Disposed
}

// wakeLocked starts the agent again; the token is held.
func (e *entry) wakeLocked(ctx context.Context) error {
	if err := e.endLocked(context.WithoutCancel(ctx)); err != nil {
		e.hub.o.Logger.Warn("end what is left of an agent", "session", e.id, "err", err)
	}
	a, err := e.hub.o.Harness.Open(ctx, e.o)
	if err != nil {
		return err
	}
	if err := e.startLocked(a, e.o); err != nil {
		return errors.Join(err, a.Close(context.WithoutCancel(ctx)))
	}
	return nil
}

// startLocked makes a the agent of the session; the token is held.
func (e *entry) startLocked(a *dsh.Agent, o dsh.AgentOptions) error {
	h := e.hub
	f := newFeed(e, a, o.Ephemeral)
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return fmt.Errorf("open session %s: this program is ending: %w", e.id, ErrClosed)
	}
	h.feeds[e.id] = f
	h.live.Store(int64(len(h.feeds)))
	h.mu.Unlock()
	o.Resume, o.SessionID = e.id, ""
	e.o, e.known = o, true
	e.mu.Lock()
	e.feed = f
	e.mu.Unlock()
	f.setStatus(a.Status()) // what it became before anybody listened
	return h.scope.Go("watch session "+e.id, func(ctx context.Context) error {
		f.follow(ctx)
		return nil
	})
}

// endLocked ends the agent, if there is one, and keeps what was chosen for the next; the token is held.
func (e *entry) endLocked(ctx context.Context) error {
	e.mu.Lock()
	f := e.feed
	e.feed = nil
	e.mu.Unlock()
	if f == nil {
		return nil
	}
	chosen := f.agent.Selection()
	e.o.Model, e.o.Effort = chosen.Model, chosen.Effort
	if s := f.agent.Session(); s.Next() == 0 {
		// Nothing of it is stored, so it begins anew, under its name and in its folder.
		e.o.Resume, e.o.SessionID, e.o.Dir = "", e.id, s.Header().Cwd
	}
	err := f.agent.Close(ctx)
	h := e.hub
	h.mu.Lock()
	if h.feeds[e.id] == f {
		delete(h.feeds, e.id)
		h.live.Store(int64(len(h.feeds)))
	}
	h.mu.Unlock()
	f.end(nil)
	return err
}

// release gives one reference back.
func (e *entry) release() {
	e.mu.Lock()
	e.holders--
	f := e.feed
	e.mu.Unlock()
	if f != nil {
		f.nudge() // a question waits no longer for nobody
	}
	e.rest()
}

// rest has the session parked after a while, if nobody needs it then.
func (e *entry) rest() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.holders > 0 {
		return
	}
	wait := e.hub.o.Park
	if e.hub.crowded() {
		wait /= 100
	}
	if e.timer == nil {
		e.timer = time.AfterFunc(wait, e.park)
	} else {
		e.timer.Reset(wait)
	}
}

// park ends the agent unless somebody holds the session, or it has something to do: then it comes again when that has ended.
func (e *entry) park() {
	select {
	case e.token <- struct{}{}:
		defer e.unlock()
	default:
		e.rest() // somebody is just waking it, or ending it
		return
	}
	h := e.hub
	// Who looks the session up takes the hub's lock first: so nobody comes to hold it in between.
	h.mu.Lock()
	e.mu.Lock()
	f, held := e.feed, e.holders > 0
	e.mu.Unlock()
	if held {
		h.mu.Unlock()
		return
	}
	if f == nil {
		if !e.known {
			delete(h.entries, e.id)
		}
		h.mu.Unlock()
		return
	}
	h.mu.Unlock()
	if f.busy() {
		return // it rests once the turn has ended: see the listener of the status
	}
	ctx, cancel := context.WithTimeout(context.Background(), plugin.CleanupTimeout)
	defer cancel()
	if err := e.endLocked(ctx); err != nil {
		h.o.Logger.Warn("park a session", "session", e.id, "err", err)
	}
	if e.o.Ephemeral {
		h.mu.Lock()
		delete(h.entries, e.id) // nothing is left that could go on
		h.mu.Unlock()
	}
}

// close ends the agent for good.
func (e *entry) close(ctx context.Context) error {
	if err := e.lock(ctx); err != nil {
		return err
	}
	defer e.unlock()
	e.mu.Lock()
	if e.timer != nil {
		e.timer.Stop()
	}
	e.mu.Unlock()
	return e.endLocked(ctx)
}
