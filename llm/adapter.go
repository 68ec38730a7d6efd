package llm

import (
	"context"
	"iter"

	"github.com/dsh-harness/dsh/plugin"
)

// Stream is a streamed answer. It is ranged over once, by one goroutine;
// breaking out of the loop ends the call and frees what it holds. An error is
// the last element, and always an [*Error].
type Stream = iter.Seq2[Chunk, error]

// Adapter calls the models of one provider. It is used by many goroutines.
type Adapter interface {
	// Stream sends req and returns the answer as it comes. Nothing is sent
	// before the stream is ranged over. Cancelling ctx ends it with
	// [CodeAborted]. An answer that ends before the provider said that it is
	// complete is an error, so what a caller has seen without one is whole.
	Stream(ctx context.Context, req *Request) Stream
}

// Encoder is an [Adapter] that can say what it would send.
type Encoder interface {
	// Encode returns the body of req, byte for byte as Stream sends it. It sends nothing and needs no key.
	Encode(req *Request) ([]byte, error)
}

// Provider is an entry of [Providers].
type Provider struct {
	Adapter Adapter
	// Models are the known models, the default first. They are advice: another
	// name is passed to the provider as it is.
	Models []Model
	// Ready returns nil when a call has what it needs, such as a key; otherwise
	// an [*Error] that says what is missing and how to give it. It does no I/O
	// beyond reading the environment and local files.
	Ready func() error
	// Exact says that only the listed models exist.
	Exact bool
}

// Providers is the set of adapters, by provider name. A wire's plugin adds one
// for each provider that its row configures.
var Providers = plugin.NewSet[Provider]("llm/providers")

// Service is the key of the runtime that calls models.
var Service = plugin.NewKey[Runtime]("llm")

// Runtime calls models through the adapters in [Providers]. It is used by many
// goroutines.
type Runtime interface {
	// Resolve returns the model that ref names: "provider/model", a bare model
	// name that exactly one provider lists, or "" for the default, which is the
	// first model of the first provider. The error of an unknown name is an
	// [*Error] that names the nearest known one.
	Resolve(s *plugin.Scope, ref string) (Model, error)
	// Models returns the known models in the order of [Providers].
	Models(s *plugin.Scope) []Model
	// Stream passes req through [StreamCall] to its provider's adapter. Every
	// failure, also a panic of a listener or of the adapter, is an [*Error] at the
	// end of the stream.
	Stream(ctx context.Context, s *plugin.Scope, req *Request) Stream
}

// Stages of [StreamCall].
const (
	// Observe is for who records or meters what the others have done.
	Observe plugin.Stage = "observe"
	// Admit is for who lets a call wait or refuses it (a rate limit).
	Admit plugin.Stage = "admit"
	// Barrier is for who makes the log durable before the call leaves.
	Barrier plugin.Stage = "barrier"
	// Transport is for who stands in for the provider (replay).
	Transport plugin.Stage = "transport"
)

// StreamCall wraps the adapter: llm/stream.
var StreamCall = plugin.NewWaterfall[*Request, Stream]("llm/stream", Observe, Admit, Barrier, Transport)
