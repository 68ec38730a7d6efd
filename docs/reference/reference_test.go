// Package reference keeps the generated pages of this folder fresh:
//
//	go test ./docs/reference -update
package reference

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dsh-harness/dsh/config"
	"github.com/dsh-harness/dsh/std"
	"github.com/dsh-harness/dsh/surface/cli"
)

var update = flag.Bool("update", false, "write the pages instead of comparing them")

func TestPagesAreFresh(t *testing.T) {
	pages := map[string]func(t *testing.T) string{
		"config.md": func(*testing.T) string { return config.Markdown(std.Plugins()) },
		"cli.md":    func(*testing.T) string { return cli.Markdown(std.Plugins()) },
		"events.md": events,
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
