package config_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/dsh-harness/dsh/config"
	"github.com/dsh-harness/dsh/plugin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// diary records what the rows of a tree did.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) add(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

// take returns what was recorded since the last call, sorted, because rows start side by side.
func (d *diary) take() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	slices.Sort(d.lines)
	s := strings.Join(d.lines, ", ")
	d.lines = nil
	return s
}

type greeting struct {
	Text string `json:"text"`
	Fail bool   `json:"fail"`
}

func (g *greeting) Validate() error {
	if g.Text == "refused" {
		return errors.New("text: may not be \"refused\"")
	}
	return nil
}

// greeters returns a plugin that restarts for a new config and one that takes it while it runs.
func greeters(d *diary) []plugin.Definition {
	start := func(ctx context.Context, s *plugin.Scope, g greeting) error {
		if g.Fail {
			return errors.New("told to fail")
		}
		d.add("start %s", g.Text)
		_, err := s.Defer("stop", func(context.Context) error { d.add("stop %s", g.Text); return nil })
		return err
	}
	return []plugin.Definition{
		plugin.Plugin[greeting]{Name: "greeter", Start: start}.Definition(),
		plugin.Plugin[greeting]{Name: "quick", Start: func(ctx context.Context, s *plugin.Scope, g greeting) error {
			if err := start(ctx, s, g); err != nil {
				return err
			}
			return plugin.OnReconfigure(s, func(_ context.Context, g greeting) error { d.add("take %s", g.Text); return nil })
		}}.Definition(),
	}
}

func manage(t *testing.T, d *diary, layers ...config.Layer) (*config.Manager, *plugin.Tree) {
	t.Helper()
	tree := plugin.New(nil)
	return config.NewManager(plugin.NewLoader(tree.Root()), config.Options{
		Layers:      layers,
		Plugins:     greeters(d),
		Environment: config.Environment{Lookup: func(string) (string, bool) { return "", false }},
	}), tree
}

// A change of the files is taken over whole or not at all.
func TestReloadIsATransaction(t *testing.T) {
	t.Chdir(t.TempDir())
	var d diary
	m, tree := manage(t, &d, config.Layer{Kind: config.User, Path: "user.yml"}, config.Layer{Kind: config.Patch, Path: "later.yml", Optional: true})
	if m.Current() != nil {
		t.Error("something is current before anything was loaded")
	}
	put := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const first = `
- {id: a, plugin: greeter, config: {text: a1}}
- {id: b, plugin: greeter, config: {text: b1}}
- {id: q, plugin: quick, config: {text: q1}}
- {id: off, plugin: greeter, disabled: true, config: {text: "${env:UNSET}"}}
`
	steps := []struct {
		name, text, later string
		did               string
		err               string
		outcomes          string
	}{
		{
			name: "start", text: first,
			did: "start a1, start b1, start q1", outcomes: "a started, b started, q started, off disabled",
		}, {
			name: "nothing new", text: first,
			outcomes: "a kept, b kept, q kept, off disabled",
		}, {
			name: "written otherwise", text: strings.ReplaceAll(first, "{text: a1}", `{"fail": !!bool false, text: 'a1'}`),
			did: "start a1, stop a1", outcomes: "a restarted, b kept, q kept, off disabled",
		}, {
			name: "the first again", text: first,
			did: "start a1, stop a1", outcomes: "a restarted, b kept, q kept, off disabled",
		}, {
			name: "broken file", text: first + "- {id: b, plgin: x",
			err: "user.yml:7:1: not valid YAML: did not find expected ',' or '}' while parsing a flow mapping",
		}, {
			name: "unknown key", text: strings.ReplaceAll(first, "{text: b1}", "{txt: b2}"),
			err: `user.yml:3:37: b: unknown key "txt"; did you mean "text"?`,
		}, {
			name: "refused by the plugin", text: strings.ReplaceAll(first, "text: b1", "text: refused"),
			err: `user.yml:3:36: b: text: may not be "refused"`,
		}, {
			name: "a running row fails", text: strings.ReplaceAll(strings.ReplaceAll(first, "text: a1", "text: a2"), "text: b1", "fail: true"),
			did: "start a1, start a2, start b1, stop a1, stop a2, stop b1",
			err: `apply the configuration: row "b" failed: told to fail`,
		}, {
			name: "missing file", text: "",
			err: "user.yml: cannot read the configuration: no such file or directory",
		}, {
			name: "still what ran at first", text: first,
			outcomes: "a kept, b kept, q kept, off disabled",
		}, {
			name: "one row", text: strings.ReplaceAll(first, "text: b1", "text: b2"),
			did: "start b2, stop b1", outcomes: "a kept, b restarted, q kept, off disabled",
		}, {
			name: "while it runs", text: strings.ReplaceAll(strings.ReplaceAll(first, "text: b1", "text: b2"), "text: q1", "text: q2"),
			did: "take q2", outcomes: "a kept, b kept, q reconfigured, off disabled",
		}, {
			name: "a layer appears", text: first, later: "- !remove {id: a}\n- {id: new, plugin: greeter, config: {text: n1}}\n- {id: b, disabled: true}",
			did: "start n1, stop a1, stop b2, take q1", outcomes: "b stopped, q reconfigured, off disabled, new started, a stopped",
		}, {
			name: "it is gone again", text: first,
			did: "start a1, start b1, stop n1", outcomes: "a started, b started, q kept, off disabled, new stopped",
		}, {
			name: "a new row fails alone", text: first, later: "- {id: new, plugin: greeter, config: {fail: true}}",
			outcomes: "a kept, b kept, q kept, off disabled, new failed: told to fail",
		}, {
			name: "a new row fails that is required", text: first, later: "- {id: must, plugin: greeter, required: true, config: {fail: true}}",
			err: `apply the configuration: required row "must" failed: told to fail`,
		},
	}
	for _, s := range steps {
		t.Log(s.name)
		put("user.yml", s.text)
		if s.text == "" {
			if err := os.Remove("user.yml"); err != nil {
				t.Fatal(err)
			}
		}
		put("later.yml", s.later)
		if s.later == "" {
			if err := os.Remove("later.yml"); err != nil {
				t.Fatal(err)
			}
		}
		before := m.Current()
		report, err := m.Reload(t.Context())
		if s.err == "" {
			if err != nil {
				t.Fatalf("%s: %v", s.name, err)
			}
			var outcomes []string
			for _, r := range report.Rows {
				outcomes = append(outcomes, r.String())
			}
			if got := strings.Join(outcomes, ", "); got != s.outcomes {
				t.Errorf("%s: %s, want %s", s.name, got, s.outcomes)
			}
			if m.Current() == before {
				t.Errorf("%s: the composition is the one before", s.name)
			}
		} else {
			if err == nil || err.Error() != s.err {
				t.Errorf("%s: error %v, want %s", s.name, err, s.err)
			}
			if m.Current() != before {
				t.Errorf("%s: the composition is the failed one", s.name)
			}
		}
		if got := d.take(); got != s.did {
			t.Errorf("%s: %s, want %s", s.name, got, s.did)
		}
	}
	if err := tree.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := d.take(); got != "stop a1, stop b1, stop q1" {
		t.Errorf("close: %s", got)
	}
}

// Reloads take turns, and waiting for one ends with the context.
func TestReloadsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d diary
		started, release := make(chan struct{}), make(chan struct{})
		tree := plugin.New(nil)
		m := config.NewManager(plugin.NewLoader(tree.Root()), config.Options{
			Layers: []config.Layer{{Kind: config.Profile, Name: "base", Text: "- {id: a, plugin: slow}"}},
			Plugins: []plugin.Definition{plugin.Plugin[struct{}]{Name: "slow", Start: func(context.Context, *plugin.Scope, struct{}) error {
				close(started)
				<-release
				d.add("started")
				return nil
			}}.Definition()},
		})
		first := make(chan error)
		go func() {
			_, err := m.Reload(t.Context())
			first <- err
		}()
		<-started
		ctx, cancel := context.WithCancelCause(t.Context())
		second, third := make(chan error), make(chan error)
		go func() {
			_, err := m.Reload(ctx)
			second <- err
		}()
		go func() {
			report, err := m.Reload(t.Context())
			if err == nil && report.Rows[0].Outcome != plugin.RowKept {
				err = fmt.Errorf("the row was %s", report.Rows[0].Outcome)
			}
			third <- err
		}()
		synctest.Wait()
		cause := errors.New("no patience")
		cancel(cause)
		if err := <-second; !errors.Is(err, cause) {
			t.Errorf("the one that gave up: %v", err)
		}
		close(release)
		if err := <-first; err != nil {
			t.Errorf("the first: %v", err)
		}
		if err := <-third; err != nil {
			t.Errorf("the one that waited: %v", err)
		}
		if got := d.take(); got != "started" {
			t.Errorf("rows: %s", got)
		}
		if err := tree.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A reload whose caller gives up while the rows are applied goes on; the next one starts from what
// came of it.
func TestReloadGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tree := plugin.New(nil)
		started, release := make(chan struct{}), make(chan struct{})
		m := config.NewManager(plugin.NewLoader(tree.Root()), config.Options{
			Layers: []config.Layer{{Kind: config.Profile, Name: "base", Text: "- {id: a, plugin: slow}"}},
			Plugins: []plugin.Definition{plugin.Plugin[struct{}]{Name: "slow", Start: func(context.Context, *plugin.Scope, struct{}) error {
				close(started)
				<-release
				return nil
			}}.Definition()},
		})
		ctx, cancel := context.WithCancelCause(t.Context())
		result := make(chan error)
		go func() {
			_, err := m.Reload(ctx)
			result <- err
		}()
		<-started
		cause := errors.New("no patience")
		cancel(cause)
		if err := <-result; !errors.Is(err, cause) {
			t.Errorf("error %v", err)
		}
		close(release)
		report, err := m.Reload(t.Context())
		if err != nil || report.Rows[0].Outcome != plugin.RowKept || m.Current() == nil {
			t.Errorf("the next reload: %v, %v, current %v", report.Rows, err, m.Current())
		}
		if err := tree.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestTwoPluginsOfOneName(t *testing.T) {
	c, err := config.Compose(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if r := recover(); r != "config: two plugins are named greeter" {
			t.Errorf("recovered %v", r)
		}
	}()
	twice := append(greeters(nil), greeters(nil)...)
	_, err = c.Prepare(twice, config.Environment{})
	t.Errorf("no panic, error %v", err)
}
