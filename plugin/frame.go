package plugin

import (
	"context"
	"iter"
)

// A frame is a call of plugin code, and travels in the context of that call,
// because Go has no goroutine identity: the frames of a context are the calls that
// cannot return before the one at hand does. That is what makes re-entrant waits
// detectable.
type frame struct {
	context.Context
	node     *Node
	listener *listener // of a call of one
	cleanup  *cleanup  // of a running one
	worker   *worker   // of an owned goroutine: its context ends when it must, and so do its waits
}

type frameKey struct{}

// Value returns the innermost frame for the key of frames.
func (f *frame) Value(key any) any {
	if _, ok := key.(frameKey); ok {
		return f
	}
	return f.Context.Value(key)
}

// blocked yields the frames of ctx in which others may have to wait, innermost first.
func blocked(ctx context.Context) iter.Seq[*frame] {
	return func(yield func(*frame) bool) {
		for f := range frames(ctx) {
			if f.worker == nil && !yield(f) {
				return
			}
		}
	}
}

// frames yields the frames of ctx, innermost first.
func frames(ctx context.Context) iter.Seq[*frame] {
	return func(yield func(*frame) bool) {
		for {
			f, ok := ctx.Value(frameKey{}).(*frame)
			if !ok || !yield(f) {
				return
			}
			ctx = f.Context
		}
	}
}

// context returns a fresh context for a call of n's plugin.
func (n *Node) context() context.Context {
	return &frame{Context: context.Background(), node: n}
}
