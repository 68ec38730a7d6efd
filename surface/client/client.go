// Package client is a client of the protocol in Go, over any stream: the other half of package acp.
package client

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"

	"github.com/dsh-harness/dsh/internal/jsonrpc"
	"github.com/dsh-harness/dsh/protocol"
)

// Options of a [Client].
type Options struct {
	// Name tells other clients who answered.
	Name    string
	Version string
	// OnNote is called with each notification, in order, on the goroutine that reads: the next is read when it returns. params are not kept by the
	// client.
	OnNote func(method string, params json.RawMessage)
	Logger *slog.Logger // nil discards
}

// Client is one connection. Its methods may be called from any goroutine.
type Client struct {
	conn  *jsonrpc.Conn
	ended sync.WaitGroup
	offer protocol.Offer
}

// Connect begins to speak on a stream, as a client that watches and answers questions. [Client.Close] ends it.
func Connect(ctx context.Context, s jsonrpc.Stream, o Options) (*Client, error) {
	c := &Client{}
	c.conn = jsonrpc.New(s, jsonrpc.Options{Logger: o.Logger, Handler: func(_ context.Context, m jsonrpc.Incoming) jsonrpc.Reply {
		if !m.Notification {
			return jsonrpc.Fail(jsonrpc.NoMethod(m.Method)) // nothing that we offer is called
		}
		if o.OnNote != nil {
			o.OnNote(m.Method, m.Params)
		}
		return jsonrpc.Reply{}
	}})
	c.ended.Go(func() {
		if err := c.conn.Serve(context.WithoutCancel(ctx)); err != nil && o.Logger != nil {
			o.Logger.Info("the connection ended", "err", err)
		}
	})
	ask, err := json.Marshal(protocol.Ask{Questions: true, Quiet: true, Name: o.Name})
	if err != nil {
		return nil, err
	}
	var r protocol.InitializeResult
	err = c.conn.Call(ctx, protocol.MethodInitialize, protocol.InitializeParams{
		ProtocolVersion:    protocol.ACPVersion,
		ClientCapabilities: protocol.ClientCapabilities{Meta: protocol.Meta{"dsh": ask}},
		ClientInfo:         &protocol.Implementation{Name: o.Name, Version: o.Version},
	}, &r)
	if err == nil {
		if raw := r.AgentCapabilities.Meta["dsh"]; raw == nil {
			err = fmt.Errorf("the agent at the other end is not dsh")
		} else {
			err = json.Unmarshal(raw, &c.offer)
		}
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("connect: %w", err)
	}
	return c, nil
}

// Close ends the connection, and returns when nothing of it runs any more.
func (c *Client) Close() {
	_ = c.conn.Close() // it says nothing
	c.ended.Wait()
}

// Done is closed when the connection has ended.
func (c *Client) Done() <-chan struct{} { return c.conn.Done() }

// Call calls a method; see [jsonrpc.Conn.Call].
func (c *Client) Call(ctx context.Context, method string, params, result any) error {
	return c.conn.Call(ctx, method, params, result)
}

// Ask calls a method whose result is an R.
func Ask[R any](ctx context.Context, c *Client, method string, params any) (R, error) {
	var r R
	err := c.Call(ctx, method, params, &r)
	return r, err
}

// Notify tells the agent something; see [jsonrpc.Conn.Notify].
func (c *Client) Notify(ctx context.Context, method string, params any) error {
	return c.conn.Notify(ctx, method, params)
}
