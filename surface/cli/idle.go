package cli

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dsh-harness/dsh/internal/jsonrpc"
)

// errIdle is why a server ends that nobody needs.
var errIdle = errors.New("nobody needed the server")

// idle ends a server that nobody has needed for a time.
type idle struct {
	after   time.Duration
	clients atomic.Int64
	last    atomic.Int64 // when somebody was seen, in nanoseconds of Unix
}

// counting has serve seen.
func (i *idle) counting(serve func(context.Context, jsonrpc.Stream) error) func(context.Context, jsonrpc.Stream) error {
	return func(ctx context.Context, s jsonrpc.Stream) error {
		i.clients.Add(1)
		defer func() {
			i.last.Store(time.Now().UnixNano())
			i.clients.Add(-1)
		}()
		return serve(ctx, s)
	}
}

// watch calls end once there was neither a client nor a turn that runs for the whole time. It returns what stops the watching, and waits for that.
func (i *idle) watch(ctx context.Context, running func() int, end func(error)) (stop func()) {
	i.last.Store(time.Now().UnixNano())
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			now := time.Now()
			if i.clients.Load() > 0 || running() > 0 {
				i.last.Store(now.UnixNano())
			}
			left := i.after - now.Sub(time.Unix(0, i.last.Load()))
			if left <= 0 {
				end(errIdle)
				return
			}
			// A turn says nothing when it ends: the time that it does not run is known to a tenth.
			select {
			case <-time.After(min(left, max(i.after/10, time.Millisecond))):
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		watching.Wait()
	}
}
