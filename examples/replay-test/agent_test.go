// Package replaytest shows how to test an agent: its model is a cassette, everything else is real.
package replaytest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/dsh-harness/dsh"
	"github.com/dsh-harness/dsh/config"
	"github.com/dsh-harness/dsh/session"
)

// run gives the task to the agent in a folder with one file, and returns what became of both.
func run(t *testing.T, set ...string) (result dsh.Result, file string) {
	t.Helper()
	t.Setenv("DSH_HOME", t.TempDir()) // sessions of tests are not among your own
	dir := t.TempDir()
	name := filepath.Join(dir, "greeting.txt")
	if err := os.WriteFile(name, []byte("Helo, world\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	result, err := dsh.Run(t.Context(), "Mend the typo in greeting.txt.", dsh.Options{
		Layers: []config.Layer{{Kind: config.Patch, Path: "cordis.yml"}},
		Set:    set,
		Agent:  dsh.AgentOptions{Dir: dir},
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return result, string(text)
}

func TestAgentMendsTheTypo(t *testing.T) {
	result, file := run(t)
	if file != "Hello, world\n" {
		t.Errorf("the file holds %q", file)
	}
	if result.Reason != session.Completed || result.Steps != 3 || len(result.Denied) != 0 {
		t.Errorf("ended %s after %d steps, denied %v", result.Reason, result.Steps, result.Denied)
	}
}

// The same script in a stricter mode: the agent is held back, and told so.
func TestAgentMayNotWriteWhenReadOnly(t *testing.T) {
	result, file := run(t, "permission-mode.mode=read-only", "script.config.file=denied.yml")
	if file != "Helo, world\n" {
		t.Errorf("the file holds %q", file)
	}
	if len(result.Denied) != 1 || result.Denied[0].Tool != "edit" {
		t.Errorf("denied %v, want the edit", result.Denied)
	}
}
