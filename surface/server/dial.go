package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/dsh-harness/dsh/internal/jsonrpc"
)

// dialTime bounds how long a server may take to answer.
const dialTime = 10 * time.Second

// Dial connects to a server: unix:/path, a path, or ws:// and wss:// with a token. ctx bounds the connecting alone.
func Dial(ctx context.Context, address, token string) (jsonrpc.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	switch path, isUnix := strings.CutPrefix(address, "unix:"); {
	case isUnix, strings.HasPrefix(address, "/"):
		c, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
		if err != nil {
			return nil, fmt.Errorf("connect to %s: %w", address, err)
		}
		return jsonrpc.Lines(c, c, c.Close, 0), nil
	case strings.HasPrefix(address, "ws://"), strings.HasPrefix(address, "wss://"):
		c, _, err := websocket.Dial(ctx, address, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + token}}})
		if err != nil {
			return nil, fmt.Errorf("connect to %s: %w", address, err)
		}
		return frames(context.Background(), c), nil
	}
	return nil, fmt.Errorf("connect to %q: an address is unix:/path, ws://host:port%s or wss://…", address, pathConnect)
}
