package redaction

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/tool"
)

// with is a guard for an environment.
func with(c Config, environment ...string) *guard {
	r := newRedactor(fromEnvironment(environment, c))
	return &guard{secrets: func() *redactor { return r }}
}

// letters is n characters that look random, the same in each run.
func letters(n int) string {
	const all = "Ab3De5Gh7Jk9MnPqRsTuVwXyZ0aBcDeF"
	return strings.Repeat(all, n/len(all)+1)[:n]
}

func TestShapes(t *testing.T) {
	g := with(Config{})
	jwt := "eyJ" + letters(20) + "." + letters(30) + "." + letters(30)
	pem := "-----BEGIN RSA PRIVATE KEY-----\n" + letters(64) + "\n" + letters(64) + "\n-----END RSA PRIVATE KEY-----"
	for _, c := range []struct{ in, want string }{
		{"token ghp_" + letters(36) + " end", "token ‹secret:github-token› end"},
		{`{"k":"sk-` + letters(48) + `"}`, `{"k":"‹secret:api-key›"}`},
		{"sk-ant-api03-" + letters(40), "‹secret:anthropic-key›"},
		{"AKIA" + strings.ToUpper(letters(16)) + "\n", "‹secret:aws-key-id›\n"},
		{"Bearer " + jwt, "Bearer ‹secret:jwt›"},
		{"a\n" + pem + "\nb", "a\n‹secret:private-key›\nb"},
		{strings.ReplaceAll(pem, "\n", `\n`) + `"`, `‹secret:private-key›"`},
		{"-----BEGIN OPENSSH PRIVATE KEY-----\n" + letters(64) + "\n(cut", "‹secret:private-key›(cut"},
		{"postgres://app:hunter2@db:5432/x", "postgres://app:‹secret:password›@db:5432/x"},
		{"xoxb-123456789012-" + letters(24), "‹secret:slack-token›"},

		// What only looks alike.
		{"task-list sk-short ask-" + letters(40), "task-list sk-short ask-" + letters(40)},
		{"-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----", "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----"},
		{"https://user@host/x and a@b.c", "https://user@host/x and a@b.c"},
		{"postgres://app:$PASSWORD@db and http://u:***@h", "postgres://app:$PASSWORD@db and http://u:***@h"},
		{"eyJ" + letters(80), "eyJ" + letters(80)},
		{"commit 0123456789abcdef0123456789abcdef01234567", "commit 0123456789abcdef0123456789abcdef01234567"},
	} {
		if got := g.Redact(c.in); got != c.want {
			t.Errorf("Redact(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

func TestEnvironment(t *testing.T) {
	g := with(Config{Env: []string{"CUSTOMER"}, Ignore: []string{"BUILD_TOKEN"}},
		"OPENAI_API_KEY=abc/def+0123456789", "DATABASE_URL=postgres://u:p4ssw0rd!@h/db", "DB_PASSWORD=postgres", "GITHUB_PAT=ab12cd34ef",
		"CUSTOMER=4711", "BUILD_TOKEN=visible-1234567", "HOME=/home/alice", "MONKEY_ISLAND=guybrush-1990", "PWD=/work/dir-12345678", "PATH=/usr/bin:/bin", "WEIRD_SECRET=a\"b\\c\nd1234")
	for _, c := range []struct{ in, want string }{
		{"the key is abc/def+0123456789.", "the key is ‹secret:OPENAI_API_KEY›."},
		{"k=abc%2Fdef%2B0123456789&", "k=‹secret:OPENAI_API_KEY›&"},
		{"url postgres://u:p4ssw0rd!@h/db", "url ‹secret:DATABASE_URL›"},
		{"postgres is a database", "postgres is a database"},
		{"ab12cd34ef", "‹secret:GITHUB_PAT›"},
		{"customer 4711", "customer ‹secret:CUSTOMER›"},
		{"visible-1234567 /home/alice guybrush-1990 /work/dir-12345678 /usr/bin:/bin", "visible-1234567 /home/alice guybrush-1990 /work/dir-12345678 /usr/bin:/bin"},
		{`{"v":"a\"b\\c\nd1234"}`, `{"v":"‹secret:WEIRD_SECRET›"}`},
		{"a\"b\\c\nd1234", "‹secret:WEIRD_SECRET›"},
	} {
		if got := g.Redact(c.in); got != c.want {
			t.Errorf("Redact(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

// Laws: redacting is idempotent, leaves no secret, and writing in pieces gives what redacting the
// whole gives.
func TestLaws(t *testing.T) {
	value := letters(30) + "/+"
	g := with(Config{}, "SERVICE_TOKEN="+value)
	part := rapid.OneOf(
		rapid.SampledFrom([]string{value, value[:20], "ghp_" + letters(36), "sk-" + letters(40), "\n", " ", "x", "://u:secret@h ", "‹secret:X›", "-----BEGIN PRIVATE KEY-----\n" + letters(60) + "\n-----END PRIVATE KEY-----"}),
		rapid.Custom(func(t *rapid.T) string {
			return strings.Repeat("line of ordinary text\n", rapid.IntRange(0, 2000).Draw(t, "lines"))
		}),
	)
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(part, 0, 12).Draw(t, "parts"), "")
		whole := g.Redact(text)
		if again := g.Redact(whole); again != whole {
			t.Fatalf("redacting again changes %q", whole)
		}
		if strings.Contains(whole, value) {
			t.Fatal("the value is still there")
		}
		var out bytes.Buffer
		w := g.Writer(&out)
		n := rapid.IntRange(1, 5000).Draw(t, "n")
		for rest := text; rest != ""; rest = rest[min(n, len(rest)):] {
			if _, err := w.Write([]byte(rest[:min(n, len(rest))])); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if out.String() != whole {
			t.Fatalf("in pieces of %d it differs", n)
		}
	})
}

func FuzzRedact(f *testing.F) {
	f.Add("ghp_"+letters(36), "v4lue-1234")
	f.Add("a://b:c@d -----BEGIN PRIVATE KEY-----", "x")
	f.Fuzz(func(t *testing.T, text, value string) {
		g := with(Config{Env: []string{"X"}}, "X="+value)
		once := g.Redact(text)
		if strings.Contains(value, "secret") || len(strings.TrimSpace(value)) < leastSecret {
			return // a mark itself may hold such a value
		}
		if again := g.Redact(once); again != once {
			t.Errorf("%q becomes %q and then %q", text, once, again)
		}
	})
}

// mounted is a tree with the plugin.
func mounted(t *testing.T) *plugin.Tree {
	t.Helper()
	tree := plugin.New(slog.New(slog.DiscardHandler))
	t.Cleanup(func() { _ = tree.Close(context.Background()) })
	def := Plugin.Definition()
	prepared, err := def.Bind(def.NewConfig())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tree.Root().MountAll(prepared.Child("redaction")); err != nil {
		t.Fatal(err)
	}
	if err := tree.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestAMarkIsNeverWrittenBack(t *testing.T) {
	s := mounted(t).Root()
	define := tool.New(tool.Spec{Name: "write"}, func(context.Context, *tool.Call, struct {
		Content string `json:"content"`
	}) (tool.Result, error) {
		return tool.Text("ok"), nil
	})
	for arguments, want := range map[string]tool.Decision{
		`{"content":"key = ‹secret:OPENAI_API_KEY›"}`:             tool.Deny,
		`{"content":"key = \u2039secret:OPENAI_API_KEY\u203a"}`:   tool.Deny,
		`{"content":"the text ‹secret: is explained in docs"}`:    tool.Allow,
		`{"content":"ordinary"}`:                                  tool.Allow,
		`{"content":"two: ‹secret:github-token› and ‹secret:x›"}`: tool.Deny,
	} {
		p := &tool.Pending{Call: &tool.Call{Name: "write", Arguments: json.RawMessage(arguments)}, Definition: define}
		v, err := tool.PreExecute.Run(t.Context(), s, p, func(_ context.Context, p *tool.Pending) (tool.Verdict, error) { return p.Verdict, nil })
		if err != nil || v.Decision != want {
			t.Errorf("%s: %v %v, want %v", arguments, v, err, want)
		}
	}
}

func TestResultsAreRedacted(t *testing.T) {
	s := mounted(t).Root()
	token := "ghp_" + letters(36)
	run := func(result tool.Result, err error) (tool.Result, error) {
		return tool.PostExecute.Run(t.Context(), s, &tool.Prepared{Call: &tool.Call{Name: "read"}}, func(context.Context, *tool.Prepared) (tool.Result, error) {
			return result, err
		})
	}
	r := tool.Text("found " + token)
	r.Content = append(r.Content, llm.Text("plain"), llm.Text(token))
	r.Meta = struct {
		Path string
		Hunk []string
	}{"f", []string{"+" + token}}
	r.Context = []llm.Message{llm.UserText(token)}
	r.Error = &session.ToolErrorData{Name: "ToolError", Code: "x"}
	before := r.Content[0].Text
	got, err := run(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(got)
	if err != nil || bytes.Contains(text, []byte(token)) {
		t.Errorf("%v: %s", err, text)
	}
	if n := bytes.Count(text, []byte("secret:github-token")); n != 4 {
		t.Errorf("%d marks, want 4: %s", n, text)
	}
	if r.Content[0].Text != before {
		t.Error("the tool's own blocks were changed")
	}
	if _, err := run(tool.Result{}, errors.New("no access with "+token)); err == nil || strings.Contains(err.Error(), token) {
		t.Errorf("error %v", err)
	}
}

func TestTheServiceIsThere(t *testing.T) {
	var got string
	tree := mounted(t)
	user, err := tree.Root().Mount("user", []plugin.Need{policy.Redaction.Required()}, func(_ context.Context, s *plugin.Scope) error {
		got = policy.Redaction.From(s).Redact("ghp_" + letters(36))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if state, err := user.State(); err != nil || got != "‹secret:github-token›" {
		t.Errorf("%v %v, %q", state, err, got)
	}
}

func BenchmarkRedact(b *testing.B) {
	text := strings.Repeat("func main() { fmt.Println(\"hello\", 42) } // sk- and ://\n", 900)
	for _, n := range []int{0, 20} {
		var environment []string
		for i := range n {
			environment = append(environment, fmt.Sprintf("SERVICE_%d_TOKEN=%d%s", i, i, letters(40)))
		}
		g := with(Config{}, environment...)
		b.Run(fmt.Sprintf("%d secrets, %d kB", n, len(text)>>10), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				g.Redact(text)
			}
		})
	}
}
