package network

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/dsh-harness/dsh/workspace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// running is a proxy that serves.
type running struct {
	t        *testing.T
	addr     string
	listener net.Listener
	done     chan []workspace.Refusal
}

func serve(t *testing.T, p *proxy) *running {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &running{t: t, addr: l.Addr().String(), listener: l, done: make(chan []workspace.Refusal, 1)}
	go func() { r.done <- p.Serve(context.Background(), l) }()
	t.Cleanup(func() { r.stop() })
	return r
}

// stop ends the proxy, which has to come soon, and returns what it refused.
func (r *running) stop() []workspace.Refusal {
	r.t.Helper()
	_ = r.listener.Close()
	select {
	case refusals, ok := <-r.done:
		if ok {
			close(r.done)
		}
		return refusals
	case <-time.After(5 * time.Second):
		r.t.Error("the proxy does not end")
		return nil
	}
}

func (r *running) dial() net.Conn {
	r.t.Helper()
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}

// exchange sends bytes and returns all that comes back.
func (r *running) exchange(send string) string {
	r.t.Helper()
	c := r.dial()
	_, _ = io.WriteString(c, send) // it may be refused before its end
	answer, _ := io.ReadAll(c)
	return string(answer)
}

func (r *running) client() *http.Client {
	return &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: r.addr}), DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // who answers is a test server
	}, Timeout: 10 * time.Second}
}

func newProxy(s *ruleset, known map[string][]string) *proxy {
	return &proxy{rules: func() *ruleset { return s }, dialer: &dialer{lookup: (&names{known: known}).lookup}, limits: standardLimits()}
}

// server is an HTTP server on the loopback, with the rules that open it to the name a.test.
func server(t *testing.T, secure bool, h http.HandlerFunc) (port string, open []string) {
	srv := httptest.NewUnstartedServer(h)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	if secure {
		srv.StartTLS()
	} else {
		srv.Start()
	}
	t.Cleanup(srv.Close)
	at := srv.Listener.Addr().String()
	_, port, _ = net.SplitHostPort(at)
	return port, []string{"a.test", at}
}

var here = map[string][]string{"a.test": {"127.0.0.1"}, "b.test": {"127.0.0.1"}}

func TestRequestsPass(t *testing.T) {
	for _, secure := range []bool{false, true} {
		var got *http.Request
		var sent []byte
		port, open := server(t, secure, func(w http.ResponseWriter, r *http.Request) {
			got = r
			sent, _ = io.ReadAll(r.Body)
			w.Header().Set("Keep-Alive", "timeout=5")
			w.Header().Set("X-Own", "yes")
			w.WriteHeader(http.StatusTeapot)
			_, _ = w.Write(bytes.Repeat([]byte("x"), 1<<20))
		})
		r := serve(t, newProxy(rules(t, open, nil), here))
		scheme := "http"
		if secure {
			scheme = "https"
		}
		req, _ := http.NewRequestWithContext(t.Context(), "PUT", scheme+"://A.TEST.:"+port+"/p?q=1;2", strings.NewReader("body"))
		req.Header.Set("Proxy-Authorization", "Basic c2VjcmV0")
		req.Header.Set("X-Hop", "h")
		req.Header.Set("Connection", "X-Hop")
		answer, err := r.client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || len(b) != 1<<20 || answer.StatusCode != http.StatusTeapot || answer.Header.Get("X-Own") != "yes" {
			t.Errorf("%v: %d bytes, %v", answer.Status, len(b), err)
		}
		if string(sent) != "body" || got.URL.RequestURI() != "/p?q=1;2" || got.Method != "PUT" {
			t.Errorf("%s %s: %q", got.Method, got.URL, sent)
		}
		if !secure {
			if got.Host != "a.test:"+port {
				t.Errorf("host %q", got.Host)
			}
			for _, name := range []string{"Proxy-Authorization", "X-Hop", "X-Forwarded-For", "Via"} {
				if got.Header.Get(name) != "" {
					t.Errorf("%s is passed on", name)
				}
			}
			if answer.Header.Get("Keep-Alive") != "" {
				t.Error("a header of the connection is passed on")
			}
		}
		if refusals := r.stop(); len(refusals) != 0 {
			t.Error(refusals)
		}
	}
}

// What is streamed arrives while it is sent.
func TestAnswersAreStreamed(t *testing.T) {
	more := make(chan struct{})
	port, open := server(t, false, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "first")
		w.(http.Flusher).Flush()
		<-more
		_, _ = io.WriteString(w, "second")
	})
	r := serve(t, newProxy(rules(t, open, nil), here))
	answer, err := r.client().Get("http://a.test:" + port + "/")
	if err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 5)
	_, err = io.ReadFull(answer.Body, first)
	close(more)
	rest, err2 := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if string(first) != "first" || string(rest) != "second" || err != nil || err2 != nil {
		t.Error(string(first), string(rest), err, err2)
	}
}

// A refusal says which rule, and how to allow it; each is reported once, and not without end.
func TestRefusals(t *testing.T) {
	at, reached := bait(t)
	p := newProxy(rules(t, []string{"a.com", "a.test"}, []string{"x.com"}), here)
	r := serve(t, p)
	for range 3 {
		for _, c := range []struct{ send, want string }{
			{"CONNECT evil.com:443 HTTP/1.1\r\nHost: evil.com\r\n\r\n", "the rule WebFetch(domain:evil.com)"},
			{"GET http://evil.com/ HTTP/1.1\r\nHost: a.com\r\n\r\n", "the rule WebFetch(domain:evil.com)"},
			{"CONNECT x.com:443 HTTP/1.1\r\nHost: x.com\r\n\r\n", "the rule that denies x.com"},
			{"GET http://" + at.String() + "/ HTTP/1.1\r\nHost: a.com\r\n\r\n", "private or reserved"},
			{fmt.Sprintf("CONNECT a.test:%d HTTP/1.1\r\nHost: a.test\r\n\r\n", at.Port()), "leads to 127.0.0.1"},
		} {
			got := r.exchange(c.send)
			head, body, _ := strings.Cut(got, "\r\n\r\n")
			if !strings.HasPrefix(head, "HTTP/1.1 403 ") || !strings.Contains(head, "Proxy-Status: dsh; details=") || !strings.Contains(body, c.want) {
				t.Errorf("%q: %s", c.send, got)
			}
		}
	}
	var targets []string
	for _, refusal := range r.stop() {
		targets = append(targets, refusal.Target)
		if refusal.Kind != workspace.RefusedNetwork || refusal.Rule == "" {
			t.Errorf("%+v", refusal)
		}
	}
	if want := []string{"evil.com:443", "evil.com:80", "x.com:443", at.String(), fmt.Sprintf("a.test:%d", at.Port())}; !slices.Equal(targets, want) {
		t.Errorf("refused %q, want %q", targets, want)
	}
	if reached() {
		t.Error("the listener was reached")
	}
	r = serve(t, p)
	for i := range 100 {
		r.exchange(fmt.Sprintf("CONNECT h%d.com:443 HTTP/1.1\r\nHost: x\r\n\r\n", i))
	}
	if got := len(r.stop()); got != p.limits.refusals {
		t.Errorf("%d refusals", got)
	}
}

// Each hop of a redirect is a request of its own.
func TestTrust_N02_RedirectsAreCheckedByTheProxy(t *testing.T) {
	at, reached := bait(t)
	to := ""
	port, open := server(t, false, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) })
	r := serve(t, newProxy(rules(t, open, nil), here))
	for _, to = range []string{"http://169.254.169.254/latest/", "http://" + at.String() + "/", "http://0.0.0.0/", "http://[::1]/", "http://b.test/"} {
		answer, err := r.client().Get("http://a.test:" + port + "/")
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %s", to, answer.Status)
		}
	}
	if answer := r.exchange("GET http://[::ffff:127.0.0.1]/ HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.HasPrefix(answer, "HTTP/1.1 400 ") {
		t.Error(answer)
	}
	if reached() || len(r.stop()) != 5 {
		t.Error("the listener was reached, or not all was reported")
	}
}

// TestTrust_N04_Junk answers what is no request for a proxy with a fitting code, at once.
func TestTrust_N04_Junk(t *testing.T) {
	r := serve(t, newProxy(rules(t, []string{"*"}, nil), nil))
	for send, code := range map[string]string{
		"CONNECT / HTTP/1.1\r\nHost: x\r\n\r\n":                                                                     "400",
		"CONNECT a.com HTTP/1.1\r\nHost: x\r\n\r\n":                                                                 "400",
		"CONNECT a.com: HTTP/1.1\r\nHost: x\r\n\r\n":                                                                "400",
		"CONNECT a.com:0 HTTP/1.1\r\nHost: x\r\n\r\n":                                                               "400",
		"CONNECT a.com:99999 HTTP/1.1\r\nHost: x\r\n\r\n":                                                           "400",
		"CONNECT http://a.com:80 HTTP/1.1\r\nHost: x\r\n\r\n":                                                       "400",
		"CONNECT u@a.com:80 HTTP/1.1\r\nHost: x\r\n\r\n":                                                            "400",
		"CONNECT [::ffff:127.0.0.1]:80 HTTP/1.1\r\nHost: x\r\n\r\n":                                                 "400",
		"CONNECT 2130706433:80 HTTP/1.1\r\nHost: x\r\n\r\n":                                                         "400",
		"CONNECT 0x7f.1:80 HTTP/1.1\r\nHost: x\r\n\r\n":                                                             "400",
		"CONNECT evil%00.a.com:80 HTTP/1.1\r\nHost: x\r\n\r\n":                                                      "400",
		"CONNECT evil\x00.a.com:80 HTTP/1.1\r\nHost: x\r\n\r\n":                                                     "400",
		"CONNECT a b:80 HTTP/1.1\r\nHost: x\r\n\r\n":                                                                "400",
		"CONNECT a_b.com:80 HTTP/1.1\r\nHost: x\r\n\r\n":                                                            "400",
		"GET / HTTP/1.1\r\nHost: a.com\r\n\r\n":                                                                     "400",
		"GET a.com HTTP/1.1\r\nHost: a.com\r\n\r\n":                                                                 "400",
		"GET ftp://a.com/ HTTP/1.1\r\nHost: a.com\r\n\r\n":                                                          "400",
		"GET https://a.com/ HTTP/1.1\r\nHost: a.com\r\n\r\n":                                                        "400",
		"GET http://u:p@a.com/ HTTP/1.1\r\nHost: a.com\r\n\r\n":                                                     "400",
		"GET http://a_b.com/ HTTP/1.1\r\nHost: a.com\r\n\r\n":                                                       "400",
		"GET http://a.com/ HTTP/1.1\r\n\r\n":                                                                        "400",
		"GET http://a.com/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n":                                                  "400",
		"GET http://a.com/ HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\n\r\n":                                             "501",
		"GET http://a.com/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n": "502", // the name is unknown here
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n":                                                      "400",
		"\x05\x01\x00\r\n\r\n":                                                                                      "400", // SOCKS
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n":                                                                          "",    // closed
		"GET http://a.com/ HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 20<<10) + "\r\n\r\n":                   "431",
		"CONNECT " + strings.Repeat("a.", 5<<10) + "com:80 HTTP/1.1\r\nHost: x\r\n\r\n":                             "431",
	} {
		began := time.Now()
		got := r.exchange(send)
		if code != "" && !strings.HasPrefix(got, "HTTP/1.1 "+code+" ") || strings.HasPrefix(got, "HTTP/1.1 2") {
			t.Errorf("%.80q: %.200q, want %s", send, got, code)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("%.80q took %s", send, took)
		}
	}
}

// TestTrust_N04_TenThousandIdle keeps ten thousand connections from being more than a few.
func TestTrust_N04_TenThousandIdle(t *testing.T) {
	const count, batch = 10_000, 1000
	p := newProxy(rules(t, nil, nil), nil)
	p.limits.headerTime = 300 * time.Millisecond
	r := serve(t, p)
	before := runtime.NumGoroutine()
	most := 0
	var rejected int
	for begun := 0; begun < count; begun += batch {
		var conns []net.Conn
		for range batch {
			conns = append(conns, r.dial())
		}
		most = max(most, runtime.NumGoroutine()-before)
		if begun == 0 {
			continue // they stay idle, until they are told to go
		}
		for _, c := range conns {
			line, _ := bufio.NewReader(c).ReadString('\n')
			if strings.HasPrefix(line, "HTTP/1.1 503 ") {
				rejected++
			}
			_ = c.Close()
		}
	}
	// Each connection of the server is a goroutine, and there is one more that reads ahead.
	if most > 2*p.limits.connections+20 {
		t.Errorf("%d goroutines", most)
	}
	if rejected == 0 {
		t.Error("no connection was told that it is one too many")
	}
	// The proxy is not taken down.
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if got := r.exchange("CONNECT a.com:443 HTTP/1.1\r\nHost: x\r\n\r\n"); strings.HasPrefix(got, "HTTP/1.1 403 ") {
			break
		} else if time.Now().After(end) {
			t.Fatalf("it does not answer any more: %q", got)
		}
	}
}

// TestTrust_N04_SlowHead ends a request whose head never ends, though each of its bytes comes soon.
func TestTrust_N04_SlowHead(t *testing.T) {
	p := newProxy(rules(t, []string{"*"}, nil), nil)
	p.limits.headerTime = 200 * time.Millisecond
	r := serve(t, p)
	c := r.dial()
	began := time.Now()
	_, err := io.WriteString(c, "GET http://a.com/ HTTP/1.1\r\n")
	for i := 0; err == nil && time.Since(began) < 5*time.Second; i++ {
		time.Sleep(10 * time.Millisecond)
		_, err = fmt.Fprintf(c, "X-%d: y\r\n", i)
	}
	if err == nil {
		t.Error("the head may take as long as it wants")
	}
}

// echo is a server that sends back what it gets, once that has ended, and a goodbye.
func echo(t *testing.T) (at string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				defer func() { _ = c.Close() }()
				_, _ = io.WriteString(c, "hello\n")
				b, _ := io.ReadAll(c)
				_, _ = fmt.Fprintf(c, "%sbye\n", b)
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); work.Wait() })
	return l.Addr().String()
}

// TestTrust_N04_HalfClose: either end may stop sending and still hear the other, also when all comes at once.
func TestTrust_N04_HalfClose(t *testing.T) {
	at := echo(t)
	r := serve(t, newProxy(rules(t, []string{at}, nil), nil))
	for _, pause := range []bool{true, false} {
		c := r.dial()
		_, _ = io.WriteString(c, "CONNECT "+at+" HTTP/1.1\r\nHost: x\r\n\r\n")
		got := bufio.NewReader(c)
		if pause {
			for range 3 { // two lines of the answer, and the server speaks first
				if _, err := got.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
			}
		}
		_, _ = io.WriteString(c, "ping\n")
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(got)
		if err != nil || !strings.HasSuffix(string(rest), "ping\nbye\n") {
			t.Errorf("pause %v: %q, %v", pause, rest, err)
		}
	}
}

// TestTrust_N04_Idle ends a tunnel in which nothing happens, and nothing that is still used.
func TestTrust_N04_Idle(t *testing.T) {
	at := echo(t)
	p := newProxy(rules(t, []string{at}, nil), nil)
	p.limits.idle = 400 * time.Millisecond
	r := serve(t, p)
	c := r.dial()
	_, _ = io.WriteString(c, "CONNECT "+at+" HTTP/1.1\r\nHost: x\r\n\r\n")
	began := time.Now()
	for time.Since(began) < time.Second {
		time.Sleep(50 * time.Millisecond)
		if _, err := io.WriteString(c, "."); err != nil {
			t.Fatal("a tunnel in use ended")
		}
	}
	if _, err := io.ReadAll(c); os.IsTimeout(err) {
		t.Error("an idle tunnel does not end")
	}
}

// The end of the command ends all at once, whatever is open.
func TestTheEndOfTheCommand(t *testing.T) {
	at := echo(t)
	r := serve(t, newProxy(rules(t, []string{at}, nil), nil))
	c := r.dial()
	_, _ = io.WriteString(c, "CONNECT "+at+" HTTP/1.1\r\nHost: x\r\n\r\n")
	if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	r.dial()
	_, _ = io.WriteString(r.dial(), "GET htt")
	began := time.Now()
	r.stop()
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("it took %s", took)
	}
}

// TestTrust_N05_NameInTLS refuses a tunnel in which TLS asks for another host than the one that was checked.
func TestTrust_N05_NameInTLS(t *testing.T) {
	var hits atomic.Int32
	port, open := server(t, true, func(w http.ResponseWriter, _ *http.Request) {
		hits.Add(1)
		_, _ = io.WriteString(w, "here")
	})
	for _, c := range []struct {
		name, to string
		passes   bool
	}{
		{"a.test", "a.test", true}, {"A.TEST", "a.test", true}, {"", "a.test", true},
		{"b.test", "a.test", false}, {"x.a.test", "a.test", false}, {"a.test.evil", "a.test", false}, {"a.test", "127.0.0.1", false}, {"a_b", "a.test", false},
	} {
		r := serve(t, newProxy(rules(t, open, nil), here))
		conn := r.dial()
		_, _ = io.WriteString(conn, "CONNECT "+c.to+":"+port+" HTTP/1.1\r\nHost: x\r\n\r\n")
		reader := bufio.NewReader(conn)
		line, _ := reader.ReadString('\n')
		_, _ = reader.ReadString('\n')
		if !strings.Contains(line, "200") {
			t.Fatal(line)
		}
		before := hits.Load()
		secure := tls.Client(conn, &tls.Config{ServerName: c.name, InsecureSkipVerify: true}) //nolint:gosec // as above
		err := secure.Handshake()
		if err == nil {
			_, err = io.WriteString(secure, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
			_, _ = io.ReadAll(secure)
		}
		_ = conn.Close()
		refusals := r.stop()
		if passed := err == nil && hits.Load() > before; passed != c.passes {
			t.Errorf("%q in a tunnel to %s passes: %v; %v", c.name, c.to, passed, err)
		}
		if c.passes && len(refusals) != 0 || !c.passes && (len(refusals) != 1 || !strings.Contains(refusals[0].Rule, "TLS asks for ") || !refusals[0].Final) {
			t.Errorf("%q in a tunnel to %s: %+v", c.name, c.to, refusals)
		}
	}
}

// TestTrust_Row34 limits what goes to a host that is allowed, unless a person allowed it for this call.
func TestTrust_Row34_Uploads(t *testing.T) {
	var arrived atomic.Int64
	port, open := server(t, false, func(_ http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		arrived.Add(n)
	})
	at := echo(t)
	_, echoPort, _ := net.SplitHostPort(at)
	for _, granted := range []bool{false, true} {
		s := rules(t, append(open, at), nil)
		if granted {
			s = rules(t, append(open, at), nil, "a.test:"+port, "a.test:"+echoPort)
		}
		p := newProxy(s, here)
		p.maxUpload = 4096
		r := serve(t, p)
		send := func(n int, chunked bool) int {
			var b io.Reader = bytes.NewReader(make([]byte, n))
			if chunked {
				b = io.MultiReader(b)
			}
			answer, err := r.client().Post("http://a.test:"+port+"/", "text/plain", b)
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
			return answer.StatusCode
		}
		arrived.Store(0)
		for _, chunked := range []bool{false, true} {
			if code := send(4096, chunked); code != 200 {
				t.Errorf("4096 bytes: %d", code)
			}
			if code := send(100_000, chunked); (code == 200) != granted || !granted && code != 403 {
				t.Errorf("100000 bytes, chunked %v, granted %v: %d", chunked, granted, code)
			}
		}
		if got := arrived.Load(); !granted && got > 4*4096 {
			t.Errorf("%d bytes arrived", got)
		}
		c := r.dial()
		_, _ = io.WriteString(c, "CONNECT a.test:"+echoPort+" HTTP/1.1\r\nHost: x\r\n\r\n")
		_, _ = c.Write(make([]byte, 100_000))
		_ = c.(*net.TCPConn).CloseWrite()
		got, _ := io.ReadAll(c)
		if strings.HasSuffix(string(got), "bye\n") != granted {
			t.Errorf("granted %v: %d bytes, %.80q", granted, len(got), got)
		}
		refusals := r.stop()
		if granted != (len(refusals) == 0) || !granted && (len(refusals) != 2 || !strings.Contains(refusals[0].Rule, "more than 4096 bytes") || refusals[0].Final) {
			t.Errorf("granted %v: %+v", granted, refusals)
		}
	}
}

// A rule that is revoked does not hold for the next request.
func TestRulesAreLookedUpForEachRequest(t *testing.T) {
	at := echo(t)
	var open atomic.Bool
	open.Store(true)
	p := newProxy(nil, nil)
	p.rules = func() *ruleset {
		if open.Load() {
			return rules(t, []string{at}, nil)
		}
		return rules(t, nil, nil)
	}
	r := serve(t, p)
	for _, want := range []string{"200", "403"} {
		c := r.dial()
		_, _ = io.WriteString(c, "CONNECT "+at+" HTTP/1.1\r\nHost: x\r\n\r\n")
		if line, _ := bufio.NewReader(c).ReadString('\n'); !strings.Contains(line, want) {
			t.Errorf("%q, want %s", line, want)
		}
		open.Store(false)
	}
}

func TestAddressesOfTargets(t *testing.T) {
	for text, want := range map[string]string{"a.com:80": "a.com", "a.com:81": "a.com:81", "[::1]:80": "[::1]", "8.8.8.8:80": "8.8.8.8"} {
		if to, err := parseTarget(text); err != nil || to.header("http") != want {
			t.Errorf("%s: %s, %v", text, to.header("http"), err)
		}
	}
	if h, _ := parseHost("::1"); h.addr != netip.IPv6Loopback() {
		t.Error(h)
	}
}
