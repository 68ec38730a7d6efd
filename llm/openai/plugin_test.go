package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/dsh-harness/dsh/internal/testllm"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBaseURLs(t *testing.T) {
	for _, tc := range []struct {
		name, base string
		dialect    Dialect
		want       string
	}{
		{"deepseek", "", "", "https://api.deepseek.com/chat/completions"},
		{"deepseek", "https://api.deepseek.com/", "", "https://api.deepseek.com/chat/completions"},
		{"deepseek", "https://api.deepseek.com/v1", "", "https://api.deepseek.com/v1/chat/completions"},
		{"deepseek", "http://127.0.0.1:8080/v1", "", "http://127.0.0.1:8080/v1/chat/completions"},
		{"deepseek", "http://127.0.0.1:8080/v1/chat/completions", "", "http://127.0.0.1:8080/v1/chat/completions"},
		{"openai", "", "", "https://api.openai.com/v1/chat/completions"},
		{"openai", "https://api.openai.com", "", "https://api.openai.com/v1/chat/completions"},
		{"openai", "https://api.openai.com/v1/", "", "https://api.openai.com/v1/chat/completions"},
		{"local", "http://[::1]:11434", "", "http://[::1]:11434/v1/chat/completions"},
		{"local", "http://gpu/openai/v1", "", "http://gpu/openai/v1/chat/completions"},
		{"mirror", "https://mirror.test", DeepSeek, "https://mirror.test/chat/completions"},
	} {
		a := provider(t, func(c *Config) { c.Name, c.BaseURL, c.Dialect = tc.name, tc.base, tc.dialect })
		if got := a.client.Base.JoinPath("chat/completions").String(); got != tc.want {
			t.Errorf("%s %q: %s", tc.name, tc.base, got)
		}
	}
}

func TestConfig(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"":                                     func(*Config) {},
		`provider "local": baseURL is missing`: func(c *Config) { c.Name = "local" },
		`name "a/b"`:                           func(c *Config) { c.Name, c.BaseURL = "a/b", "http://x" },
		`base URL "x"`:                         func(c *Config) { c.BaseURL = "x" },
		`dialect "klingon"`:                    func(c *Config) { c.Dialect = "klingon" },
		`maxTokensField "x"`:                   func(c *Config) { c.MaxTokensField = "x" },
		"must be above zero":                   func(c *Config) { c.IdleTimeout = 0 },
		`header "a b"`:                         func(c *Config) { c.Headers = map[string]string{"a b": "x"} },
		`header "x"`:                           func(c *Config) { c.Headers = map[string]string{"x": "a\nb"} },
		`models[0]: provider "x": the row's provider is "deepseek"`: func(c *Config) { c.Models = []llm.Model{{ID: "a", Provider: "x"}} },
		"models[1]: id is missing":                                  func(c *Config) { c.Models = []llm.Model{{ID: "a"}, {}} },
	} {
		c := defaultConfig()
		c.Name = "deepseek"
		change(&c)
		if err := c.Validate(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// TestPlugin mounts a row, and finds the provider while it is there.
func TestPlugin(t *testing.T) {
	tree := plugin.New(nil)
	mount := func(change func(*Config)) (*plugin.Node, error) {
		d := Plugin.Definition()
		c, ok := d.NewConfig().(*Config)
		if !ok {
			t.Fatalf("%T", d.NewConfig())
		}
		change(c)
		n, err := tree.Root().Mount(c.Name, nil, func(ctx context.Context, s *plugin.Scope) error { return Plugin.Start(ctx, s, *c) })
		if err != nil {
			t.Fatal(err)
		}
		return n, n.Settle(t.Context())
	}
	n, err := mount(func(c *Config) { c.Name = "deepseek" })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mount(func(c *Config) { c.Name = "local" }); err == nil {
		t.Error("a provider without a base URL was mounted")
	}
	p, ok := llm.Providers.Get(tree.Root(), "deepseek")
	if !ok || len(p.Models) != 2 {
		t.Fatalf("%+v", p)
	}
	flash := p.Models[0]
	if flash.Ref() != "deepseek/deepseek-v4-flash" || flash.Window != 1_000_000 || flash.MaxOutput != 256_000 || flash.DefaultEffort != "high" {
		t.Errorf("%+v", flash)
	}
	if _, known := flash.Price.Cost(llm.Usage{Input: 1}); known {
		t.Error("a price is known that nobody gave")
	}
	t.Setenv("DEEPSEEK_API_KEY", "")
	if err := p.Ready(); err == nil || err.Error() != "deepseek needs a key: set the environment variable DEEPSEEK_API_KEY (get one at https://platform.deepseek.com/api_keys)" {
		t.Error(err)
	}
	t.Setenv("DEEPSEEK_API_KEY", "sk-1")
	if err := p.Ready(); err != nil {
		t.Error(err)
	}
	if err := n.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, ok := llm.Providers.Get(tree.Root(), "deepseek"); ok {
		t.Error("the provider outlives its row")
	}
	if err := tree.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestAMissingKeyIsSaidBeforeAnythingIsSent also holds for a key that was refused.
func TestKeys(t *testing.T) {
	srv, a := connected(t, nil)
	t.Setenv("DEEPSEEK_API_KEY", " ")
	if e := failure(t, ask(t, a, user("x")).Err); e.Code != llm.CodeMissingKey || len(srv.Requests()) != 0 {
		t.Errorf("%+v", e)
	}
	t.Setenv("DEEPSEEK_API_KEY", "sk-new-0123456789")
	srv.Script(testllm.Fail(401, "Authentication Fails, Your api key: sk-new-0123456789 is invalid"), testllm.Text("ok"))
	e := failure(t, ask(t, a, user("x")).Err)
	want := "deepseek: " + a.client.Base.Host + " answered 401: Authentication Fails, Your api key: [key] is invalid; check the key in DEEPSEEK_API_KEY, or get one at https://platform.deepseek.com/api_keys"
	if e.Code != llm.CodeAuth || e.Error() != want {
		t.Errorf("%+v", e)
	}
	encoded, err := json.Marshal(e)
	if err != nil || strings.Contains(string(encoded), "sk-new") {
		t.Errorf("%s %v", encoded, err)
	}
	want2 := "sk-new-0123456789"
	if got := srv.Requests()[0].Key; got != want2 {
		t.Errorf("the key was sent as %q", got)
	}
}

func TestHeadersOfARow(t *testing.T) {
	srv, a := connected(t, func(c *Config) { c.Headers = map[string]string{"X-Team": "blue", "User-Agent": "mine"} })
	srv.Script(testllm.Text("ok"))
	ask(t, a, user("x"))
	if h := srv.Requests()[0].Header; h.Get("X-Team") != "blue" || h.Get("User-Agent") != "mine" || srv.Requests()[0].Path != "/v1/chat/completions" {
		t.Errorf("%v", h)
	}
}

// TestTrust_A03_Stalls: silence is a timeout that is worth another try, wherever it comes.
func TestTrust_A03_Stalls(t *testing.T) {
	head := `data: {"choices":[{"delta":{"role":"assistant","content":""}}]}` + "\n\n"
	text := `data: {"choices":[{"delta":{"content":"par"}}]}` + "\n\n"
	call := `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"write","arguments":"{\"file"}}]}}]}` + "\n\n"
	for name, said := range map[string]string{"at 0 bytes": "", "after the head": head, "after deltas": head + text, "in the arguments": text + call, "inside an event": text + call[:40]} {
		srv, a := connected(t, func(c *Config) { c.IdleTimeout = 50 * time.Millisecond })
		turn := testllm.Stream(said)
		turn.End = testllm.Hold
		srv.Script(turn, testllm.Text("whole"))
		if e := failure(t, ask(t, a, user("x")).Err); e.Code != llm.CodeTimeout || !e.Code.Retryable() {
			t.Errorf("%s: %+v", name, e)
		}
		want(t, ask(t, a, user("x")), llm.Text("whole"))
	}
	// Comments are a sign of life, but an answer that never begins ends as well.
	srv, a := connected(t, func(c *Config) { c.HeaderTimeout = 50 * time.Millisecond })
	turn := testllm.Text("late")
	turn.Wait = make(chan struct{})
	srv.Script(turn)
	if e := failure(t, ask(t, a, user("x")).Err); e.Code != llm.CodeTimeout || !strings.Contains(e.Error(), "did not answer in time") {
		t.Errorf("%+v", e)
	}
}

// TestOneConnectionForAllSteps: an answer is read to its end, so that the next
// request need not connect again.
func TestOneConnectionForAllSteps(t *testing.T) {
	t.Setenv("DEEPSEEK_API_KEY", "sk-1")
	var connections atomic.Int32
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for _, event := range strings.SplitAfter(say(delta(`{"content":"x"}`)), "\n\n") {
			fmt.Fprint(w, event)
			_ = http.NewResponseController(w).Flush()
		}
	}))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	srv.Start()
	defer srv.Close()
	a := provider(t, func(c *Config) { c.BaseURL = srv.URL })
	defer a.client.CloseIdle()
	for range 20 {
		want(t, ask(t, a, user("x")), llm.Text("x"))
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// BenchmarkStep is a request and its answer over a connection of the loopback, in a
// session of 1,000 messages.
func BenchmarkStep(b *testing.B) {
	b.Setenv("DEEPSEEK_API_KEY", "sk-1")
	srv := testllm.New(b)
	srv.Strict(testllm.Rules{Unchecked: true})
	a := provider(b, func(c *Config) { c.BaseURL = srv.URL })
	defer a.client.CloseIdle()
	req := &llm.Request{Header: noHeader, History: llm.NewHistory(steps(500)...)}
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range a.Stream(b.Context(), req) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}
