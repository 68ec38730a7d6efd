// Package tools_test looks at the first tools together, as a model meets them.
package tools_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"testing"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/tools/files"
	"github.com/dsh-harness/dsh/tools/search"
	"github.com/dsh-harness/dsh/tools/shell"
)

// budget is what the tools may take of the first request, of which all is 12 kB.
const budget = 6_000

func TestToolsFitTheirBudget(t *testing.T) {
	tree := plugin.New(slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		if err := tree.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	var children []plugin.Child
	for _, def := range []plugin.Definition{files.Plugin.Definition(), search.Plugin.Definition(), shell.Plugin.Definition()} {
		prepared, err := def.Bind(def.NewConfig())
		if err != nil {
			t.Fatal(err)
		}
		children = append(children, prepared.Child(def.Name()))
	}
	if _, err := tree.Root().MountAll(children...); err != nil {
		t.Fatal(err)
	}
	if err := tree.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	var names []string
	var schemas []llm.ToolSchema
	for name, d := range tool.Tools.Visible(tree.Root()) {
		names = append(names, name)
		schemas = append(schemas, llm.ToolSchema{Name: name, Description: d.Description(), Parameters: d.Schema()})
	}
	if want := []string{"read", "write", "edit", "delete", "glob", "grep", "bash"}; !slices.Equal(names, want) {
		t.Errorf("the model sees %v, want %v", names, want)
	}
	encoded, err := json.Marshal(schemas)
	if err != nil {
		t.Fatal(err)
	}
	if len(encoded) > budget {
		t.Errorf("the tools take %d bytes of a request, more than %d:\n%s", len(encoded), budget, encoded)
	}
	t.Logf("%d bytes\n%s", len(encoded), encoded)
}
