package llm

import (
	"fmt"
	"time"
)

// Code classifies a failed call of a model.
type Code string

const (
	CodeAuth            Code = "auth"             // the key was refused
	CodeMissingKey      Code = "missing-key"      // there is no key to send
	CodeQuota           Code = "quota"            // no credit left
	CodeRateLimit       Code = "rate-limit"       // too many requests
	CodeServer          Code = "server"           // the provider failed
	CodeTimeout         Code = "timeout"          // nothing came for too long
	CodeTransport       Code = "transport"        // no connection, or it broke
	CodeStreamClosed    Code = "stream-closed"    // the answer ended before its finish
	CodeMalformed       Code = "malformed"        // what came cannot be understood
	CodeEmpty           Code = "empty"            // an answer with nothing in it
	CodeContextOverflow Code = "context-overflow" // the request does not fit the window
	CodeInvalidRequest  Code = "invalid-request"  // the provider rejects the request
	CodeUnknownModel    Code = "unknown-model"    // there is no such model
	CodeUnknownProvider Code = "unknown-provider" // no adapter serves the provider
	CodeUnsupported     Code = "unsupported"      // the model cannot take this content or effort
	CodeRefusal         Code = "refusal"          // the provider's filter stopped the answer
	CodeAborted         Code = "aborted"          // the caller cancelled
	CodeReplayMismatch  Code = "replay-mismatch"  // a cassette has no answer to this request
	CodeUnknown         Code = "unknown"
)

// Error is a failed call of a model. Its text is one line without markup.
type Error struct {
	Code      Code
	Message   string        // for a person: what failed, on what host, and what to do
	Status    int           // of HTTP, 0 when there was no answer
	RequestID string        // of the provider, for its support
	After     time.Duration // the provider asked to wait this long, 0 when it did not
	Err       error         // the cause, may be nil
}

func (e *Error) Error() string {
	if e.Message != "" {
		return e.Message
	}
	if e.Err != nil {
		return e.Err.Error()
	}
	return fmt.Sprintf("the model call failed: %s", e.Code)
}

func (e *Error) Unwrap() error { return e.Err }

// Retryable reports whether the same request may succeed later without anyone
// changing anything.
func (c Code) Retryable() bool {
	switch c {
	case CodeRateLimit, CodeServer, CodeTimeout, CodeTransport, CodeStreamClosed, CodeMalformed, CodeEmpty:
		return true
	case CodeAuth, CodeMissingKey, CodeQuota, CodeContextOverflow, CodeInvalidRequest, CodeUnknownModel,
		CodeUnknownProvider, CodeUnsupported, CodeRefusal, CodeAborted, CodeReplayMismatch, CodeUnknown:
		return false
	}
	return false
}
