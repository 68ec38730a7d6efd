// Package examples holds programs that people start from, and the test that each of them starts.
package examples

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	// The examples are built from these: what the go command remembers of this test is not good any more when they change.
	_ "github.com/dsh-harness/dsh/std"
	_ "github.com/dsh-harness/dsh/surface/cli"
)

// TestS25_ExamplesRunFromTheirComposition starts each folder here as ./run does: what its README shows must happen.
func TestS25_ExamplesRunFromTheirComposition(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the examples are started by a bash script")
	}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	index := files(t, ".")["README.md"]
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		name := entry.Name()
		t.Run(name, func(t *testing.T) {
			if files(t, name)["cordis.yml"] == "" {
				t.Error("it has no cordis.yml")
			}
			if !strings.Contains(index, "("+name+"/README.md)") {
				t.Error("README.md does not list it")
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // the first one compiles
			defer cancel()
			cmd := exec.CommandContext(ctx, "./run", name)
			cmd.WaitDelay = time.Second
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("./run %s: %v\n%s", name, err, out)
			}
		})
	}
}

// files returns the files of a folder by name. Reading all of them also tells the go command what the test depends on.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(text)
	}
	return all
}

// The tool of one's own is promised to fit 40 lines.
func TestCustomToolIsShort(t *testing.T) {
	if n := strings.Count(files(t, "custom-tool")["main.go"], "\n"); n > 40 {
		t.Errorf("custom-tool/main.go has %d lines", n)
	}
}
