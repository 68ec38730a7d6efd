package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dsh-harness/dsh/internal/testllm"
)

func TestWhatAnAgentDeletesCanBeRestored(t *testing.T) {
	b := newBox(t)
	file := filepath.Join(b.dir, "notes", "a.txt")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.llm.Script(testllm.Calls(testllm.Call{Name: "delete", Arguments: `{"file_path":"notes"}`}))
	b.llm.Script(testllm.Text("done"))
	if out := b.run("run", "delete the notes"); out.code != 0 {
		t.Fatalf("%+v", out)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Fatalf("it is still there: %v", err)
	}
	list := b.run("trash", "list").stdout
	if !strings.Contains(list, filepath.Join(b.dir, "notes")) {
		t.Fatalf("the list has it not: %s", list)
	}
	id, _, _ := strings.Cut(list, " ")
	if out := b.run("trash", "restore", id[len(id)-8:]); out.code != 0 {
		t.Fatalf("%+v", out)
	}
	if text := string(b.read(file)); text != "mine\n" {
		t.Errorf("restored %q", text)
	}
	if out := b.run("trash", "restore", id); out.code != 2 || !strings.Contains(out.stderr, "not in the trash") {
		t.Errorf("restoring twice: %+v", out)
	}
	if out := b.run("trash", "list", "--json"); strings.TrimSpace(out.stdout) != "[]" {
		t.Errorf("an empty trash: %+v", out)
	}
}
