package server_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/dsh-harness/dsh/internal/jsonrpc"
	"github.com/dsh-harness/dsh/surface/server"
)

// TestBytesThatAreNoTextEndNoWebSocket: what stands in a log is shown, and not fatal to all who look at it.
func TestBytesThatAreNoTextEndNoWebSocket(t *testing.T) {
	s := start(t, server.Options{Listen: "127.0.0.1:0", Token: token, Serve: func(ctx context.Context, s jsonrpc.Stream) error {
		return jsonrpc.New(s, jsonrpc.Options{Handler: func(context.Context, jsonrpc.Incoming) jsonrpc.Reply {
			return jsonrpc.Result(json.RawMessage("\"a\xffb\""))
		}}).Serve(ctx)
	}})
	stream, err := server.Dial(t.Context(), s.URL(), token)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := call(t, stream, nil); err != nil || string(r) != "\"a\uFFFDb\"" {
		t.Errorf("%q, %v", r, err)
	}
}
