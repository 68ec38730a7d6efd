package dsh

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/session"
)

// record sums up what an agent does, from the durable events of its session.
type record struct {
	id      string // of the session
	onEvent func(session.Event)
	price   func(provider, model string) llm.Price

	wanted chan struct{} // somebody waits: see pause

	mu     sync.Mutex
	from   int64 // the first event that is followed
	next   int64 // the event that comes next
	ended  bool  // nothing more comes
	failed error // why not
	waiter *waiter

	messages  int // of the history when the sum began
	sum       Result
	cost      float64
	unpriced  bool // some answer has no known cost
	turnEnded *session.TurnEndData
}

// waiter waits until all events before next were taken, or nothing more comes.
type waiter struct {
	next int64
	done chan struct{}
}

func newRecord(id string, onEvent func(session.Event), price func(provider, model string) llm.Price) *record {
	return &record{id: id, onEvent: onEvent, price: price, wanted: make(chan struct{}, 1)}
}

// begin tells where the session stands before its agent does anything.
func (r *record) begin(s *session.Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.from, r.next, r.messages = s.Next(), s.Next(), s.History().Len()
}

// follow reads the session until it is gone or ctx ends.
func (r *record) follow(ctx context.Context, s *session.Session) {
	var failed error
	for e, err := range s.Follow(ctx, r.from) {
		if err != nil {
			failed = err
			break
		}
		r.add(e)
		if e.Seq+1 == s.Durable() {
			r.pause(ctx)
		}
	}
	r.finish(failed)
}

// pause lets events gather while nobody waits for them: waking up for each would cost a
// step more than the counting does. Who watches them sees no difference.
func (r *record) pause(ctx context.Context) {
	longest := 50 * time.Millisecond
	if r.onEvent != nil {
		longest = 10 * time.Millisecond
	}
	r.mu.Lock()
	awaited := r.waiter != nil
	r.mu.Unlock()
	if awaited {
		return
	}
	timer := time.NewTimer(longest)
	defer timer.Stop()
	select {
	case <-r.wanted:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// finish notes that nothing more comes.
func (r *record) finish(failed error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended, r.failed = true, failed
	r.wakeLocked()
}

// add takes one event.
func (r *record) add(e session.Event) {
	if r.onEvent != nil {
		r.onEvent(e)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next = e.Seq + 1
	switch e.Type {
	case session.StepStart:
		r.sum.Steps++
	case session.AssistantMessage:
		r.countLocked(e.Data)
	case session.TurnEnd:
		end := new(session.TurnEndData)
		if err := json.Unmarshal(e.Data, end); err != nil {
			end.Reason = session.Failed
			end.Error = &session.ErrorData{Code: "storage", Message: fmt.Sprintf("read the end of the turn: %v", err)}
		}
		r.turnEnded = end
	}
	r.wakeLocked()
}

// countLocked counts what an answer used.
func (r *record) countLocked(data json.RawMessage) {
	var a struct {
		Provider string
		Model    string
		Usage    *llm.Usage
	}
	if err := json.Unmarshal(data, &a); err != nil || a.Usage == nil {
		r.unpriced = true // the provider did not tell what it will ask for
		return
	}
	r.sum.Usage = r.sum.Usage.Add(*a.Usage)
	cost, known := r.price(a.Provider, a.Model).Cost(*a.Usage)
	r.cost += cost
	r.unpriced = r.unpriced || !known
}

// deny notes a call that was not allowed to run.
func (r *record) deny(d Denial) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sum.Denied = append(r.sum.Denied, d)
}

func (r *record) wakeLocked() {
	if w := r.waiter; w != nil && (r.ended || r.next >= w.next) {
		close(w.done)
		r.waiter = nil
	}
}

// reach waits until all events before next were taken. One goroutine at a time may wait.
func (r *record) reach(ctx context.Context, next int64) error {
	w := &waiter{next, make(chan struct{})}
	r.mu.Lock()
	r.waiter = w
	r.wakeLocked()
	r.mu.Unlock()
	select {
	case r.wanted <- struct{}{}:
	default: // told already
	}
	select {
	case <-w.done:
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.next < next {
			return r.failed
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the log of session %s: %w", r.id, context.Cause(ctx))
	}
}

// take returns the sum since the last call, and the error of its last turn.
func (r *record) take(history llm.History) (Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	sum, end := r.sum, r.turnEnded
	sum.SessionID, sum.Text = r.id, lastText(history, r.messages)
	if !r.unpriced {
		cost := r.cost
		sum.Cost = &cost
	}
	r.sum, r.cost, r.unpriced, r.turnEnded, r.messages = Result{}, 0, false, nil, history.Len()
	if end == nil {
		return sum, nil
	}
	sum.Reason, sum.Error = end.Reason, end.Error
	if end.Reason == session.Completed {
		return sum, nil
	}
	return sum, &TurnError{*end}
}

// lastText is the last text of the model among the messages beginning with from.
func lastText(h llm.History, from int) string {
	for i := h.Len() - 1; i >= from; i-- {
		m := h.At(i)
		if m.Role != llm.RoleAssistant {
			continue
		}
		if text := llm.PlainText(m.Content); text != "" {
			return text
		}
	}
	return ""
}
