package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"

	"github.com/dsh-harness/dsh/internal/jsonrpc"
)

const (
	pathConnect = "/v1/connect"
	pathLogin   = "/v1/login"
	// cookie holds what opens the WebSocket to a browser, as long as this server runs.
	cookie = "dsh-token"
	// linkTime is how long a one-time link can be used.
	linkTime = time.Minute
	// maxLinks bounds those that nobody has used.
	maxLinks = 64
	// writeTime bounds one write to a WebSocket.
	writeTime = 30 * time.Second
)

// route is something that answers HTTP.
type route struct {
	method, path string
	// open says that it lets in who has no token, because it checks something else.
	open  bool
	serve func(s *Server, w http.ResponseWriter, r *http.Request)
}

// routes is everything that answers HTTP.
func routes() []route {
	return []route{
		{http.MethodGet, pathConnect, false, (*Server).connect},
		{http.MethodGet, pathLogin, true, (*Server).login},
	}
}

// handler checks each request, and passes on what is right.
func (s *Server) handler() http.Handler {
	all := routes()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		if err := s.from(r); err != nil {
			s.deny(w, r, http.StatusForbidden, err)
			return
		}
		for _, t := range all {
			if t.path != r.URL.Path || t.method != r.Method {
				continue
			}
			if !t.open && !s.knows(r) {
				s.deny(w, r, http.StatusUnauthorized, errors.New("the token is missing or wrong"))
				return
			}
			t.serve(s, w, r)
			return
		}
		if !s.knows(r) {
			s.deny(w, r, http.StatusUnauthorized, errors.New("the token is missing or wrong"))
			return
		}
		http.Error(w, "there is nothing here", http.StatusNotFound)
	})
}

func (s *Server) deny(w http.ResponseWriter, r *http.Request, code int, err error) {
	s.refuse.note("a request from "+r.RemoteAddr, err)
	w.Header().Set("Connection", "close") // who was turned away holds nothing
	http.Error(w, err.Error(), code)
}

// from checks that a request was meant for this server, and that no page of another site made it.
func (s *Server) from(r *http.Request) error {
	if !s.named(r.Host) {
		return errors.New("the Host is not a name of this server")
	}
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		// A page cannot leave it out where it matters; what it may, it marks.
		if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
			return errors.New("the request comes from the page of another site")
		}
		return nil
	}
	scheme := "http://"
	if s.o.TLS != nil {
		scheme = "https://"
	}
	if host, ok := strings.CutPrefix(origins[0], scheme); !ok || len(origins) > 1 || !s.named(host) {
		return errors.New("the Origin is another site")
	}
	return nil
}

// named reports whether host, which must have the port, is a name of this server.
func (s *Server) named(host string) bool {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		return false
	}
	own, number, err := net.SplitHostPort(s.tcp.Addr().String())
	if err != nil || port != number {
		return false
	}
	if name == own || name == "localhost" || name == "127.0.0.1" || name == "::1" {
		return true
	}
	for _, h := range s.o.Hosts {
		if strings.EqualFold(name, h) {
			return true
		}
	}
	return false
}

// knows reports whether a request has the token in its header, or what a link gave to a browser.
func (s *Server) knows(r *http.Request) bool {
	if given := r.Header.Values("Authorization"); len(given) > 0 {
		token, ok := strings.CutPrefix(given[0], "Bearer ")
		return ok && len(given) == 1 && same(token, s.o.Token)
	}
	c, err := r.Cookie(cookie)
	return err == nil && same(c.Value, s.browser)
}

// Link makes a link that lets a browser in, once and within a minute. It may be called from any goroutine, on a server that has a WebSocket.
func (s *Server) Link() string {
	code := NewToken()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for c, end := range s.links {
		if now.After(end) || len(s.links) >= maxLinks {
			delete(s.links, c)
		}
	}
	s.links[code] = now.Add(linkTime)
	scheme := "http://"
	if s.o.TLS != nil {
		scheme = "https://"
	}
	return scheme + s.tcp.Addr().String() + pathLogin + "?code=" + code
}

// login lets a browser in for the code of a link, which is used up.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	code := r.URL.Query().Get("code")
	s.mu.Lock()
	end, ok := s.links[code]
	delete(s.links, code)
	s.mu.Unlock()
	if !ok || time.Now().After(end) {
		s.deny(w, r, http.StatusUnauthorized, errors.New("the link was used, or is too old: make another"))
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: cookie, Value: s.browser, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: s.o.TLS != nil,
	})
	http.Redirect(w, r, "/", http.StatusSeeOther) // nothing secret stays in the address
}

// connect makes a request a stream of messages.
func (s *Server) connect(w http.ResponseWriter, r *http.Request) {
	// Origin was checked for all routes.
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		s.refuse.note("upgrade a connection", err)
		return
	}
	if !s.enter() {
		_ = c.CloseNow() // the server ends
		return
	}
	defer s.clients.Done()
	s.client(r.Context(), frames(r.Context(), c))
}

// enter counts a client, unless the server has ended.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.clients.Add(1)
	}
	return !s.ended
}

// frames is a stream with one message a frame.
func frames(ctx context.Context, c *websocket.Conn) jsonrpc.Stream {
	c.SetReadLimit(jsonrpc.MaxMessage)
	// The context of a request ends when its handler returns; the stream has to outlive a cancelled server, to say goodbye.
	return &socket{ctx: context.WithoutCancel(ctx), conn: c}
}

type socket struct {
	ctx  context.Context // of no request: reads end with Close
	conn *websocket.Conn
}

func (s *socket) Read() ([]byte, error) {
	kind, message, err := s.conn.Read(s.ctx)
	switch {
	case websocket.CloseStatus(err) != -1:
		return nil, io.EOF
	case err != nil:
		return nil, err
	case kind != websocket.MessageText:
		return nil, s.refuse(websocket.StatusUnsupportedData, "messages are text")
	case !utf8.Valid(message): // RFC 6455, 8.1; the library leaves it to us
		return nil, s.refuse(websocket.StatusInvalidFramePayloadData, "text is UTF-8")
	}
	return message, nil
}

// refuse ends the connection and says why.
func (s *socket) refuse(code websocket.StatusCode, why string) error {
	_ = s.conn.Close(code, why) // the other side may not care
	return fmt.Errorf("a message was refused: %s", why)
}

func (s *socket) Write(message []byte) error {
	ctx, cancel := context.WithTimeout(s.ctx, writeTime)
	defer cancel()
	if !utf8.Valid(message) {
		// JSON in a log may hold such bytes, and a browser would end the connection, each time that it comes to them.
		message = bytes.ToValidUTF8(message, []byte("\uFFFD"))
	}
	return s.conn.Write(ctx, websocket.MessageText, message)
}

func (s *socket) Close() error {
	_ = s.conn.CloseNow() // closed twice, or by the other side
	return nil
}
