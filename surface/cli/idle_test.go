package cli

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dsh-harness/dsh/internal/jsonrpc"
)

func TestAServerThatNobodyNeedsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		i := &idle{after: 30 * time.Minute}
		var running atomic.Int64
		ctx, end := context.WithCancelCause(t.Context())
		stop := i.watch(ctx, func() int { return int(running.Load()) }, end)
		defer stop()
		until := func(moment time.Duration) {
			t.Helper()
			time.Sleep(moment - time.Since(began))
			synctest.Wait()
			if ctx.Err() != nil {
				t.Fatalf("it ended before %v", moment)
			}
		}

		until(29 * time.Minute)
		serve := i.counting(func(context.Context, jsonrpc.Stream) error {
			time.Sleep(time.Hour)
			return nil
		})
		if err := serve(t.Context(), nil); err != nil { // a client, from 29 to 89 minutes
			t.Fatal(err)
		}
		until(118 * time.Minute)
		running.Store(1) // a turn without a client
		until(200 * time.Minute)
		running.Store(0)
		until(225 * time.Minute)
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), errIdle) {
			t.Errorf("it ended with %v", context.Cause(ctx))
		}
		if d := time.Since(began); d < 227*time.Minute || d > 230*time.Minute {
			t.Errorf("it ended after %v", d)
		}
	})
}

func TestWatchingForIdlenessStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &idle{after: time.Hour}
		stop := i.watch(t.Context(), func() int { return 0 }, func(error) { t.Error("it ended the server") })
		stop()
		time.Sleep(2 * time.Hour)
	})
}
