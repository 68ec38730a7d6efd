package cli

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/dsh-harness/dsh"
	"github.com/dsh-harness/dsh/policy"
)

// A session that was switched to another mode goes on in the mode that it is resumed with, and its log says so.
func TestPermissionModeSwitchesAResumedSession(t *testing.T) {
	t.Setenv("DSH_HOME", t.TempDir())
	t.Setenv("DEEPSEEK_API_KEY", "sk-test-0123456789")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	h, err := dsh.New(ctx, dsh.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	a, err := h.Open(ctx, dsh.AgentOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []policy.Mode{policy.WorkspaceWrite, policy.Plan, policy.Plan, policy.WorkspaceWrite} {
		if err := switchMode(ctx, h, a.Session(), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Session().Flush(ctx); err != nil {
		t.Fatal(err)
	}
	var got []string
	for e, err := range a.Session().Events(ctx, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == policy.ModeSwitched {
			got = append(got, string(e.Data))
		}
	}
	if got, want := strings.Join(got, " "), `{"mode":"plan","by":"--permission-mode"} {"mode":"workspace-write","by":"--permission-mode"}`; got != want {
		t.Errorf("the log says %s, want %s", got, want)
	}
}

func TestWhatIsEdited(t *testing.T) {
	for _, c := range []struct{ arguments, shown, edited, want string }{
		{`{"command":"make <x>","timeout":5}`, "make <x>", "make y", `{"command":"make y","timeout":5}`},
		{`{"file_path":"a"}`, "{\n  \"file_path\": \"a\"\n}", `{"file_path":"b"}`, `{"file_path":"b"}`},
		{`{"command":["no","text"]}`, "{\n  \"command\": [\n    \"no\",\n    \"text\"\n  ]\n}", `{}`, `{}`},
	} {
		shown, put, err := editable(json.RawMessage(c.arguments))
		if err != nil {
			t.Fatal(err)
		}
		got, err := put(c.edited)
		if shown != c.shown || string(got) != c.want || err != nil {
			t.Errorf("%s: shown %q, became %s, %v; want %q, %s", c.arguments, shown, got, err, c.shown, c.want)
		}
	}
}

func TestRulesAreChosenByTheirNumber(t *testing.T) {
	rules := []string{"one", "two"}
	for number, want := range map[string]string{"": "one", "1": "one", "2": "two", "3": "", "0": "", "-1": "", "x": ""} {
		if got, ok := ruleOf(rules, number); got != want || ok != (want != "") {
			t.Errorf("%q: got %q, %v", number, got, ok)
		}
	}
	if _, ok := ruleOf(nil, ""); ok {
		t.Error("there is a rule where none was offered")
	}
}
