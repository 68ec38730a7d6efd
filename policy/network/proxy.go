package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/workspace"
)

// limits bound what one command can make of its proxy.
type limits struct {
	connections int           // at once; more are answered with 503
	header      int           // bytes of a request's head
	headerTime  time.Duration // to send it in
	idle        time.Duration // without a byte in either direction
	hello       time.Duration // to send the first message of TLS in, once it has begun
	refusals    int           // that are remembered
}

func standardLimits() limits {
	return limits{connections: 256, header: 8 << 10, headerTime: 5 * time.Second, idle: 5 * time.Minute, hello: 10 * time.Second, refusals: 32}
}

// proxy is the way of one command to other machines; it implements [workspace.Network].
type proxy struct {
	rules     func() *ruleset
	dialer    *dialer
	maxUpload int64 // 0 for no limit
	limits    limits

	mu       sync.Mutex
	refusals []workspace.Refusal
	work     sync.WaitGroup // what answers requests
}

// Serve implements [workspace.Network].
func (p *proxy) Serve(ctx context.Context, l net.Listener) []workspace.Refusal {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conns := &bounded{Listener: l, free: make(chan struct{}, p.limits.connections)}
	var open sync.WaitGroup // connections that the server has
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.answer(ctx, w, r) }),
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				open.Add(1)
			case http.StateClosed, http.StateHijacked:
				open.Done()
			case http.StateActive, http.StateIdle:
			}
		},
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: p.limits.headerTime,
		MaxHeaderBytes:    max(p.limits.header-4096, 1), // the server allows 4096 bytes more
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	srv.SetKeepAlivesEnabled(false)
	_ = srv.Serve(conns) // until l is closed, which is its only error
	cancel()
	_ = srv.Close() // the listener is closed already
	open.Wait()
	p.work.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refusals
}

// bounded limits how many connections there are at once. One too many is told so and closed, rather
// than waited with, as the end of the listener has to be noticed.
type bounded struct {
	net.Listener
	free chan struct{}
}

// Accept implements [net.Listener].
func (b *bounded) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case b.free <- struct{}{}:
			return &counted{Conn: conn, done: sync.OnceFunc(func() { <-b.free })}, nil
		default:
			_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = io.WriteString(conn, "HTTP/1.1 503 Too many connections\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
			_ = conn.Close() // what it sent is of no interest
		}
	}
}

// counted is a connection that frees its place when it is closed.
type counted struct {
	net.Conn
	done func()
}

// Close implements [net.Conn].
func (c *counted) Close() error {
	defer c.done()
	return c.Conn.Close()
}

// CloseWrite ends what is sent.
func (c *counted) CloseWrite() error { return closeWrite(c.Conn) }

func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

// answer answers one request of the command.
func (p *proxy) answer(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	p.work.Add(1)
	defer p.work.Done()
	switch {
	case r.Method == http.MethodConnect:
		p.connect(ctx, w, r)
	case !r.URL.IsAbs():
		say(w, http.StatusBadRequest, "this is a proxy: it takes CONNECT and requests with the whole address")
	default:
		p.forward(w, r)
	}
}

// refuse notes what was refused and returns it, to be told to the command as well.
func (p *proxy) refuse(err *policy.RefusedError) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.refusals) < p.limits.refusals && !slices.Contains(p.refusals, err.Refusal) {
		p.refusals = append(p.refusals, err.Refusal)
	}
	return err
}

// fail tells the command why there is no connection.
func (p *proxy) fail(w http.ResponseWriter, err error) {
	if refusal, ok := errors.AsType[*policy.RefusedError](err); ok {
		say(w, http.StatusForbidden, p.refuse(refusal).Error())
		return
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		say(w, http.StatusGatewayTimeout, err.Error())
		return
	}
	say(w, http.StatusBadGateway, err.Error())
}

// say writes an answer of the proxy itself.
func say(w http.ResponseWriter, code int, reason string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Proxy-Status", fmt.Sprintf("dsh; details=%q", reason))
	w.Header().Set("Connection", "close")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, "dsh: "+reason+"\n") // the command may be gone
}
