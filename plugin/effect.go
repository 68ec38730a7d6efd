package plugin

import (
	"container/list"
	"context"
	"fmt"
	"time"
)

const (
	// CleanupTimeout bounds how long the cleanups, goroutines and running listeners of
	// one scope may take together to end; what children and the users of services take is their
	// own. Once it is used up, each that is left has a second. It also bounds
	// a single cleanup that is disposed of by hand, and how long a start may take to
	// return after its context was cancelled.
	CleanupTimeout = 10 * time.Second

	// lastGrace is what a cleanup gets when the time of its scope is used up, and what
	// it gets to return after its context ended.
	lastGrace = time.Second
)

// undoer is a registration, in the order of undoing of its scope. It takes itself
// out of that as soon as it is undone.
type undoer interface {
	base() *effect
	name() string
	// undoLocked begins to undo. It is called once, with tree.mu held. limit is how
	// long it may take, if that is up to plugin code.
	undoLocked(ctx context.Context, limit time.Duration)
	// undoneLocked releases tree.mu until it is undone, or until ctx ends. It is called
	// after undoLocked, the first time without releasing tree.mu in between, and again
	// by whoever wants to wait too.
	undoneLocked(ctx context.Context, limit time.Duration) error
}

// effect is what all undoers have.
type effect struct {
	scope   *Scope
	element *list.Element // guarded by tree.mu
	begun   bool          // guarded by tree.mu
}

func (e *effect) base() *effect { return e }

// removeLocked takes the effect out of its scope; again does nothing.
func (e *effect) removeLocked() { e.scope.effects.Remove(e.element) }

func (s *Scope) openLocked(what string) error {
	if s.shut {
		return fmt.Errorf("%s: %s: %w", s.node.name, what, ErrScopeClosed)
	}
	return nil
}

// endingLocked reports whether s is ending, or will because what it stands in is.
func (s *Scope) endingLocked() bool {
	for ; s != nil; s = s.node.parent {
		if s.shut {
			return true
		}
	}
	return false
}

func (s *Scope) pushLocked(u undoer) {
	*u.base() = effect{scope: s, element: s.effects.PushBack(u)}
}

func (s *Scope) addLocked(u undoer) error {
	if err := s.openLocked(u.name()); err != nil {
		return err
	}
	s.pushLocked(u)
	return nil
}

// disposer returns the function that undoes u by hand.
func disposer(u undoer) func(context.Context) error {
	return func(ctx context.Context) error { return undo(ctx, u, CleanupTimeout) }
}

// undo begins to undo u, unless that has begun, and waits.
func undo(ctx context.Context, u undoer, limit time.Duration) error {
	t := u.base().scope.node.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	return undoLocked(ctx, u, limit)
}

func undoLocked(ctx context.Context, u undoer, limit time.Duration) error {
	if e := u.base(); !e.begun {
		e.begun = true
		u.undoLocked(ctx, limit)
	}
	return u.undoneLocked(ctx, limit)
}

// unwind shuts the scope and undoes its effects, newest first.
func (s *Scope) unwind() error {
	t, ctx, left := s.node.tree, s.node.context(), CleanupTimeout
	s.cancel(errStopping)
	t.mu.Lock()
	defer t.mu.Unlock()
	s.shut = true
	var errs []error
	for newest := s.effects.Back(); newest != nil; newest = s.effects.Back() {
		u := newest.Value.(undoer)
		began := time.Now()
		if err := undoLocked(ctx, u, left); err != nil {
			errs = append(errs, err)
		}
		switch u.(type) {
		case *mounting, *provider: // they wait for other nodes, which are bounded themselves
		default:
			left = max(left-time.Since(began), lastGrace)
		}
		u.base().removeLocked() // also when it was given up
	}
	return join(errs...)
}

// awaitUndoneLocked releases tree.mu until done is closed, at most for limit, and says in
// its error that what did not end.
func (t *Tree) awaitUndoneLocked(ctx context.Context, done <-chan struct{}, limit time.Duration, what string) error {
	select {
	case <-done:
		return nil
	default:
	}
	t.mu.Unlock()
	defer t.mu.Lock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the end of %s: %w", what, context.Cause(ctx))
	case <-timer.C:
		return &overdueError{what: "the end of " + what, limit: limit}
	}
}

// cleanup is plugin code to call, see [Scope.Defer].
type cleanup struct {
	effect
	label string
	ready chan struct{} // of an Acquire: closed when its setup is over
	f     func(context.Context) error
	over  chan struct{} // closed when f has returned
	err   error         // written before over is closed
}

func newCleanup(label string, f func(context.Context) error) *cleanup {
	return &cleanup{label: label, f: f, over: make(chan struct{})}
}

func (c *cleanup) name() string { return c.label }

// run calls plugin code on behalf of c.
func (c *cleanup) run(f func() error) error {
	n := c.scope.node
	return n.tree.contain(n.name+": "+c.label, f)
}

func (c *cleanup) undoLocked(ctx context.Context, limit time.Duration) {
	n := c.scope.node
	n.tree.spawn(func() {
		if c.ready != nil {
			<-c.ready // a setup that outlasts the limit is still cleaned up after
		}
		if c.f != nil {
			ctx, cancel := context.WithTimeout(&frame{Context: context.WithoutCancel(ctx), node: n, cleanup: c}, limit)
			if err := c.run(func() error { return c.f(ctx) }); err != nil {
				c.err = fmt.Errorf("%s: %w", c.label, err)
			}
			cancel()
		}
		n.tree.mu.Lock()
		c.removeLocked()
		n.tree.mu.Unlock()
		close(c.over)
	})
}

func (c *cleanup) undoneLocked(ctx context.Context, limit time.Duration) error {
	for f := range frames(ctx) {
		if f.cleanup == c {
			return nil
		}
	}
	if err := c.scope.node.tree.awaitUndoneLocked(ctx, c.over, limit+lastGrace, c.label); err != nil {
		return err
	}
	return c.err
}

// worker is a goroutine, see [Scope.Go].
type worker struct {
	effect
	label  string
	cancel context.CancelCauseFunc
	done   chan struct{}
}

func (w *worker) name() string                              { return "goroutine " + w.label }
func (w *worker) undoLocked(context.Context, time.Duration) { w.cancel(errStopping) }
func (w *worker) undoneLocked(ctx context.Context, limit time.Duration) error {
	return w.scope.node.tree.awaitUndoneLocked(ctx, w.done, limit, w.name())
}
