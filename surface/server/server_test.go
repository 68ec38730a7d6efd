package server_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/dsh-harness/dsh"
	"github.com/dsh-harness/dsh/internal/jsonrpc"
	"github.com/dsh-harness/dsh/surface/server"
)

func TestMain(m *testing.M) {
	dsh.Guard()
	goleak.VerifyTestMain(m)
}

const token = "the-token-of-a-test"

// echo answers every request with its parameters.
func echo(ctx context.Context, s jsonrpc.Stream) error {
	return jsonrpc.New(s, jsonrpc.Options{Handler: func(_ context.Context, m jsonrpc.Incoming) jsonrpc.Reply { return jsonrpc.Result(m.Params) }}).Serve(ctx)
}

// start runs a server until the test ends.
func start(t *testing.T, o server.Options) *server.Server {
	t.Helper()
	if o.Serve == nil {
		o.Serve = echo
	}
	s, err := server.Listen(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return s
}

func web(t *testing.T) (s *server.Server, host string) {
	t.Helper()
	s = start(t, server.Options{Listen: "127.0.0.1:0", Token: token})
	return s, strings.TrimSuffix(strings.TrimPrefix(s.URL(), "ws://"), "/v1/connect")
}

// call asks over a stream.
func call(t *testing.T, s jsonrpc.Stream, params any) (json.RawMessage, error) {
	t.Helper()
	c := jsonrpc.New(s, jsonrpc.Options{})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var all sync.WaitGroup
	all.Go(func() { _ = c.Serve(ctx) })
	var r json.RawMessage
	err := c.Call(ctx, "echo", params, &r)
	_ = c.Close()
	all.Wait()
	return r, err
}

func TestBothWaysIn(t *testing.T) {
	dir := t.TempDir()
	s := start(t, server.Options{Socket: filepath.Join(dir, "private", "s"), Listen: "127.0.0.1:0", Token: token})
	for _, address := range []string{"unix:" + filepath.Join(dir, "private", "s"), filepath.Join(dir, "private", "s"), s.URL()} {
		stream, err := server.Dial(t.Context(), address, token)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		if r, err := call(t, stream, "hello"); err != nil || string(r) != `"hello"` {
			t.Errorf("%s: %s, %v", address, r, err)
		}
	}
	for path, mode := range map[string]os.FileMode{"private": os.ModeDir | 0o700, "private/s": os.ModeSocket | 0o600} {
		if info, err := os.Stat(filepath.Join(dir, path)); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if _, err := server.Dial(t.Context(), "http://x", token); err == nil || !strings.Contains(err.Error(), "unix:/path") {
		t.Errorf("an address that is none: %v", err)
	}
}

// TestTrust_W01_EveryRouteNeedsTheToken enumerates the routes, and what is none.
func TestTrust_W01_EveryRouteNeedsTheToken(t *testing.T) {
	_, host := web(t)
	for _, path := range append(server.Routes(), "/", "/v1", "/v1/connect/", "/favicon.ico", "/v1/connect/../login", "/%2e%2e/etc/passwd") {
		for name, header := range map[string]http.Header{
			"none":          {},
			"empty":         {"Authorization": {""}},
			"wrong":         {"Authorization": {"Bearer wrong"}},
			"without type":  {"Authorization": {token}},
			"basic":         {"Authorization": {"Basic " + token}},
			"longer":        {"Authorization": {"Bearer " + token + "x"}},
			"shorter":       {"Authorization": {"Bearer " + token[1:]}},
			"other case":    {"Authorization": {"Bearer " + strings.ToUpper(token)}},
			"twice":         {"Authorization": {"Bearer " + token, "Bearer wrong"}},
			"wrong cookie":  {"Cookie": {"dsh-token=wrong"}},
			"other cookie":  {"Cookie": {"token=" + token}},
			"token cookie":  {"Cookie": {"dsh-token=" + token}},
			"wrong of two":  {"Authorization": {"Bearer wrong"}, "Cookie": {"dsh-token=" + token}},
			"in the header": {"X-Token": {token}},
		} {
			header.Set("Upgrade", "websocket")
			header.Set("Connection", "Upgrade")
			header.Set("Sec-WebSocket-Version", "13")
			header.Set("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
			for _, method := range []string{"GET", "POST", "OPTIONS"} {
				if code, _ := ask(t, host, method, path+"?token="+token, host, header); code != http.StatusUnauthorized {
					t.Errorf("%s %s with %s: %d", method, path, name, code)
				}
			}
		}
	}
	if code, h := ask(t, host, "GET", "/nothing", host, http.Header{"Authorization": {"Bearer " + token}}); code != http.StatusNotFound {
		t.Errorf("with the token: %d", code)
	} else {
		for name, want := range map[string]string{
			"Content-Security-Policy": "frame-ancestors 'none'", "X-Content-Type-Options": "nosniff", "Cross-Origin-Opener-Policy": "same-origin",
			"Cache-Control": "no-store", "Referrer-Policy": "no-referrer",
		} {
			if !strings.Contains(h.Get(name), want) {
				t.Errorf("%s is %q", name, h.Get(name))
			}
		}
	}
}

// ask makes a request by hand: no client would send some of these.
func ask(t *testing.T, address, method, path, host string, header http.Header) (int, http.Header) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, path, host)
	for name, values := range header {
		for _, v := range values {
			fmt.Fprintf(&b, "%s: %s\r\n", name, v)
		}
	}
	if _, err := io.WriteString(c, b.String()+"\r\n"); err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	_ = r.Body.Close()
	return r.StatusCode, r.Header
}

// TestTrust_W02_HostAndOriginComeFirst sends what rebinding and pages of other sites would, with the right token.
func TestTrust_W02_HostAndOriginComeFirst(t *testing.T) {
	_, host := web(t)
	_, port, err := net.SplitHostPort(host)
	if err != nil {
		t.Fatal(err)
	}
	good := http.Header{"Authorization": {"Bearer " + token}}
	for _, c := range []struct{ host, origin string }{
		{host, ""}, {"localhost:" + port, ""}, {"127.0.0.1:" + port, "http://127.0.0.1:" + port}, {"localhost:" + port, "http://localhost:" + port},
		{"[::1]:" + port, ""},
	} {
		h := good.Clone()
		if c.origin != "" {
			h.Set("Origin", c.origin)
		}
		if code, _ := ask(t, host, "GET", "/nothing", c.host, h); code != http.StatusNotFound {
			t.Errorf("Host %s, Origin %s: %d", c.host, c.origin, code)
		}
	}
	for _, c := range []struct{ host, origin, site string }{
		{"evil.example:" + port, "", ""}, {"evil.example", "", ""}, {"127.0.0.1", "", ""}, {"127.0.0.1:1", "", ""}, {"127.0.0.1.nip.io:" + port, "", ""},
		{"localhost.evil.example:" + port, "", ""}, {"0.0.0.0:" + port, "", ""}, {"127.1:" + port, "", ""}, {"2130706433:" + port, "", ""},
		{"0x7f.0.0.1:" + port, "", ""}, {"[::ffff:127.0.0.1]:" + port, "", ""}, {"127.0.0.1:" + port + ".", "", ""}, {"", "", ""},
		{"localhost.:" + port, "", ""},
		{host, "null", ""}, {host, "http://evil.example", ""}, {host, "http://evil.example:" + port, ""}, {host, "https://127.0.0.1:" + port, ""},
		{host, "http://127.0.0.1", ""}, {host, "http://127.0.0.1:1", ""}, {host, "http://localhost.evil.example:" + port, ""},
		{host, "file://", ""}, {host, "http://" + host + ".evil.example", ""}, {host, "http://evil.example#http://" + host, ""},
		{host, "", "cross-site"}, {host, "", "same-site"},
	} {
		h := good.Clone()
		if c.origin != "" {
			h.Set("Origin", c.origin)
		}
		if c.site != "" {
			h.Set("Sec-Fetch-Site", c.site)
		}
		for _, path := range append(server.Routes(), "/nothing") {
			code, _ := ask(t, host, "GET", path, c.host, h)
			if code != http.StatusForbidden && (c.host != "" && !strings.HasSuffix(c.host, ".") || code != http.StatusBadRequest) {
				t.Errorf("Host %q, Origin %q, site %q at %s: %d", c.host, c.origin, c.site, path, code)
			}
		}
	}
}

func TestTrust_W04_BeyondLoopbackIsRefused(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0"} {
		if _, err := server.Listen(server.Options{Serve: echo, Listen: address, Token: token}); !errors.Is(err, server.ErrBeyond) {
			t.Errorf("%s: %v", address, err)
		}
	}
	if _, err := server.Listen(server.Options{Serve: echo, Listen: "127.0.0.1:0"}); err == nil {
		t.Error("it listens without a token")
	}
	start(t, server.Options{Listen: "0.0.0.0:0", Token: token, Insecure: true})
}

// frame sends a raw frame of a WebSocket.
func frame(c io.Writer, first byte, length uint64, payload []byte) error {
	head := []byte{first}
	switch {
	case length < 126:
		head = append(head, 0x80|byte(length))
	case length < 1<<16:
		head = binary.BigEndian.AppendUint16(append(head, 0x80|126), uint16(length))
	default:
		head = binary.BigEndian.AppendUint64(append(head, 0x80|127), length)
	}
	_, err := c.Write(append(append(head, 0, 0, 0, 0), payload...))
	return err
}

// raw opens a WebSocket by hand.
func raw(t *testing.T, host string) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	key := make([]byte, 8)
	_, _ = rand.Read(key)
	fmt.Fprintf(c, "GET /v1/connect HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Extensions: permessage-deflate\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", host, token)
	b := bufio.NewReader(c)
	r, err := http.ReadResponse(b, nil)
	if err != nil || r.StatusCode != http.StatusSwitchingProtocols || r.Header.Get("Sec-WebSocket-Extensions") != "" {
		t.Fatalf("%+v, %v", r, err)
	}
	return c, b
}

// TestTrust_W06_AbuseOfTheWebSocketEndsIt sends frames that no client would.
func TestTrust_W06_AbuseOfTheWebSocketEndsIt(t *testing.T) {
	_, host := web(t)
	t.Run("frames", func(t *testing.T) { abuses(t, host) })
	c, b := raw(t, host)
	for range 1000 {
		if err := frame(c, 0x89, 4, []byte("ping")); err != nil {
			t.Fatal(err)
		}
	}
	message := `{"jsonrpc":"2.0","id":7,"method":"echo"}`
	if err := frame(c, 0x81, uint64(len(message)), []byte(message)); err != nil {
		t.Fatal(err)
	}
	for seen := ""; !strings.Contains(seen, `"id":7`); {
		chunk := make([]byte, 4096)
		n, err := b.Read(chunk)
		if err != nil {
			t.Fatalf("behind the pings: %v", err)
		}
		seen += string(chunk[:n])
	}
	if stream, err := server.Dial(t.Context(), "ws://"+host+"/v1/connect", token); err != nil {
		t.Errorf("after all that: %v", err)
	} else if _, err := call(t, stream, 1); err != nil {
		t.Errorf("after all that: %v", err)
	}
}

func abuses(t *testing.T, host string) {
	for name, abuse := range map[string]func(c net.Conn) error{
		"a frame of 1 GB": func(c net.Conn) error {
			piece := make([]byte, 1<<20)
			if err := frame(c, 0x81, 1<<30, piece); err != nil {
				return err
			}
			for range 1 << 10 {
				if _, err := c.Write(piece); err != nil {
					return nil // it was closed in time
				}
			}
			return errors.New("all of it was read")
		},
		"text that is no UTF-8":    func(c net.Conn) error { return frame(c, 0x81, 12, []byte(`{"a":"`+"\xff\xfe\xfd"+`"} `)) },
		"a binary frame":           func(c net.Conn) error { return frame(c, 0x82, 2, []byte("{}")) },
		"a compressed frame":       func(c net.Conn) error { return frame(c, 0xC1, 2, []byte("{}")) },
		"a reserved kind":          func(c net.Conn) error { return frame(c, 0x83, 0, nil) },
		"a continuation of naught": func(c net.Conn) error { return frame(c, 0x80, 2, []byte("{}")) },
		"a ping of 200 bytes":      func(c net.Conn) error { return frame(c, 0x89, 200, make([]byte, 200)) },
		"fragments without end": func(c net.Conn) error {
			piece := make([]byte, 1<<20)
			if err := frame(c, 0x01, uint64(len(piece)), piece); err != nil {
				return err
			}
			for range 64 {
				if err := frame(c, 0x00, uint64(len(piece)), piece); err != nil {
					return nil // it was closed in time
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // who closes waits for the other side to agree
			c, b := raw(t, host)
			if err := abuse(c); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, b); err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the connection stands")
			}
		})
	}
}

// TestTrust_W08_TheTokenIsInNoAddress follows a one-time link.
func TestTrust_W08_TheTokenIsInNoAddress(t *testing.T) {
	var log strings.Builder
	s := start(t, server.Options{Listen: "127.0.0.1:0", Token: token, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	host := strings.TrimSuffix(strings.TrimPrefix(s.URL(), "ws://"), "/v1/connect")
	link := s.Link()
	if strings.Contains(link, token) {
		t.Fatal("the link has the token")
	}
	path := strings.TrimPrefix(link, "http://"+host)
	code, h := ask(t, host, "GET", path, host, nil)
	set := h.Get("Set-Cookie")
	if code != http.StatusSeeOther || h.Get("Location") != "/" || !strings.Contains(set, "HttpOnly") || !strings.Contains(set, "SameSite=Strict") {
		t.Errorf("the link gives %d, %v", code, h)
	}
	value, _, _ := strings.Cut(set, ";")
	if code, _ := ask(t, host, "GET", "/nothing", host, http.Header{"Cookie": {value}}); code != http.StatusNotFound {
		t.Errorf("with the cookie: %d", code)
	}
	if code, _ := ask(t, host, "GET", path, host, nil); code != http.StatusUnauthorized {
		t.Errorf("the link works twice: %d", code)
	}
	if strings.Contains(log.String(), token) || strings.Contains(log.String(), value) {
		t.Errorf("the log has the token:\n%s", log.String())
	}
}

// TestTrust_X06_KnockingDoesNotFillTheLog counts what is logged of many refusals.
func TestTrust_X06_KnockingDoesNotFillTheLog(t *testing.T) {
	var log strings.Builder
	s := start(t, server.Options{Listen: "127.0.0.1:0", Token: token, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	host := strings.TrimSuffix(strings.TrimPrefix(s.URL(), "ws://"), "/v1/connect")
	for range 300 {
		ask(t, host, "GET", "/v1/connect", host, http.Header{"Authorization": {"Bearer junk"}})
	}
	if n := strings.Count(log.String(), "\n"); n == 0 || n > 25 {
		t.Errorf("300 refusals are %d lines", n)
	}
	stream, err := server.Dial(t.Context(), s.URL(), token)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := call(t, stream, 1); err != nil {
		t.Error(err)
	}
}

// TestTrust_W12_WhatStandsInTheWayIsSaid: a port that is taken, a socket that was left behind, a second server.
func TestTrust_W12_WhatStandsInTheWayIsSaid(t *testing.T) {
	s, _ := web(t)
	taken := strings.TrimSuffix(strings.TrimPrefix(s.URL(), "ws://"), "/v1/connect")
	if _, err := server.Listen(server.Options{Serve: echo, Listen: taken, Token: token}); err == nil || !strings.Contains(err.Error(), "address already in use") || !strings.Contains(err.Error(), ":0") {
		t.Errorf("a taken port: %v", err)
	}
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(socket); err != nil {
		t.Fatal("nothing was left behind")
	}
	start(t, server.Options{Socket: socket})
	if _, err := server.Listen(server.Options{Serve: echo, Socket: socket}); err == nil || !strings.Contains(err.Error(), "another process answers") {
		t.Errorf("a second server: %v", err)
	}
	file := filepath.Join(t.TempDir(), "precious")
	if err := os.WriteFile(file, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Listen(server.Options{Serve: echo, Socket: file}); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("a file in the way: %v", err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "data" {
		t.Error("the file was touched")
	}
	if _, err := server.Listen(server.Options{Serve: echo, Socket: "/" + strings.Repeat("x", 120)}); err == nil || !strings.Contains(err.Error(), "shorter") {
		t.Errorf("a long path: %v", err)
	}
}
