// Package livetest starts hubs for the tests of surfaces, which must not run in parallel: the shipped composition, in an empty home and an empty folder, with a scripted
// model server on the loopback address. What fails fails the test.
package livetest

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dsh-harness/dsh"
	"github.com/dsh-harness/dsh/config"
	"github.com/dsh-harness/dsh/internal/testllm"
	"github.com/dsh-harness/dsh/surface/live"
	"github.com/dsh-harness/dsh/tool"
)

// World is a hub and what stands around it.
type World struct {
	Hub     *live.Hub
	Harness *dsh.Harness
	Model   *testllm.Server
	Dir     string // the folder of sessions that name none, links resolved
	Home    string
}

// Options change the world. The zero value asks before each call that changes something, parks after an hour, and waits a minute for somebody
// to open a session that asks.
type Options struct {
	Mode  string        // "ask" when empty
	Park  time.Duration // an hour when 0
	Wait  time.Duration // a minute when 0
	Home  string        // of another world, to go on with its sessions
	Set   []string      // see dsh.Options
	Tools []tool.Definition
}

// rows put the scripted model in the place of the providers, which need keys.
const rows = `
- {id: deepseek, disabled: true}
- {id: openai, disabled: true}
- {id: llm-retry, disabled: true}
- id: scripted
  plugin: llm-openai
  config:
    name: scripted
    baseURL: %s
    models:
      - {id: large, efforts: [low, high], defaultEffort: low, window: 100000}
      - {id: small, window: 10000}
`

// New starts a world that ends with the test.
func New(t testing.TB, o Options) *World {
	t.Helper()
	if o.Mode == "" {
		o.Mode = "ask"
	}
	if o.Park == 0 {
		o.Park = time.Hour
	}
	if o.Wait == 0 {
		o.Wait = time.Minute
	}
	w := &World{Model: testllm.New(t), Home: o.Home}
	if w.Home == "" {
		w.Home = t.TempDir()
	}
	w.Dir = filepath.Join(w.Home, "project")
	if err := os.MkdirAll(w.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DSH_HOME", filepath.Join(w.Home, "dsh")) // some plugins look there themselves
	var err error
	if w.Dir, err = filepath.EvalSymlinks(w.Dir); err != nil {
		t.Fatal(err)
	}
	environment := map[string]string{
		"HOME": w.Home, "DSH_HOME": filepath.Join(w.Home, "dsh"), "PATH": os.Getenv("PATH"),
	}
	rows := fmt.Sprintf(rows, w.Model.URL)
	w.Harness, err = dsh.New(t.Context(), dsh.Options{
		Layers: []config.Layer{{Kind: config.Patch, Text: rows}},
		Set:    append([]string{"permission-mode.mode=" + o.Mode}, o.Set...),
		Lookup: func(name string) (string, bool) {
			value, ok := environment[name]
			return value, ok
		},
		Tools:  o.Tools,
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Hub, err = live.New(live.Options{
		Harness: w.Harness, Defaults: dsh.AgentOptions{Dir: w.Dir}, Park: o.Park, Wait: o.Wait, Version: "test",
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.close(t))
	return w
}

func (w *World) close(t testing.TB) func() {
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := w.Hub.Close(ctx); err != nil {
			t.Errorf("close the hub: %v", err)
		}
		if err := w.Harness.Close(ctx); err != nil {
			t.Errorf("close the harness: %v", err)
		}
	}
}
