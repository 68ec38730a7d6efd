// Package jsonrpc is a connection that speaks JSON-RPC 2.0 (jsonrpc.org/specification) in both directions:
// each side calls, answers and notifies. A call is taken back with the notification $/cancel_request, as the
// Agent Client Protocol has it. Batches are not part of that protocol and are refused.
//
// A [Conn] may be used from any goroutine.
package jsonrpc

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Codes of errors that the specification names, and those of a request that was taken back or came when too many were running.
const (
	CodeParse     = -32700
	CodeInvalid   = -32600
	CodeNoMethod  = -32601
	CodeParams    = -32602
	CodeInternal  = -32603
	CodeCancelled = -32800
	CodeBusy      = -32005
)

// NoteCancel takes a request back. Both sides may send it.
const NoteCancel = "$/cancel_request"

var (
	// ErrClosed: the connection has ended.
	ErrClosed = errors.New("the connection is closed")
	// ErrSlow: the connection was ended because the other side did not read for [Options.QueueTime].
	ErrSlow = errors.New("the other side does not read what it is sent")
	// ErrCancelled is the cause of the context of a request that the other side took back.
	ErrCancelled = errors.New("the request was cancelled")
)

// Error is an error as it goes over the wire. A handler returns one to say which code and data are
// sent; a call that the other side refused fails with one.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (e *Error) Error() string { return e.Message }

// NewError makes an error with data, which is encoded; nil is no data.
func NewError(code int, data any, format string, a ...any) *Error {
	e := &Error{Code: code, Message: fmt.Sprintf(format, a...)}
	if data != nil {
		if raw, err := encode(data); err == nil {
			e.Data = raw
		}
	}
	return e
}

// ID names a request: a JSON string or number, as it was written.
type ID string

// maxID bounds the length of an id in bytes: it is kept while the request runs, and sent back.
const maxID = 1 << 10

// Incoming is a request or a notification of the other side.
type Incoming struct {
	Method       string
	Params       json.RawMessage // as it came; nil when there was none
	ID           ID              // "" for a notification
	Notification bool
}

// Decode reads the parameters into v, which stays as it is when there are none. The error is an [*Error].
func (m Incoming) Decode(v any) error {
	if len(m.Params) == 0 || string(m.Params) == "null" {
		return nil
	}
	if err := json.Unmarshal(m.Params, v); err != nil {
		return &Error{Code: CodeParams, Message: fmt.Sprintf("%s: its parameters are not understood: %v", m.Method, err)}
	}
	return nil
}

// message is any message, as it is read.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  *string         `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   *Error          `json:"error"`
}

// idOf checks an id.
func idOf(raw json.RawMessage) (ID, error) {
	if len(raw) > maxID {
		return "", fmt.Errorf("its id has more than %d bytes", maxID)
	}
	switch c := raw[0]; {
	case c == '"', c == '-', c >= '0' && c <= '9':
		return ID(raw), nil
	default:
		return "", errors.New("its id is neither a string nor a number")
	}
}
