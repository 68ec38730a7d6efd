package std_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/dsh-harness/dsh"
	"github.com/dsh-harness/dsh/config"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/profiles"
	"github.com/dsh-harness/dsh/std"
)

// rows are those of a shipped profile. None is required, so that each can be taken away.
func rows(t *testing.T, profile string) []plugin.Row {
	t.Helper()
	environment := map[string]string{"HOME": t.TempDir(), "DEEPSEEK_API_KEY": "sk-test"}
	o := dsh.Options{
		Profile: profile,
		Set:     []string{"session-jsonl.dir=" + filepath.Join(t.TempDir(), "sessions")},
		Lookup:  func(name string) (string, bool) { v, ok := environment[name]; return v, ok },
	}
	c, err := o.Configuration()
	check(t, err)
	composition, err := config.Compose(c.Layers)
	check(t, err)
	all, err := composition.Prepare(c.Plugins, c.Environment)
	check(t, err)
	for i := range all {
		all[i].Required = false
	}
	return all
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// states are the nodes that run, with what they provide, and those that do not with the reason.
func states(d plugin.Dump) (all []string) {
	all = append(all, fmt.Sprintf("%s %s %s %v %v", d.Name, d.State, d.Error, d.Provides, d.Waits))
	for _, child := range d.Children {
		all = append(all, states(child)...)
	}
	return all
}

// TestEachPluginUnmountsAndLeavesNothing takes away and puts back each row of each shipped profile. What it
// registered must be gone by then, or it could not be registered again; in the end no goroutine is left.
func TestEachPluginUnmountsAndLeavesNothing(t *testing.T) {
	mounted := map[string]bool{}
	for _, profile := range profiles.Names() {
		t.Run(profile, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			all := rows(t, profile)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			tree := plugin.New(nil)
			defer func() { check(t, tree.Close(context.Background())) }()
			loader := plugin.NewLoader(tree.Root())
			apply := func(rows []plugin.Row) {
				t.Helper()
				_, err := loader.Apply(ctx, rows)
				check(t, err)
				check(t, tree.Settle(ctx))
			}
			inactive := func() (bad []string) {
				for _, d := range tree.Dump().Children {
					if d.State != plugin.Active {
						bad = append(bad, states(d)...)
					}
				}
				return bad
			}
			apply(all)
			if bad := inactive(); len(bad) > 0 {
				t.Fatalf("these rows do not run: %q", bad)
			}
			whole := states(tree.Dump())
			for i, row := range all {
				mounted[row.Plugin] = true
				apply(slices.Delete(slices.Clone(all), i, i+1))
				for _, d := range tree.Dump().Children {
					if d.Name == row.ID || d.State == plugin.Failed {
						t.Errorf("without %s there is %q", row.ID, states(d))
					}
				}
				apply(all)
				if diff := cmp.Diff(whole, states(tree.Dump())); diff != "" {
					t.Fatalf("after %s had gone and come back (-before +after):\n%s", row.ID, diff)
				}
			}
		})
	}
	for _, d := range std.Plugins() {
		if !mounted[d.Name()] {
			t.Errorf("no shipped profile mounts %s", d.Name())
		}
	}
}
