package hooks_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/dsh-harness/dsh"
	"github.com/dsh-harness/dsh/config"
	"github.com/dsh-harness/dsh/internal/need"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/policy/hooks"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/std"
)

func TestMain(m *testing.M) {
	dsh.Guard()
	goleak.VerifyTestMain(m)
}

// truster trusts what it was told to, by content, as a person would by hash.
type truster struct {
	mu    sync.Mutex
	known map[string]string
	// onRead, when not nil, is called after each look.
	onRead func()
}

func (t *truster) trust(path, content string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known[path] = content
}

func (t *truster) Trusted(_ context.Context, dir, path string) ([]byte, error) {
	content, err := os.ReadFile(filepath.Join(dir, path))
	if err != nil {
		return nil, nil // there is none
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.onRead != nil {
		defer t.onRead()
	}
	if known, ok := t.known[path]; !ok || known != string(content) {
		return nil, nil
	}
	return content, nil
}

// world is a folder with an agent whose model says what is written down.
type world struct {
	t      *testing.T
	dir    string // the folder of the session
	config string // of the person
	state  string
	trust  *truster
	mode   policy.Mode
	set    []string
	resume string
	layers []config.Layer

	log    bytes.Buffer
	events []session.Event
	result dsh.Result
	err    error
}

func newWorld(t *testing.T) *world {
	t.Helper()
	need.Program(t, "bash", "bash")
	base, err := filepath.EvalSymlinks(t.TempDir())
	check(t, err)
	w := &world{
		t: t, dir: filepath.Join(base, "project"), config: filepath.Join(base, "config"), state: filepath.Join(base, "state"),
		trust: &truster{known: map[string]string{}}, mode: policy.FullAccess,
	}
	for _, dir := range []string{w.dir, w.config} {
		check(t, os.Mkdir(dir, 0o700))
	}
	t.Setenv("DSH_CONFIG", w.config)
	t.Setenv("DSH_STATE", w.state)
	return w
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// user writes the person's hooks.
func (w *world) user(content string) {
	w.t.Helper()
	check(w.t, os.WriteFile(filepath.Join(w.config, "hooks.json"), []byte(content), 0o600))
}

// project writes a file of the folder, which is trusted.
func (w *world) project(path, content string) {
	w.t.Helper()
	w.file(path, content)
	w.trust.trust(path, content)
}

func (w *world) file(path, content string) {
	w.t.Helper()
	full := filepath.Join(w.dir, path)
	check(w.t, os.MkdirAll(filepath.Dir(full), 0o700))
	check(w.t, os.WriteFile(full, []byte(content), 0o700))
}

func (w *world) read(path string) string {
	content, err := os.ReadFile(filepath.Join(w.dir, path))
	if err != nil {
		return ""
	}
	return string(content)
}

// hook is a user file with one hook; what is empty is left out.
func hook(event, matcher, command string, more ...string) string {
	entry := fmt.Sprintf(`{"type":"command","command":%s%s}`, quoted(command), strings.Join(more, ""))
	return fmt.Sprintf(`{"hooks":{%q:[{"matcher":%s,"hooks":[%s]}]}}`, event, quoted(matcher), entry)
}

func quoted(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// call is an answer of the model that calls one tool.
func call(name, arguments string) string {
	return fmt.Sprintf("    - calls: [{name: %s, arguments: %s}]\n", name, arguments)
}

func bash(command string) string { return call("bash", `{"command":`+quoted(command)+`}`) }

const done = "    - text: done\n"

// run gives the agent a prompt; its model answers with answers.
func (w *world) run(prompt string, answers ...string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	trust := plugin.Plugin[struct{}]{Name: "trust", Doc: "a person", Start: func(_ context.Context, s *plugin.Scope, _ struct{}) error {
		return policy.Trust.Provide(s, w.trust)
	}}
	plugins := slices.DeleteFunc(std.Plugins(), func(d plugin.Definition) bool { return d.Name() == "trust" })
	w.events = nil
	w.result, w.err = dsh.Run(ctx, prompt, dsh.Options{
		Plugins: append(plugins, trust.Definition()),
		Layers:  append([]config.Layer{{Kind: config.User, Text: "- id: trust\n  plugin: trust\n- id: script\n  plugin: llm-replay\n  config:\n    answers:\n" + strings.Join(answers, "")}}, w.layers...),
		Set:     append([]string{"permission-mode.mode=" + string(w.mode)}, w.set...),
		Logger:  slog.New(slog.NewTextHandler(&w.log, nil)),
		Agent: dsh.AgentOptions{
			Model: "replay/scripted", Dir: w.dir, Resume: w.resume,
			OnEvent: func(e session.Event) { w.events = append(w.events, e) },
		},
	})
}

// data returns the data of the events of a type, as JSON texts.
func (w *world) data(kind string) (all []string) {
	for _, e := range w.events {
		if e.Type == kind {
			all = append(all, string(e.Data))
		}
	}
	return all
}

// outcomes returns what became of the hooks.
func (w *world) outcomes() (all []hooks.ResultData) {
	w.t.Helper()
	for _, text := range w.data(hooks.Resulted) {
		var d hooks.ResultData
		check(w.t, json.Unmarshal([]byte(text), &d))
		all = append(all, d)
	}
	return all
}

// results returns the texts of the results of tools.
func (w *world) results() (all []string) {
	w.t.Helper()
	for _, text := range w.data(session.ToolResult) {
		var d session.ToolResultData
		check(w.t, json.Unmarshal([]byte(text), &d))
		all = append(all, llm.PlainText(d.Content))
	}
	return all
}

// inputs returns what joined the conversation as input, hooks marked with their event.
func (w *world) inputs() (all []string) {
	w.t.Helper()
	for _, e := range w.events {
		if e.Type != session.UserMessage && e.Type != session.SteeringMessage {
			continue
		}
		var d session.InputData
		check(w.t, json.Unmarshal(e.Data, &d))
		text := llm.PlainText(d.Content)
		if d.Source.Kind == "hook" {
			text = d.Source.Name + ": " + text
		}
		all = append(all, text)
	}
	return all
}

func (w *world) exists(path string) bool {
	_, err := os.Lstat(filepath.Join(w.dir, path))
	return err == nil
}

func rename(from, to string) error { return os.Rename(from, to) }
