package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// A node has one transition goroutine at a time, which takes steps until the node is
// where it should be. What it should be is worked out afresh before each step from
// what is mounted and provided then, so nobody needs to plan ahead.

// update is a new config: what to start from now on, and what to hand to the
// life that runs, if that can take it.
type update struct {
	start  StartFunc
	config any
}

// reconfigureLocked gives the node a new config. A life that registered
// [OnReconfigure] takes it while it runs, any other ends. The caller reconciles
// n, after all that change together have been told.
func (n *Node) reconfigureLocked(u update) {
	n.tree.forgiveLocked(n)
	if n.life != nil && n.life.reconfigure != nil {
		n.update = &u
		return
	}
	n.start, n.restart, n.update = u.start, n.life != nil, nil
	n.retryLocked()
}

// A node that fails is tried again when what it needs changes. Two that fail may change
// that for each other, so after failureLimit failures, none of which comes after a life of
// steadyLife, a node is not tried again by itself.
const (
	failureLimit = 5
	steadyLife   = time.Minute
)

// retryLocked lets a failed node start again, because somebody asked for it.
func (n *Node) retryLocked() {
	n.failures = 0
	if n.state == Failed {
		n.becomeLocked(Pending, nil)
	}
}

// reconcileLocked starts the node's transition when what it has is not what it
// should have. A start in progress that must end is cancelled at once.
func (n *Node) reconcileLocked() {
	deps, ok := n.resolveLocked()
	stale := n.staleLocked(deps, ok)
	if stale {
		n.life.cancel(n.whyStaleLocked())
	}
	fresh := n.freshLocked(deps, ok)
	if n.busyLocked() || !(stale || fresh || n.removableLocked() || n.update != nil) {
		return
	}
	if fresh && n.holdBackLocked(deps) {
		return
	}
	n.tree.busy.add(n)
	n.batch.beginLocked()
	n.tree.spawn(n.transition)
}

// resolveLocked returns what the node's next life would be given, in the order
// of its needs, and whether that is enough to live.
func (n *Node) resolveLocked() ([]*provider, bool) {
	if n.closed {
		return nil, false
	}
	deps := make([]*provider, len(n.needs))
	for i, need := range n.needs {
		if need.bond == optional {
			continue // looked up when it is used
		}
		deps[i] = n.tree.findLocked(n, need.key)
		if deps[i] == nil && need.bond == required {
			return nil, false
		}
	}
	return deps, true
}

// staleLocked reports whether the current life must end. One that was cancelled must,
// even if the reason has gone since.
func (n *Node) staleLocked(deps []*provider, ok bool) bool {
	return n.life != nil && (!ok || n.restart || n.life.ctx.Err() != nil || !slices.Equal(n.life.deps, deps))
}

func (n *Node) whyStaleLocked() error {
	switch {
	case n.closed:
		return errStopping
	case n.life.fault != nil:
		return n.life.fault
	case n.restart:
		return errRestarting
	default:
		return errNeedsChanged
	}
}

func (n *Node) freshLocked(deps []*provider, ok bool) bool {
	return n.life == nil && ok && (n.state != Failed || n.retriableLocked() && !slices.Equal(n.failedWith, deps))
}

// retriableLocked reports whether a failed node is tried again when its needs change.
func (n *Node) retriableLocked() bool { return n.cycle == nil && n.failures < failureLimit }

func (n *Node) removableLocked() bool { return n.closed && n.life == nil && n.state != Closed }

// transition moves the node until it is where it should be.
func (n *Node) transition() {
	t := n.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	for n.stepLocked() {
	}
	t.busy.remove(n)
	n.changedLocked()
	n.batch.endLocked()
}

// stepLocked takes one step and reports false when there is none to take. It
// releases tree.mu while plugin code runs.
func (n *Node) stepLocked() bool {
	deps, ok := n.resolveLocked()
	n.detectCycleLocked(deps)
	switch {
	case n.staleLocked(deps, ok):
		n.stopLocked()
	case n.update != nil:
		n.updateLocked()
	case n.removableLocked():
		n.removeLocked()
	case n.freshLocked(deps, ok):
		n.startLocked(deps)
	default:
		return false
	}
	return true
}

func (n *Node) startLocked(deps []*provider) {
	t, life, start := n.tree, newScope(n, deps), n.start
	for _, p := range deps {
		if p != nil {
			p.users.add(n)
		}
	}
	n.life, n.restart, n.patient = life, false, false
	n.becomeLocked(Starting, nil)
	t.mu.Unlock()
	overdue := &overdueError{what: "start", limit: n.timeout}
	limit := time.AfterFunc(n.timeout, func() { life.cancel(overdue) })
	err := t.attempt(life.ctx, CleanupTimeout, n.name, func() error { return start(life.ctx, life) })
	limit.Stop()
	t.mu.Lock()

	cause := context.Cause(life.ctx)
	switch {
	case life.fault != nil: // an owned goroutine failed, or the life closed a cycle
		err = nil
	case cause == overdue:
		err = &overdueError{overdue.what, overdue.limit, err}
	case cause != nil: // interrupted, which is no failure
		err = nil
	case err == nil:
		life.active = time.Now()
		n.becomeLocked(Active, nil)
		t.notifyLocked(n.realm, life.provides...)
		return
	}
	if life.fault == nil {
		life.fault = err
	}
	n.stopLocked()
}

// stopLocked ends the current life. It leaves the node failed when that life had a fault.
func (n *Node) stopLocked() {
	t, life := n.tree, n.life
	n.restart = false
	n.becomeLocked(Stopping, nil)
	t.mu.Unlock()
	if err := life.unwind(); err != nil {
		t.log.Error("plugin cleanup", "plugin", n.path(), "err", err)
	}
	t.mu.Lock()
	for _, p := range life.deps {
		if p != nil {
			p.users.remove(n)
		}
	}
	n.life = nil
	if life.fault == nil || n.closed {
		n.becomeLocked(Pending, nil)
		return
	}
	n.failLocked(life)
}

// failLocked leaves the node failed for the fault of its last life.
func (n *Node) failLocked(life *Scope) {
	t, err := n.tree, life.fault
	if !life.active.IsZero() && time.Since(life.active) >= steadyLife {
		n.failures = 0
	}
	if n.failures++; n.failures == failureLimit {
		err = fmt.Errorf("%w; after %d failures it is tried again only when it is restarted or gets a new config", err, n.failures)
	}
	n.failedWith = life.deps
	n.becomeLocked(Failed, err)
	var cycle *cycleError
	if errors.As(err, &cycle) {
		n.cycle = cycle.nodes
		t.cyclic.add(n)
	}
	t.mu.Unlock()
	t.log.Error("plugin failed", "plugin", n.path(), "err", err)
	t.mu.Lock()
}

// updateLocked hands a new config to the running life; if that does not take it, the node restarts.
func (n *Node) updateLocked() {
	t, u, life := n.tree, n.update, n.life
	n.update, n.start = nil, u.start
	n.retryLocked() // if it failed, it failed with the old one
	if life == nil {
		return
	}
	t.mu.Unlock()
	ctx, cancel := context.WithTimeout(life.ctx, n.timeout)
	err := t.attempt(ctx, CleanupTimeout, n.name+": reconfigure", func() error { return life.reconfigure(ctx, u.config) })
	cancel()
	if err != nil {
		t.log.Info("plugin restarts for its new config", "plugin", n.path(), "err", err)
	}
	t.mu.Lock()
	n.restart = n.restart || err != nil
}

func (n *Node) removeLocked() {
	n.tree.nodes.remove(n)
	for _, m := range n.mounted {
		m.removeLocked()
	}
	for _, need := range n.needs {
		n.realm.removeNeederLocked(need.key, n)
	}
	n.becomeLocked(Closed, nil)
	n.tree.forgiveLocked(n)
}

// faultLocked ends life, if it is the node's current one, and leaves the node failed.
func (n *Node) faultLocked(life *Scope, err error) {
	if n.life != life || life.fault != nil || life.ctx.Err() != nil {
		return
	}
	life.fault, n.restart = err, true // stopLocked sees the fault
	n.reconcileLocked()
}
