package loop_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/llm"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// op is one command of a random schedule.
type op int

const (
	opEnqueue op = iota
	opSteer
	opInject
	opAnswer // the request that hangs gets its answer
	opAbort
	opCancel
	opCancelKeep
	opDispose // and resume
	opCrash   // and resume from what was on disk
	opCount
)

func (o op) String() string {
	return [...]string{"enqueue", "steer", "inject", "answer", "abort", "cancel", "cancel-keep", "dispose", "crash"}[o]
}

// simple is the model of an agent: what is consumed by which turn and how turns
// end, without goroutines, logs or locks.
type simple struct {
	queued, steering []delivery
	parked           bool
	hanging          bool // a request is under way
	turn             int
	seen             []string
}

type delivery struct {
	text  string
	quiet bool
	steer bool // it was sent as steering, whatever became of it
	n     int  // the order of sending
}

func (m *simple) wakes() bool {
	return len(m.queued) > 0 || slices.ContainsFunc(m.steering, func(d delivery) bool { return !d.quiet })
}

func (m *simple) see(format string, args ...any) {
	m.seen = append(m.seen, fmt.Sprintf(format, args...))
}

// settle starts a turn when there is reason to.
func (m *simple) settle() {
	if m.hanging || m.parked || !m.wakes() {
		return
	}
	m.turn++
	m.hanging = true
	m.see("turn/start %d", m.turn)
	for _, d := range m.queued {
		m.see("user/message %s", d.text)
	}
	m.queued = nil
	m.takeSteering()
}

func (m *simple) takeSteering() (loud bool) {
	for _, d := range m.steering {
		m.see("steering/message %s", d.text)
		loud = loud || !d.quiet
	}
	m.steering = nil
	return loud
}

func (m *simple) end(reason string) {
	m.hanging = false
	m.see("turn/end %d %s", m.turn, reason)
	var quiet, loud []delivery
	for _, d := range m.steering {
		if d.quiet {
			quiet = append(quiet, d)
		} else {
			loud = append(loud, d)
		}
	}
	m.steering, m.queued = quiet, append(loud, m.queued...)
}

func (m *simple) apply(o op, n int) {
	text := fmt.Sprint("m", n)
	switch o {
	case opEnqueue:
		m.queued, m.parked = append(m.queued, delivery{text, false, false, n}), false
	case opSteer:
		m.steering, m.parked = append(m.steering, delivery{text, false, true, n}), false
	case opInject:
		m.steering = append(m.steering, delivery{text, true, true, n})
	case opAnswer:
		if m.hanging && !m.takeSteering() {
			m.end("completed")
		}
	case opAbort:
		if m.hanging {
			m.end("aborted user")
		}
	case opCancel:
		m.queued, m.steering = nil, nil
		if m.hanging {
			m.end("aborted user")
		}
	case opCancelKeep:
		m.parked = m.parked || m.wakes()
		if m.hanging {
			m.end("aborted user")
		}
	case opDispose, opCrash:
		if m.hanging {
			m.hanging = false
			m.see("turn/end %d %s", m.turn, map[op]string{opDispose: "disposed", opCrash: "interrupted"}[o])
		}
		// What waits is as in the log, where leftover steering is still steering.
		var queued, steering []delivery
		for _, d := range append(slices.Clone(m.queued), m.steering...) {
			if d.steer {
				steering = append(steering, d)
			} else {
				queued = append(queued, d)
			}
		}
		inOrder := func(a, b delivery) int { return a.n - b.n }
		slices.SortFunc(queued, inOrder)
		slices.SortFunc(steering, inOrder)
		m.queued, m.steering = queued, steering
		m.parked = false
	case opCount:
	}
	m.settle()
}

// TestModel_AgentAgainstASimpleOne runs random schedules against the real agent on a
// real log, and compares what it did with what the simple model says.
func TestModel_AgentAgainstASimpleOne(t *testing.T) {
	dirs := t.TempDir()
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		ops := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) op {
			return op(rapid.IntRange(0, int(opCount)-1).Draw(rt, "op"))
		}), 1, 25).Draw(rt, "ops")
		runs++
		var got, want []string
		synctest.Test(t, func(t *testing.T) { got, want = runSchedule(t, filepath.Join(dirs, fmt.Sprint(runs)), ops) })
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatalf("after %v the log differs (-model +agent):\n%s", ops, diff)
		}
	})
}

// runSchedule returns what the agent and the model say.
func runSchedule(t *testing.T, dir string, ops []op) (got, want []string) {
	life := 0
	open := func() (*world, agent.Handle, *switchboard) {
		w := buildWorld(t, keeps(filepath.Join(dir, fmt.Sprint(life))))
		board := &switchboard{release: make(chan struct{})}
		w.model.script(slices.Repeat([]answer{board.answer}, 100)...)
		return w, nil, board
	}
	w, _, board := open()
	worlds := []*world{w}
	handle, a := w.create(agent.Options{})
	m := &simple{}
	for n, o := range ops {
		text := llm.UserText(fmt.Sprint("m", n))
		switch o {
		case opEnqueue:
			check(t, a.Enqueue(t.Context(), text))
		case opSteer:
			check(t, a.Steer(t.Context(), text))
		case opInject:
			check(t, a.Inject(t.Context(), text))
		case opAnswer:
			board.next()
		case opAbort:
			a.Abort(agent.CauseUser)
		case opCancel:
			a.Cancel(agent.CauseUser)
		case opCancelKeep:
			a.Cancel(agent.CauseUser, agent.KeepInbox)
		case opDispose, opCrash:
			if a.Session().Next() == 0 { // nothing was ever stored
				continue
			}
			old := filepath.Join(dir, fmt.Sprint(life))
			life++
			if o == opDispose {
				check(t, handle.Dispose(t.Context()))
			}
			check(t, a.Session().Flush(t.Context()))
			check(t, os.CopyFS(filepath.Join(dir, fmt.Sprint(life)), os.DirFS(old)))
			w, _, board = open()
			worlds = append(worlds, w)
			handle, a = w.resume(agent.Options{})
		case opCount:
		}
		m.apply(o, n)
		synctest.Wait()
	}
	got = only(trace(t, a.Session()), "turn/", "user/", "steering/")
	for _, p := range a.Pending() {
		got = append(got, "waits "+llm.PlainText(p.Message.Content))
	}
	got = append(got, "status "+string(a.Status()))
	want = m.seen
	for _, d := range append(slices.Clone(m.steering), m.queued...) {
		want = append(want, "waits "+d.text)
	}
	status := agent.Idle
	if m.hanging {
		status = agent.Running
	}
	want = append(want, "status "+string(status))
	for _, w := range worlds {
		check(t, w.tree.Close(context.Background()))
	}
	return slices.DeleteFunc(got, func(s string) bool { return strings.HasPrefix(s, "request/") }), want
}

// switchboard answers one request at a time, when it is told to.
type switchboard struct{ release chan struct{} }

func (b *switchboard) answer(ctx context.Context, req *llm.Request, yield func(llm.Chunk, error) bool) {
	select {
	case <-b.release:
		says("ok")(ctx, req, yield)
	case <-ctx.Done():
		yield(llm.Chunk{}, &llm.Error{Code: llm.CodeAborted, Message: "cancelled", Err: context.Cause(ctx)})
	}
}

// next answers the request that hangs, if there is one.
func (b *switchboard) next() {
	select {
	case b.release <- struct{}{}:
	default:
	}
}
