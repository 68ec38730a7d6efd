// Package reference keeps the generated pages of this folder fresh:
//
//	go test ./docs/reference -update
package reference

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dsh-harness/dsh"
	"github.com/dsh-harness/dsh/config"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/std"
	"github.com/dsh-harness/dsh/surface/cli"
	"github.com/dsh-harness/dsh/tool"
)

var update = flag.Bool("update", false, "write the pages instead of comparing them")

func TestPagesAreFresh(t *testing.T) {
	pages := map[string]func(t *testing.T) string{
		"config.md":            func(*testing.T) string { return config.Markdown(std.Plugins()) },
		"cli.md":               func(*testing.T) string { return cli.Markdown(std.Plugins()) },
		"events.md":            events,
		"session-events.md":    sessionEvents,
		"keys.md":              keys,
		"tools.md":             tools,
		"protocol.md":          protocolPage,
		"protocol.schema.json": protocolSchema,
	}
	for name, write := range pages {
		t.Run(name, func(t *testing.T) {
			want := write(t)
			if *update {
				if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			have, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, string(have)); diff != "" {
				t.Errorf("the page is stale; run go test ./docs/reference -update\n%s", diff)
			}
		})
	}
}

// sessionEvents writes the page of what a log may hold.
func sessionEvents(t *testing.T) string {
	var page bytes.Buffer
	if err := session.WriteReference(&page, nil); err != nil {
		t.Fatal(err)
	}
	return page.String()
}

// tools writes the page of the tools that the shipped composition offers.
func tools(t *testing.T) string {
	h, err := dsh.New(t.Context(), dsh.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var all []tool.Definition
	for _, d := range tool.Tools.Visible(h.Scope()) {
		all = append(all, d)
	}
	var page bytes.Buffer
	if err := tool.WriteReference(&page, all); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return page.String()
}
