// Package server is how clients reach a process that keeps sessions: a unix socket, whose door is the file system, and a WebSocket, whose door is a
// token. It brings connections to whoever speaks with clients, and knows neither the protocol nor sessions.
//
// Everything that comes over HTTP passes the same checks, in this order: Host, Origin, token. There is one table of routes, and no other way in.
package server

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/dsh-harness/dsh/internal/jsonrpc"
)

const (
	// maxClients bounds the connections at a time.
	maxClients = 4096
	// requestTime is how long a request may take over HTTP, and how long a client may say nothing before its next one. A WebSocket is
	// bound by it no more once it is one.
	requestTime = 5 * time.Second
	// maxHeader bounds what it says, in bytes.
	maxHeader = 16 << 10
	// maxSocketPath is what the address of a unix socket can have, in bytes; see unix(7), and the BSDs have less.
	maxSocketPath = 100
)

// Options of a [Server].
type Options struct {
	// Serve speaks with one client until its stream ends or ctx does.
	Serve func(ctx context.Context, s jsonrpc.Stream) error
	// Socket is the path of the unix socket; its folder is made, for this user alone. "" is none.
	Socket string
	// Listen is the address of the WebSocket, such as 127.0.0.1:0. "" is none.
	Listen string
	// Token opens the WebSocket.
	Token string
	// TLS is needed to listen beyond loopback, unless Insecure says that something else protects the way.
	TLS      *tls.Config
	Insecure bool
	// Hosts are further names by which clients reach the WebSocket.
	Hosts  []string
	Logger *slog.Logger // nil discards
}

// Server listens.
type Server struct {
	o      Options
	unix   net.Listener
	tcp    net.Listener
	http   *http.Server
	slots  chan struct{}
	refuse *refusals

	// browser is what opens the WebSocket to a browser that a link let in. Cookies go to every port of a host: the token must not be one.
	browser string

	mu      sync.Mutex
	links   map[string]time.Time // one-time codes, with their ends
	ended   bool                 // nobody comes in any more
	clients sync.WaitGroup
}

// ErrBeyond: listening beyond loopback was asked for without what makes it safe.
var ErrBeyond = errors.New("whoever reaches this address could read the token on its way")

// Listen takes the addresses. [Server.Serve] answers there.
func Listen(o Options) (_ *Server, err error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		o: o, slots: make(chan struct{}, maxClients), links: map[string]time.Time{}, refuse: newRefusals(o.Logger), browser: NewToken(),
	}
	defer func() {
		if err != nil {
			s.shut()
		}
	}()
	if o.Socket != "" {
		if s.unix, err = listenUnix(o.Socket); err != nil {
			return nil, err
		}
	}
	if o.Listen == "" {
		return s, nil
	}
	if o.Token == "" {
		return nil, errors.New("listen without a token: that would let everybody in")
	}
	if err := loopback(o.Listen); err != nil && o.TLS == nil && !o.Insecure {
		return nil, fmt.Errorf("listen on %s: %w, %w: add a certificate, or say that something else protects it", o.Listen, err, ErrBeyond)
	}
	tcp, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w: choose another address, or :0 for a free port", o.Listen, errors.Unwrap(err))
	}
	s.tcp = limit(tcp, maxClients, s.refuse)
	var http1 http.Protocols // a WebSocket needs no other
	http1.SetHTTP1(true)
	s.http = &http.Server{
		Handler: s.handler(), MaxHeaderBytes: maxHeader, TLSConfig: o.TLS, Protocols: &http1,
		ReadTimeout: requestTime, WriteTimeout: requestTime, IdleTimeout: requestTime,
		ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// loopback refuses addresses that other machines reach.
func loopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if host == "localhost" {
		return nil
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		return nil
	}
	return errors.New("it is not a loopback address")
}

// listenUnix takes a socket that only this user reaches.
func listenUnix(path string) (net.Listener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("listen on %s: the path has %d bytes, and a socket's may have %d: choose a shorter one", path, len(path), maxSocketPath)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the socket: %w", err)
	}
	// A socket that nobody listens at was left behind by a process that was killed.
	if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
		_ = c.Close() // it was only to see
		return nil, fmt.Errorf("listen on %s: another process answers there; dsh serve --status says which", path)
	} else if info, err := os.Lstat(path); err == nil {
		if info.Mode().Type() != os.ModeSocket {
			return nil, fmt.Errorf("listen on %s: there is something that is no socket; choose another path", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("remove the socket that was left behind: %w", err)
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("close the socket to others: %w", err), l.Close())
	}
	return l, nil
}

// URL is where the WebSocket is, "" when there is none.
func (s *Server) URL() string {
	if s.tcp == nil {
		return ""
	}
	scheme := "ws"
	if s.o.TLS != nil {
		scheme = "wss"
	}
	return scheme + "://" + s.tcp.Addr().String() + pathConnect
}

// Serve answers until ctx ends, then waits for the clients that are there.
func (s *Server) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var listening sync.WaitGroup
	failed := make(chan error, 2)
	if s.unix != nil {
		listening.Go(func() { failed <- s.accept(ctx) })
	}
	if s.http != nil {
		s.http.BaseContext = func(net.Listener) context.Context { return ctx }
		listening.Go(func() {
			if s.o.TLS != nil {
				failed <- s.http.ServeTLS(s.tcp, "", "")
			} else {
				failed <- s.http.Serve(s.tcp)
			}
		})
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
		cancel(err)
	}
	s.shut()
	listening.Wait()
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.clients.Wait()
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// shut stops listening.
func (s *Server) shut() {
	if s.unix != nil {
		_ = s.unix.Close() // it removes the socket
	}
	if s.http != nil {
		_ = s.http.Close()
	} else if s.tcp != nil {
		_ = s.tcp.Close()
	}
}

// accept takes the clients of the unix socket.
func (s *Server) accept(ctx context.Context) error {
	for {
		c, err := s.unix.Accept()
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, net.ErrClosed) {
				// Out of descriptors, as a rule: others end, then it goes on.
				s.refuse.note("accept a client", err)
				select {
				case <-time.After(100 * time.Millisecond):
					continue
				case <-ctx.Done():
				}
			}
			return err
		}
		if err := sameUser(c); err != nil {
			s.refuse.note("a client on the socket", err)
			_ = c.Close()
			continue
		}
		s.clients.Go(func() { s.client(ctx, jsonrpc.Lines(c, c, c.Close, 0)) })
	}
}

// client serves one client, if there is room.
func (s *Server) client(ctx context.Context, stream jsonrpc.Stream) {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	default:
		s.refuse.note("a client", errors.New("there are too many"))
		_ = stream.Close()
		return
	}
	if err := s.o.Serve(ctx, stream); err != nil && ctx.Err() == nil {
		s.o.Logger.Info("a client's connection failed", "err", err)
	}
	_ = stream.Close() // whoever served it has told what went wrong
}

// NewToken makes a token of 256 random bits.
func NewToken() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // it never fails, see crypto/rand
	return base64.RawURLEncoding.EncodeToString(b)
}

// same compares without telling by its time where two tokens differ.
func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
