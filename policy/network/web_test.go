package network

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
)

func newWeb(s *ruleset, known map[string][]string) *web {
	return &web{
		rules: func(_, _ string, granted []string) *ruleset {
			all := *s
			all.grant(granted)
			return &all
		},
		dialer: &dialer{lookup: (&names{known: known}).lookup}, maxBytes: 1 << 20, timeout: 5 * time.Second,
	}
}

// get fetches an address and reads the body to its end.
func (w *web) get(ctx context.Context, address string) (body string, code int, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", 0, err
	}
	answer, err := w.Do(ctx, &tool.Call{}, r)
	if err != nil {
		return "", 0, err
	}
	b, err := io.ReadAll(answer.Body)
	return string(b), answer.StatusCode, errors.Join(err, answer.Body.Close())
}

func TestFetching(t *testing.T) {
	port, open := server(t, false, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // an answer that comes before the body was sent would hide what became of that
		switch r.URL.Path {
		case "/zipped":
			w.Header().Set("Content-Encoding", r.Header.Get("Accept-Encoding"))
			z := gzip.NewWriter(w)
			_, _ = io.WriteString(z, "unpacked")
			_ = z.Close()
		case "/odd":
			w.Header().Set("Content-Encoding", "br")
		case "/broken":
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, "this is not packed")
		case "/moved":
			http.Redirect(w, r, "/host", http.StatusFound)
		default:
			w.WriteHeader(http.StatusTeapot)
			_, _ = io.WriteString(w, r.Host)
		}
	})
	w := newWeb(rules(t, open, nil), here)
	at := "http://A.test.:" + port
	for path, want := range map[string]string{"/host": "a.test:" + port, "/moved": "a.test:" + port, "/zipped": "unpacked"} {
		if body, code, err := w.get(t.Context(), at+path); body != want || err != nil || (code == 200) != (path == "/zipped") {
			t.Errorf("%s: %q, %d, %v", path, body, code, err)
		}
	}
	for path, want := range map[string]string{"/odd": `packed as "br"`, "/broken": "unpack the answer"} {
		if _, _, err := w.get(t.Context(), at+path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, address := range []string{"ftp://a.test/", "http://u:p@a.test:" + port + "/", "http://a_b/", "http:///x"} {
		if _, _, err := w.get(t.Context(), address); err == nil {
			t.Error(address)
		}
	}
	// What a person allowed for the call counts.
	w = newWeb(rules(t, []string{"127.0.0.1:" + port}, nil), here)
	if _, _, err := w.get(t.Context(), at+"/host"); !isRefused(err) {
		t.Error(err)
	}
	granted := workspace.WithGrant(t.Context(), workspace.Grant{Hosts: []string{"a.test:" + port}})
	if body, _, err := w.get(granted, at+"/host"); err != nil || body != "a.test:"+port {
		t.Error(body, err)
	}
	w.maxUpload = 10
	for _, c := range []struct {
		ctx     context.Context
		body    string
		refused bool
	}{{t.Context(), "0123456789", false}, {t.Context(), "0123456789x", true}, {granted, "0123456789x", false}} {
		w.rules = newWeb(rules(t, open, nil), here).rules
		for _, chunked := range []bool{false, true} {
			var b io.Reader = strings.NewReader(c.body)
			if chunked {
				b = io.MultiReader(b)
			}
			r, _ := http.NewRequestWithContext(c.ctx, http.MethodPost, at+"/host", b)
			answer, err := w.Do(c.ctx, &tool.Call{}, r)
			if err == nil {
				_ = answer.Body.Close()
			}
			if isRefused(err) != c.refused || err != nil && !c.refused {
				t.Errorf("%q, chunked %v: %v", c.body, chunked, err)
			}
		}
	}
}

func TestCertificatesOfServersAreChecked(t *testing.T) {
	port, open := server(t, true, func(http.ResponseWriter, *http.Request) { t.Error("it was asked") })
	_, _, err := newWeb(rules(t, open, nil), here).get(t.Context(), "https://a.test:"+port+"/")
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok {
		t.Error(err)
	}
}

func isRefused(err error) bool {
	_, ok := errors.AsType[*policy.RefusedError](err)
	return ok
}

// TestTrust_N02_RedirectsAreCheckedForTools follows no redirect to what is private, and not more than five.
func TestTrust_N02_RedirectsAreCheckedForTools(t *testing.T) {
	at, reached := bait(t)
	to := ""
	port, open := server(t, false, func(w http.ResponseWriter, r *http.Request) {
		hop, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		switch {
		case err != nil:
			http.Redirect(w, r, to, http.StatusFound)
		case hop > 0:
			http.Redirect(w, r, "/"+strconv.Itoa(hop-1), http.StatusFound)
		}
	})
	w := newWeb(rules(t, append(open, "*"), nil), map[string][]string{"a.test": {"127.0.0.1"}, "rebound.test": {"127.0.0.1"}})
	for _, to = range []string{
		"http://169.254.169.254/latest/meta-data/", "http://" + at.String() + "/", "http://0.0.0.0:" + port + "/", "http://[::1]:" + port + "/", "http://rebound.test:1/", "http://localhost:1/",
	} {
		if _, _, err := w.get(t.Context(), "http://a.test:"+port+"/x"); !isRefused(err) {
			t.Errorf("%s: %v", to, err)
		}
	}
	for _, to = range []string{"http://[::ffff:127.0.0.1]/", "http://2130706433/", "file:///etc/passwd", "http://0x7f.1/"} {
		if _, _, err := w.get(t.Context(), "http://a.test:"+port+"/x"); err == nil {
			t.Error(to)
		}
	}
	if _, _, err := w.get(t.Context(), "http://a.test:"+port+"/5"); err != nil {
		t.Error(err)
	}
	_, _, err := w.get(t.Context(), "http://a.test:"+port+"/6")
	if limit, ok := errors.AsType[*policy.LimitError](err); !ok || limit.Limit != policy.LimitRedirects {
		t.Error(err)
	}
	if reached() {
		t.Error("the listener was reached")
	}
}

// TestTrust_N09_Caps stops bombs, drips and answers without an end at a limit, without holding them in memory.
func TestTrust_N09_Caps(t *testing.T) {
	stop := make(chan struct{})
	port, open := server(t, false, func(w http.ResponseWriter, r *http.Request) {
		chunk := make([]byte, 64<<10)
		switch r.URL.Path {
		case "/bomb", "/bigger":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			for range (256 << 20) / len(chunk) {
				if _, err := z.Write(chunk); err != nil {
					return
				}
			}
			_ = z.Close()
		case "/endless":
			for {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		case "/drip", "/silent":
			for i := 0; ; i++ {
				if r.URL.Path == "/drip" {
					_, _ = w.Write([]byte("."))
					w.(http.Flusher).Flush()
				}
				select {
				case <-stop:
					return
				case <-r.Context().Done():
					return
				case <-time.After(time.Second):
				}
			}
		case "/head":
			for i := range 10_000 {
				w.Header().Set("X-"+strconv.Itoa(i), strings.Repeat("x", 100))
			}
		case "/exact":
			_, _ = w.Write(make([]byte, 1<<20))
		}
	})
	t.Cleanup(func() { close(stop) })
	for path, c := range map[string]struct {
		max   int64
		want  policy.Limit
		bytes int
	}{
		"/bomb": {100 << 20, policy.LimitRatio, 2 << 20}, "/bigger": {1 << 20, policy.LimitBytes, 1 << 20}, "/endless": {1 << 20, policy.LimitBytes, 1 << 20},
		"/drip": {1 << 20, policy.LimitTime, 10}, "/silent": {1 << 20, policy.LimitTime, 0}, "/exact": {1 << 20, "", 1 << 20},
	} {
		w := newWeb(rules(t, open, nil), here)
		w.maxBytes = c.max
		if c.want == policy.LimitTime {
			w.timeout = 300 * time.Millisecond
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a.test:"+port+path, nil)
		began, n := time.Now(), int64(0)
		answer, err := w.Do(t.Context(), &tool.Call{}, r)
		if err == nil {
			n, err = io.Copy(io.Discard, answer.Body)
			if _, again := answer.Body.Read(make([]byte, 1)); c.want != "" && again != err {
				t.Errorf("%s: read on after %v", path, again)
			}
			_ = answer.Body.Close()
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		limit, ok := errors.AsType[*policy.LimitError](err)
		if ok != (c.want != "") || ok && limit.Limit != c.want || !ok && err != nil {
			t.Errorf("%s: %v, want %s", path, err, c.want)
		}
		if n > int64(c.bytes) || c.want == policy.LimitBytes && n != int64(c.bytes) {
			t.Errorf("%s: %d bytes", path, n)
		}
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("%s took %s", path, took)
		}
		if grown := int64(after.HeapInuse) - int64(before.HeapInuse); grown > 8<<20 {
			t.Errorf("%s: the heap has grown by %d bytes", path, grown)
		}
	}
	if _, _, err := newWeb(rules(t, open, nil), here).get(t.Context(), "http://a.test:"+port+"/head"); err == nil {
		t.Error("a head without an end")
	}
}

// keeper has rules of one folder and session.
type keeper struct{ policy.RuleKeeper }

func (keeper) Hosts(session, dir string) (allow, deny []string) {
	if session != "s1" || dir != "/project" {
		return nil, nil
	}
	return []string{"rule.test", "denied.test"}, []string{"denied.test"}
}

// TestThePlugin: what a command may reach is what the configuration, the rules and a grant say.
func TestThePlugin(t *testing.T) {
	for _, mode := range []Proxy{ProxyOn, ProxyOff} {
		tree := plugin.New(nil)
		c := Plugin.Default()
		c.Proxy, c.Allow, c.Deny = mode, []string{"config.test"}, []string{"never.test"}
		var scope *plugin.Scope
		var client policy.WebClient
		if _, err := tree.Root().MountAll(
			plugin.Child{Name: "permissions", Start: func(_ context.Context, s *plugin.Scope) error { return policy.Rules.Provide(s, keeper{}) }},
			plugin.Child{Name: "network", Needs: Plugin.Needs, Start: func(ctx context.Context, s *plugin.Scope) error { return Plugin.Start(ctx, s, c) }},
			plugin.Child{Name: "workspace", Needs: []plugin.Need{policy.Web.Required()}, Start: func(_ context.Context, s *plugin.Scope) error {
				scope, client = s, policy.Web.From(s)
				return nil
			}},
		); err != nil {
			t.Fatal(err)
		}
		if err := tree.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx := workspace.WithGrant(t.Context(), workspace.Grant{Hosts: []string{"granted.test:443", "never.test:443"}})
		got, err := workspace.Confining.Run(ctx, scope, &workspace.Confinement{Session: "s1", Dir: "/project"}, func(_ context.Context, c *workspace.Confinement) (*workspace.Confinement, error) { return c, nil })
		if err != nil {
			t.Fatal(err)
		}
		if mode == ProxyOff {
			if got.Network != nil {
				t.Error("there is a proxy although it is off")
			}
		} else {
			p := got.Network.(*proxy)
			for name, want := range map[string]bool{"config.test": true, "rule.test": true, "granted.test": true, "denied.test": false, "never.test": false, "other.test": false} {
				if ok := p.rules().check(target{host{name: name}, 443}) == nil; ok != want {
					t.Errorf("%s is allowed: %v", name, ok)
				}
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			_ = l.Close()
			if refusals := got.Network.Serve(t.Context(), l); refusals != nil {
				t.Error(refusals)
			}
		}
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://other.test/", nil)
		if _, err := client.Do(t.Context(), &tool.Call{}, r); !isRefused(err) {
			t.Error(err)
		}
		if err := tree.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}
