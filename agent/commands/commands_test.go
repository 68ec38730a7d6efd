package commands_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dsh-harness/dsh"
	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/config"
	"github.com/dsh-harness/dsh/policy"
)

// rows make a scripted model beside one that can only be chosen.
const rows = `
- {id: deepseek, disabled: true}
- {id: openai, disabled: true}
- {id: llm-retry, disabled: true}
- id: replay
  plugin: llm-replay
  config: {name: demo, model: scripted, answers: [{text: Hello.}]}
- id: other
  plugin: llm-openai
  config:
    name: other
    baseURL: http://127.0.0.1:1
    models:
      - {id: small, efforts: [low, high], defaultEffort: low}
`

func open(t *testing.T) *dsh.Agent {
	t.Helper()
	home := t.TempDir()
	a, err := dsh.Open(t.Context(), dsh.Options{
		Layers: []config.Layer{{Kind: config.Patch, Text: rows}},
		Lookup: func(name string) (string, bool) {
			if name == "DSH_HOME" || name == "HOME" {
				return home, true
			}
			return "", false
		},
		Agent: dsh.AgentOptions{Dir: t.TempDir()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return a
}

func command(t *testing.T, a agent.Agent, name string) agent.Command {
	t.Helper()
	c, ok := agent.Commands.Get(a.Scope(), name)
	if !ok {
		t.Fatalf("there is no /%s", name)
	}
	return c
}

func TestCommands(t *testing.T) {
	a := open(t)
	if _, err := a.Ask(t.Context(), "hi"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ line, text, err string }{
		{"model", "- demo/scripted (now)\n- other/small\n", ""},
		{"model oter/small", "", "other"},
		{"model other/smal", "The model is other/smal from the next request on. It is not among the models that are listed.", ""},
		{"model other/small", "The model is other/small from the next request on.", ""},
		{"model", "- demo/scripted\n- other/small (now)\n", ""},
		{"effort", "- low (now)\n- high\n", ""},
		{"effort max", "", "low, high"},
		{"effort high", "The effort is high from the next request on.", ""},
		{"effort", "- low\n- high (now)\n", ""},
		{"mode plan", "The mode is plan from the next call on.", ""},
		{"mode plam", "", "did you mean plan?"},
		{"mode", "- read-only\n- plan (now)\n- ask\n- workspace-write\n- full-access\n", ""},
		{"rename", "", "say the title"},
		{"rename  a   new\ttitle", "The session is called a new title.", ""},
	} {
		name, arguments, _ := strings.Cut(c.line, " ")
		result, err := command(t, a, name).Run(t.Context(), a, arguments)
		switch {
		case c.err == "" && err != nil:
			t.Errorf("/%s: %v", c.line, err)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "\n")):
			t.Errorf("/%s: the error is %v, it should say %q in one line", c.line, err, c.err)
		case c.err == "":
			if d := cmp.Diff(c.text, result.Text); d != "" {
				t.Errorf("/%s:\n%s", c.line, d)
			}
		}
	}
	if got := a.Session().State().Title; got != "a new title" {
		t.Errorf("the title is %q", got)
	}
	if got := a.Selection(); got != (agent.Selection{Model: "other/small", Effort: "high"}) {
		t.Errorf("the selection is %+v", got)
	}
	result, err := command(t, a, "status").Run(t.Context(), a, "")
	if err != nil || !strings.Contains(result.Text, a.Session().ID()) || !strings.Contains(result.Text, "**Usage**") || !strings.Contains(result.Text, "- Requests: 1\n") {
		t.Errorf("/status: %v\n%s", err, result.Text)
	}
}

func TestArgumentsAreCompleted(t *testing.T) {
	a := open(t)
	for _, c := range []struct {
		name, prefix string
		want         []string
	}{
		{"model", "o", []string{"other/small"}},
		{"effort", "", nil},
		{"mode", "p", []string{string(policy.Plan)}},
	} {
		got := command(t, a, c.name).Complete(t.Context(), a, c.prefix)
		if len(got)+len(c.want) > 0 && !cmp.Equal(got, c.want) {
			t.Errorf("/%s %s: %v", c.name, c.prefix, got)
		}
	}
}
