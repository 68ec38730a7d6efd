package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/dsh-harness/dsh/surface/server"
)

// TestTrust_W06_WhoIsTurnedAwayHoldsNothing: half a request, half a body, and a connection that is kept after a refusal all end by themselves.
func TestTrust_W06_WhoIsTurnedAwayHoldsNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes the time that a request may take")
	}
	_, host := web(t)
	request := func(method, rest string) string {
		return fmt.Sprintf("%s /v1/connect HTTP/1.1\r\nHost: %s\r\n%s", method, host, rest)
	}
	for name, said := range map[string]string{
		"nothing":                               "",
		"half a request":                        request("GET", ""),
		"half a body":                           request("POST", "Content-Length: 1000\r\n\r\nthe beginning"),
		"chunks without end":                    request("POST", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"),
		"nothing after the refusal":             request("GET", "Authorization: Bearer wrong\r\n\r\n"),
		"nothing after being let in to nowhere": fmt.Sprintf("GET /nothing HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", host, token),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := net.Dial("tcp", host)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			if _, err := io.WriteString(c, said); err != nil {
				t.Fatal(err)
			}
			if err := c.SetReadDeadline(time.Now().Add(12 * time.Second)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the connection stands")
			}
		})
	}
	t.Run("a WebSocket is no request", func(t *testing.T) {
		t.Parallel()
		c, b := raw(t, host)
		if err := c.SetReadDeadline(time.Now().Add(6 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := b.ReadByte(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("a client that says nothing: %v", err)
		}
		message := `{"jsonrpc":"2.0","id":7,"method":"echo","params":"still here"}`
		if err := frame(c, 0x81, uint64(len(message)), []byte(message)); err != nil {
			t.Fatal(err)
		}
		if err := c.SetReadDeadline(time.Now().Add(6 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if answer, err := b.ReadString('}'); err != nil || !strings.Contains(answer, "still here") {
			t.Errorf("%q, %v", answer, err)
		}
	})
}

// TestWithACertificate connects over TLS; the client would take HTTP/2, which cannot become a WebSocket.
func TestWithACertificate(t *testing.T) {
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	s := start(t, server.Options{Listen: "127.0.0.1:0", Token: token, TLS: certified.TLS.Clone()})
	if !strings.HasPrefix(s.URL(), "wss://127.0.0.1:") {
		t.Fatalf("it is at %s", s.URL())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	header := http.Header{"Authorization": {"Bearer " + token}}
	c, _, err := websocket.Dial(ctx, s.URL(), &websocket.DialOptions{HTTPClient: certified.Client(), HTTPHeader: header})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.CloseNow() }()
	if err := c.Write(ctx, websocket.MessageText, []byte(`{"jsonrpc":"2.0","id":1,"method":"echo","params":"hello"}`)); err != nil {
		t.Fatal(err)
	}
	if _, answer, err := c.Read(ctx); err != nil || !strings.Contains(string(answer), `"hello"`) {
		t.Errorf("%s, %v", answer, err)
	}
	if _, err := server.Dial(ctx, s.URL(), token); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a certificate that nobody vouches for: %v", err)
	}
}

// TestTrust_W08_ABrowserHasNoToken: cookies go to every port of a host, so what a browser keeps opens this server and only as long as it runs.
func TestTrust_W08_ABrowserHasNoToken(t *testing.T) {
	s, host := web(t)
	_, h := ask(t, host, "GET", strings.TrimPrefix(s.Link(), "http://"+host), host, nil)
	value, _, _ := strings.Cut(h.Get("Set-Cookie"), ";")
	if value == "" || strings.Contains(value, token) {
		t.Errorf("the browser is given %q", value)
	}
	if code, _ := ask(t, host, "GET", "/nothing", host, http.Header{"Cookie": {value}}); code != http.StatusNotFound {
		t.Errorf("with what it was given: %d", code)
	}
	_, other := web(t)
	if code, _ := ask(t, other, "GET", "/nothing", other, http.Header{"Cookie": {value}}); code != http.StatusUnauthorized {
		t.Errorf("at another server: %d", code)
	}
	if code, _ := ask(t, host, "GET", "/nothing", host, http.Header{"Cookie": {"dsh-token=" + token}}); code != http.StatusUnauthorized {
		t.Errorf("the token as a cookie: %d", code)
	}
}

// TestTrust_W06_ConnectionsAreCounted fills a listener: one more is closed at once, and comes in when another has gone.
func TestTrust_W06_ConnectionsAreCounted(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := server.Limit(inner, 2)
	taken := make(chan net.Conn, 10)
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			taken <- c
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		accepting.Wait()
	})
	dial := func() net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		return c
	}
	dial()
	dial()
	first, second := <-taken, <-taken
	defer func() { _ = second.Close() }()
	if _, err := dial().Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a third one: %v", err)
	}
	_ = first.Close()
	_ = first.Close() // once more gives no second place
	dial()
	third := <-taken
	defer func() { _ = third.Close() }()
	if _, err := dial().Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("one too many after it: %v", err)
	}
}
