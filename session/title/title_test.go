package title

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"unicode"
	"unicode/utf8"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTitleOfAPrompt(t *testing.T) {
	for prompt, want := range map[string]string{
		"Fix the bug":                               "Fix the bug",
		"  Fix\n\tthe  bug ":                        "Fix the bug",
		"":                                          "",
		" \n\x00":                                   "",
		strings.Repeat("a", 60):                     strings.Repeat("a", 60),
		strings.Repeat("a", 61):                     strings.Repeat("a", 59) + "…",
		strings.Repeat("a", 60) + " b":              strings.Repeat("a", 59) + "…",
		strings.Repeat("word ", 12):                 strings.TrimSpace(strings.Repeat("word ", 12)),
		strings.Repeat("word ", 13):                 strings.TrimSpace(strings.Repeat("word ", 12)) + "…",
		strings.Repeat("语", 70):                     strings.Repeat("语", 59) + "…",
		strings.Repeat("word ", 1_000_000):          strings.TrimSpace(strings.Repeat("word ", 12)) + "…",
		"a\x1b[31mred\x1b[0m b":                     "a red b",
		"a\x1b]0;owned\x07b\x1b]8;;http://x\x1b\\c": "a b c",
		"a\x1b]0;never ended":                       "a",
		"a\x1b":                                     "a",
		"a\x1bcb":                                   "a b",
		"a\x1b[":                                    "a",
		"a\x1b[\x07b":                               "a b",
		"a\u202eb\u200bc\ufeffd\u2066e":             "abcde",
		"a\u0085b\u009bc\x7fd":                      "a b c d",
		"a\xffb":                                    "ab",
		"a\u2028b\u00a0c":                           "a b c",
	} {
		if got := Of(prompt); got != want {
			t.Errorf("%.40q: got %q, want %q", prompt, got, want)
		}
	}
}

func isPlain(r rune) bool {
	return r == '…' || !unicode.IsControl(r) && !unicode.Is(unicode.Cf, r) && (r == ' ' || !unicode.IsSpace(r))
}

func TestATitleIsShortPlainAndStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prompt := rapid.StringOf(rapid.OneOf(rapid.Rune(), rapid.SampledFrom([]rune("\x1b[]P;m \n\a\\\u202e")))).Draw(t, "prompt")
		title := Of(prompt)
		if n := utf8.RuneCountInString(title); n > longest || !utf8.ValidString(title) {
			t.Fatalf("%q has %d characters", title, n)
		}
		if strings.ContainsFunc(title, func(r rune) bool { return !isPlain(r) }) || title != strings.TrimSpace(title) {
			t.Fatalf("%q is not plain", title)
		}
		if again := Of(title); again != title {
			t.Fatalf("the title of %q is %q", title, again)
		}
	})
}

func FuzzOf(f *testing.F) {
	f.Add("a\x1b[31mb")
	f.Add("\x1b]\x1b\x1b\\")
	f.Fuzz(func(t *testing.T, prompt string) {
		if title := Of(prompt); strings.ContainsFunc(title, func(r rune) bool { return !isPlain(r) }) {
			t.Errorf("%q is not plain", title)
		}
	})
}

// prompt is a message that waits.
func prompt(id, kind, text string) session.Pending {
	m := llm.UserText(text)
	m.Source.Kind = kind
	return session.Pending{ID: id, Message: m}
}

// speaker is an agent of which nothing but the session matters.
type speaker struct {
	agent.Agent
	session *session.Session
}

func (s speaker) Session() *session.Session { return s.session }

func TestASessionIsNamedOnceAfterItsFirstPrompt(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		tree := plugin.New(nil)
		var s *session.Session
		_, err := tree.Root().MountAll(
			plugin.Child{Name: "session-title", Start: func(ctx context.Context, s *plugin.Scope) error { return Plugin.Start(ctx, s, struct{}{}) }},
			plugin.Child{Name: "sessions", Needs: session.StorePlugin.Needs, Start: func(ctx context.Context, s *plugin.Scope) error {
				return session.StorePlugin.Start(ctx, s, struct{}{})
			}},
			plugin.Child{Name: "test", Needs: []plugin.Need{session.Service.Required()}, Start: func(ctx context.Context, scope *plugin.Scope) (err error) {
				store := session.Service.From(scope)
				if s, err = store.Prepare(ctx, session.PrepareOptions{Cwd: dir}); err != nil {
					return err
				}
				if _, err = store.Enter(s); err != nil {
					return err
				}
				return store.Announce(ctx, s)
			}},
		)
		if err == nil {
			err = tree.Settle(context.Background())
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			name   string
			inputs []session.Pending
			want   string
		}{
			{"nothing", nil, ""},
			{"a plugin speaks", []session.Pending{prompt("1", "plugin", "Remember the rules")}, ""},
			{"without words", []session.Pending{prompt("2", "", " \n")}, ""},
			{"two people at once", []session.Pending{prompt("3", "", "Fix the bug"), prompt("4", "user", "And the other")}, "Fix the bug"},
			{"later", []session.Pending{prompt("5", "user", "Thanks")}, "Fix the bug"},
		} {
			input := &agent.StepInput{Step: agent.Step{Agent: speaker{session: s}}, Messages: step.inputs}
			admitted, err := agent.PreStep.Run(t.Context(), tree.Root(), input, func(_ context.Context, in *agent.StepInput) (agent.Admission, error) {
				return agent.Admission{Messages: in.Messages}, nil
			})
			if err != nil || len(admitted.Messages) != len(step.inputs) {
				t.Fatalf("%s: %d messages are admitted, %v", step.name, len(admitted.Messages), err)
			}
			if got := s.State().Title; got != step.want {
				t.Errorf("%s: the title is %q, want %q", step.name, got, step.want)
			}
		}
		metas := 0
		for e, err := range s.Events(context.Background(), 0) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Type == session.Meta {
				metas++
			}
		}
		if metas != 1 {
			t.Errorf("%d titles are in the log", metas)
		}
		if err := tree.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}
