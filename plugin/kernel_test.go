package plugin

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

// TestMain looks for leaked goroutines. With DSH_TEST_FULL=1 the laws are checked twenty
// times as often.
func TestMain(m *testing.M) {
	if os.Getenv("DSH_TEST_FULL") == "1" {
		if err := flag.Set("rapid.checks", "2000"); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

var (
	keyA = NewKey[string]("a")
	keyB = NewKey[int]("b")
	bg   = context.Background()
)

const (
	early  Stage = "early"
	middle Stage = "middle"
	late   Stage = "late"
)

var (
	step   = NewWaterfall[string, string]("step")
	staged = NewWaterfall[string, string]("staged", early, middle, late)
	ping   = NewEmit[string]("ping")
	pick   = NewSerial[int, string]("pick")
	fanIn  = NewParallel[int]("fan")
)

// diary is what happened, in order.
type diary struct {
	mu  sync.Mutex
	all []string
}

func (d *diary) add(s string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, s)
}

// take returns what happened since it was called last.
func (d *diary) take() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := strings.Join(d.all, " ")
	d.all = nil
	return s
}

func (d *diary) note(s string) func(context.Context) error {
	return func(context.Context) error { d.add(s); return nil }
}

// inBubble runs f with a tree under fake time. The tree must close and leave nothing.
func inBubble(t *testing.T, f func(t *testing.T, tr *Tree, d *diary)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		tr := New(nil)
		f(t, tr, &diary{})
		if err := tr.Close(bg); err != nil {
			t.Errorf("close: %v", err)
		}
		for _, leak := range leaks(tr) {
			t.Error(leak)
		}
	})
}

// leaks reports what a closed tree still holds.
func leaks(tr *Tree) (found []string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	r := tr.root.node.realm
	for what, n := range map[string]int{
		"nodes": len(tr.nodes), "busy nodes": len(tr.busy), "failed nodes": len(tr.failed), "cyclic nodes": len(tr.cyclic),
		"services": len(r.providers), "listeners": len(r.listeners), "entries": len(r.entries),
		"needers": len(r.needers), "watchers": len(r.watchers), "effects": tr.root.effects.Len(),
	} {
		if n != 0 {
			found = append(found, fmt.Sprintf("leaked %d %s", n, what))
		}
	}
	return found
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func want(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// idle is a start that offers nothing.
func idle(context.Context, *Scope) error { return nil }

// takes is a start that takes that long, unless it is cancelled.
func takes(d time.Duration) StartFunc {
	return func(ctx context.Context, _ *Scope) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// provides is a start that offers v.
func provides[T any](k Key[T], v T) StartFunc {
	return func(_ context.Context, s *Scope) error { return k.Provide(s, v) }
}

// settled is n after it has started.
func settled(n *Node) *Node {
	if err := n.Settle(bg); err != nil {
		panic(err)
	}
	return n
}
