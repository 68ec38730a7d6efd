package server_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
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

var _ = bufio.NewReader
