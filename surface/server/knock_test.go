package server_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dsh-harness/dsh/internal/jsonrpc"
	"github.com/dsh-harness/dsh/surface/server"
)

// lineCount counts what is logged.
type lineCount struct{ n atomic.Int64 }

func (l *lineCount) Write(b []byte) (int, error) {
	l.n.Add(1)
	return len(b), nil
}

// TestTrust_X06_KnockingKeepsNobodyOut has several knock with wrong tokens, as fast as they can, while a client works. It logs the figures; what it
// demands is only that the client is never kept waiting for long, since everything shares the processors of the tests.
func TestTrust_X06_KnockingKeepsNobodyOut(t *testing.T) {
	var lines lineCount
	s := start(t, server.Options{Listen: "127.0.0.1:0", Token: token, Logger: slog.New(slog.NewTextHandler(&lines, nil))})
	host := strings.TrimSuffix(strings.TrimPrefix(s.URL(), "ws://"), "/v1/connect")
	stream, err := server.Dial(t.Context(), s.URL(), token)
	if err != nil {
		t.Fatal(err)
	}
	client := jsonrpc.New(stream, jsonrpc.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(count(1, 15))*time.Second)
	defer cancel()
	var all sync.WaitGroup
	all.Go(func() { _ = client.Serve(context.Background()) })
	var refused, unheard atomic.Int64
	junk := fmt.Sprintf("GET /v1/connect HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer junk\r\n\r\n", host)
	for range 4 {
		all.Go(func() {
			for ctx.Err() == nil {
				if answer := knock(host, junk); strings.HasPrefix(answer, "HTTP/1.1 401") {
					refused.Add(1)
				} else {
					unheard.Add(1) // no port is free for a moment: that many have knocked
				}
			}
		})
	}
	began := time.Now()
	var took []time.Duration
	for ctx.Err() == nil {
		one := time.Now()
		within, stop := context.WithTimeout(t.Context(), 5*time.Second)
		err := client.Call(within, "echo", "hello", nil)
		stop()
		if err != nil {
			t.Errorf("after %d calls: %v", len(took), err)
			break
		}
		took = append(took, time.Since(one))
	}
	elapsed := time.Since(began)
	_ = client.Close()
	all.Wait()
	if len(took) == 0 || refused.Load() < 100 {
		t.Fatalf("%d calls, %d refusals: nothing was measured", len(took), refused.Load())
	}
	slices.Sort(took)
	p99 := took[len(took)*99/100]
	t.Logf("%.0f refusals a second (%d were not heard), %d calls between them, p50 %v, p99 %v, longest %v", float64(refused.Load())/elapsed.Seconds(), unheard.Load(),
		len(took), took[len(took)/2], p99, took[len(took)-1])
	if p99 > time.Second {
		t.Errorf("a call in a hundred takes %v", p99)
	}
	if n := lines.n.Load(); n == 0 || n > 25 {
		t.Errorf("%d refusals are %d lines", refused.Load(), n)
	}
}

// knock says something on a connection of its own, and returns what is answered.
func knock(host, said string) string {
	c, err := net.DialTimeout("tcp", host, time.Second)
	if err != nil {
		return ""
	}
	defer func() { _ = c.Close() }()
	if c.SetDeadline(time.Now().Add(5*time.Second)) != nil {
		return ""
	}
	if _, err := io.WriteString(c, said); err != nil {
		return ""
	}
	answer, _ := io.ReadAll(c) // what came until the end
	return string(answer)
}
