// Package testllm is a model server for tests. It speaks the OpenAI chat completions
// API on the loopback address, answers as a test says, and treats each request as
// a strict provider does: one that a provider would refuse gets a 400 and
// fails the test.
//
//	srv := testllm.New(t)
//	srv.Script(testllm.Text("hello"), testllm.Fail(500, "down"))
//	… run something against srv.URL …
//	srv.Requests()
//
// What a request gets is the next turn of the script. Without a script it is what a
// marker in the prompt says, see [ParseScenario]: benchmarks use that. All methods
// may be called from any goroutine.
package testllm

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const mostBody = 256 << 20

// Server is a scripted model server.
type Server struct {
	// URL is the base URL, http://127.0.0.1:port/v1.
	URL string

	http     *httptest.Server
	handlers sync.WaitGroup
	closing  chan struct{}

	mu         sync.Mutex
	rules      Rules
	script     []Turn
	scripted   bool
	repeatLast bool
	tool       Call
	requests   []Request
	arrived    chan struct{} // closed and replaced at each request
	failed     map[string]int
	calls      int
	hijacked   map[net.Conn]bool
	violations []string
	tolerant   bool
}

// Request is what the server was sent.
type Request struct {
	Path   string
	Header http.Header // without the key
	Key    string      // the bearer token
	Body   []byte
	Time   time.Time
	Chat   Chat // the body, as far as it could be read
}

// New starts a server that ends with the test. The test fails when a request
// broke a rule, unless [Server.Tolerate] was called.
func New(t testing.TB) *Server {
	t.Helper()
	s := Start()
	t.Cleanup(func() {
		s.Close()
		if !s.tolerant {
			for _, v := range s.Violations() {
				t.Errorf("testllm: a strict provider refuses the request: %s", v)
			}
		}
	})
	return s
}

// Start starts a server that its caller closes, for who has no test at hand.
func Start() *Server {
	s := &Server{
		closing: make(chan struct{}), arrived: make(chan struct{}), hijacked: map[net.Conn]bool{}, failed: map[string]int{},
		rules: Rules{Alternate: true},
	}
	s.http = httptest.NewServer(s)
	s.URL = s.http.URL + "/v1"
	return s
}

// Close ends the server and every connection, also those that it holds open.
func (s *Server) Close() {
	close(s.closing)
	s.mu.Lock()
	for c := range s.hijacked {
		_ = c.Close() // whoever uses it finds out
	}
	s.mu.Unlock()
	s.http.CloseClientConnections()
	s.http.Close()
	s.handlers.Wait()
}

// Script adds turns to the script. A request past its end is answered with 500.
func (s *Server) Script(turns ...Turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script, s.scripted = append(s.script, turns...), true
}

// Play makes a case the script.
func (s *Server) Play(c Case) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script, s.scripted, s.repeatLast = slices.Clone(c.Turns), true, c.RepeatLast
}

// Tool names the tool that a scenario calls, and its arguments, in which {{n}} is the
// number of the call. Without it the server takes a known one that is offered.
func (s *Server) Tool(name, arguments string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tool = Call{Name: name, Arguments: arguments}
}

// Strict sets the rules that requests must follow; the default is that roles alternate.
func (s *Server) Strict(r Rules) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = r
}

// Tolerate says that requests which break a rule are part of the test: they
// still get a 400, but do not fail it.
func (s *Server) Tolerate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tolerant = true
}

// Requests returns what was received so far, in order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Violations returns the rules that requests broke, each with the request's number.
func (s *Server) Violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.violations)
}

// Await returns once n requests have arrived, or with ctx's error.
func (s *Server) Await(ctx context.Context, n int) error {
	for {
		s.mu.Lock()
		have, arrived := len(s.requests), s.arrived
		s.mu.Unlock()
		if have >= n {
			return nil
		}
		select {
		case <-arrived:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d requests have arrived: %w", have, n, ctx.Err())
		}
	}
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.handlers.Add(1)
	defer s.handlers.Done()
	if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/models") {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"mock","object":"model"}]}`)
		return
	}
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/chat/completions") {
		http.NotFound(w, r)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, mostBody))
	if err != nil {
		return // the client has gone
	}
	turn, ok := s.take(r, body)
	if !ok {
		s.scenario(w, r, body)
		return
	}
	if turn.Wait != nil {
		select {
		case <-turn.Wait:
		case <-r.Context().Done():
			return
		case <-s.closing:
			return
		}
	}
	s.play(w, turn)
}

// take records the request and returns the turn that answers it.
func (s *Server) take(r *http.Request, body []byte) (turn Turn, ok bool) {
	header := r.Header.Clone()
	key := strings.TrimPrefix(header.Get("Authorization"), "Bearer ")
	header.Del("Authorization")
	s.mu.Lock()
	defer s.mu.Unlock()
	var chat Chat
	var broken error
	if s.rules.Unchecked {
		body = nil
	} else {
		chat, broken = check(body, s.rules)
	}
	s.requests = append(s.requests, Request{r.URL.Path, header, key, body, time.Now(), chat})
	close(s.arrived)
	s.arrived = make(chan struct{})
	if broken != nil {
		s.violations = append(s.violations, fmt.Sprintf("request %d: %v", len(s.requests), broken))
		return Fail(http.StatusBadRequest, broken.Error()), true
	}
	switch {
	case !s.scripted:
		return Turn{}, false
	case len(s.script) == 0:
		return Fail(http.StatusInternalServerError, "the script has no more turns"), true
	}
	turn = s.script[0]
	if !s.repeatLast || len(s.script) > 1 {
		s.script = s.script[1:]
	}
	return turn, true
}

// play writes a turn byte for byte.
func (s *Server) play(w http.ResponseWriter, turn Turn) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	s.mu.Lock()
	s.hijacked[conn] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.hijacked, conn)
		s.mu.Unlock()
		_ = conn.Close() // it may be closed already
	}()
	head := fmt.Sprintf("HTTP/1.1 %d %s\r\nDate: %s\r\nConnection: close\r\n", turn.Status, http.StatusText(turn.Status), time.Now().UTC().Format(http.TimeFormat))
	for _, name := range slices.Sorted(maps.Keys(turn.Header)) {
		head += name + ": " + expand(turn.Header[name], turn.Value) + "\r\n"
	}
	if _, err := io.WriteString(conn, head+"\r\n"); err != nil {
		return
	}
	for _, packet := range turn.Packets {
		if _, err := conn.Write(packet); err != nil {
			return
		}
		if turn.Pause > 0 && !s.sleep(turn.Pause) {
			return
		}
	}
	switch turn.End {
	case Close, "":
	case Reset:
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // without it the client sees an orderly end
		}
	case Hold:
		_, _ = io.Copy(io.Discard, buffered) // ends when the client goes or the server closes
	case Ping:
		for s.sleep(time.Second) {
			if _, err := io.WriteString(conn, ": ping\n\n"); err != nil {
				return
			}
		}
	}
}

func (s *Server) sleep(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-s.closing:
		return false
	}
}
