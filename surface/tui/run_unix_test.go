//go:build unix

package tui_test

import (
	"context"
	"io"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/charmbracelet/x/term"
	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"

	"github.com/dsh-harness/dsh"
	"github.com/dsh-harness/dsh/internal/jsonrpc"
	"github.com/dsh-harness/dsh/surface/acp"
	"github.com/dsh-harness/dsh/surface/live/livetest"
	"github.com/dsh-harness/dsh/surface/tui"
)

func TestMain(m *testing.M) {
	dsh.Guard()
	os.Exit(m.Run())
}

// TestTrust_O04_AMistakeGivesTheTerminalBack: the interface fails in the middle of a key, and the terminal is as it was found. A stop and a kill are in
// package acceptance.
func TestTrust_O04_AMistakeGivesTheTerminalBack(t *testing.T) {
	w := livetest.New(t, livetest.Options{})
	tty, theirs, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = tty.Close(), theirs.Close() }()
	if err := pty.Setsize(tty, &pty.Winsize{Rows: 24, Cols: 80}); err != nil {
		t.Fatal(err)
	}
	before, err := term.GetState(theirs.Fd())
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var shown strings.Builder
	var all sync.WaitGroup
	all.Go(func() {
		buffer := make([]byte, 4096)
		for {
			n, err := tty.Read(buffer)
			mu.Lock()
			shown.Write(buffer[:n])
			mu.Unlock()
			if err != nil {
				return
			}
		}
	})
	screen := func() string {
		mu.Lock()
		defer mu.Unlock()
		return shown.String()
	}
	near, far := jsonrpc.Pipe()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	all.Go(func() { _ = acp.Serve(ctx, far, acp.Options{Hub: w.Hub, Version: "test"}) })
	all.Go(func() {
		for !strings.Contains(screen(), "scripted/") && ctx.Err() == nil {
			time.Sleep(5 * time.Millisecond)
		}
		_, _ = io.WriteString(tty, "hello\r") // the interface is there
	})
	panicked := func() (p any) {
		defer func() { p = recover() }()
		_, err := tui.Run(ctx, tui.Options{
			Stream: near, In: theirs, Out: theirs, Getenv: func(string) string { return "" }, Dir: w.Dir,
			Said: func(string) { panic("a mistake") },
		})
		t.Errorf("Run ended with %v", err)
		return nil
	}()
	if panicked != "a mistake" {
		t.Errorf("it panicked with %v", panicked)
	}
	after, err := term.GetState(theirs.Fd())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(before, after, cmp.Exporter(func(reflect.Type) bool { return true })); d != "" {
		t.Errorf("the terminal's modes are others:\n%s", d)
	}
	_ = near.Close()
	_ = theirs.Close() // the reader ends
	all.Wait()
	out := screen()
	for _, mode := range []string{"2004", "1004"} {
		if strings.LastIndex(out, "\x1b[?"+mode+"l") < strings.LastIndex(out, "\x1b[?"+mode+"h") {
			t.Errorf("mode %s is left on", mode)
		}
	}
	if !strings.Contains(out, "a mistake in the interface: a mistake") {
		t.Errorf("it is not said what went wrong: %q", out)
	}
}
