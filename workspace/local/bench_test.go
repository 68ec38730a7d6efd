package local_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/dsh-harness/dsh/workspace"
	"github.com/dsh-harness/dsh/workspace/local"
	"github.com/dsh-harness/dsh/workspace/workspacetest"
)

// BenchmarkRun is what a command costs beyond itself; BenchmarkRun/bare starts it
// without a guardian.
func BenchmarkRun(b *testing.B) {
	w := workspacetest.Open(b, local.Plugin.Definition(), workspace.Options{})
	b.Run("guarded", func(b *testing.B) {
		for b.Loop() {
			if _, err := w.Exec().Run(b.Context(), workspace.Command{Args: []string{"true"}}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			p, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := p.Wait(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	deep := filepath.Join(dir, "a", "b", "c")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"f.txt", "a/b/c/f.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("line 1\n"), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	w := workspacetest.Open(b, local.Plugin.Definition(), workspace.Options{Dir: dir})
	for _, name := range []string{"f.txt", "a/b/c/f.txt"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f, err := w.FS().Open(name)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadAll(f); err != nil {
					b.Fatal(err)
				}
				if err := f.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkWriteFile(b *testing.B) {
	w := workspacetest.Open(b, local.Plugin.Definition(), workspace.Options{})
	data := make([]byte, 4<<10)
	for b.Loop() {
		if err := w.FS().WriteFile("a/f.txt", data, workspace.WriteOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}
