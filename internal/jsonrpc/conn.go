package jsonrpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Handler takes each request and notification, on the goroutine that reads, in the order in which they came. It
// must be quick; what takes time it returns as [Later].
type Handler func(ctx context.Context, m Incoming) Reply

// Reply is the answer to a request. The zero Reply answers a notification; for a request it is the result null.
type Reply struct {
	result any
	err    error
	later  func(context.Context) (any, error)
	then   func()
}

// Result answers with v, which is encoded.
func Result(v any) Reply { return Reply{result: v} }

// Fail answers with an error: an [*Error] in its chain as it is, another one as [CodeInternal].
func Fail(err error) Reply { return Reply{err: err} }

// Later answers with what f returns. f runs on a goroutine of its own; its context ends with the connection, and
// with [ErrCancelled] as its cause when the other side takes the request back.
func Later(f func(ctx context.Context) (any, error)) Reply { return Reply{later: f} }

// Then returns r with f to be called once the answer is on its way: whatever f sends comes behind it. f must be quick.
func (r Reply) Then(f func()) Reply {
	r.then = f
	return r
}

// Options of a connection. Zero values stand for the defaults.
type Options struct {
	Handler     Handler       // nil refuses every request
	MaxRequests int           // that the other side may have in flight; 256
	QueueBytes  int64         // that may wait to be written; 256 KiB. A single message may be longer.
	QueueTime   time.Duration // how long one write may take before the connection is ended; 30 s
	Logger      *slog.Logger  // nil discards
}

// Conn is one connection.
type Conn struct {
	stream Stream
	o      Options

	mu      sync.Mutex
	calls   map[ID]chan message            // that the other side has to answer
	serving map[ID]context.CancelCauseFunc // that this side has to answer
	next    uint64
	queue   [][]byte
	queued  int64
	ending  bool          // nothing more is to come: the writer ends once the queue is written
	space   chan struct{} // closed when there is room again; nil while there is
	wake    chan struct{} // holds a token when there is something to write
	err     error         // why it ended

	done    chan struct{} // closed when it has ended
	once    sync.Once
	running sync.WaitGroup // handlers that run later
}

// New makes a connection. Nothing is read or written before [Conn.Serve].
func New(s Stream, o Options) *Conn {
	if o.Handler == nil {
		o.Handler = func(_ context.Context, m Incoming) Reply { return Fail(NoMethod(m.Method)) }
	}
	if o.MaxRequests <= 0 {
		o.MaxRequests = 256
	}
	if o.QueueBytes <= 0 {
		o.QueueBytes = 256 << 10
	}
	if o.QueueTime <= 0 {
		o.QueueTime = 30 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Conn{
		stream: s, o: o,
		calls: map[ID]chan message{}, serving: map[ID]context.CancelCauseFunc{},
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
}

// NoMethod is the error for a method that is not known.
func NoMethod(method string) *Error {
	return &Error{Code: CodeNoMethod, Message: fmt.Sprintf("there is no method %q", method)}
}

// Serve reads and writes until the stream ends, ctx does, or [Conn.Close] is called, and returns when everything that
// belonged to the connection has ended. It is called once. The error is nil when the other side ended the stream.
func (c *Conn) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() { c.fail(context.Cause(ctx)) })
	defer stop()
	var writing sync.WaitGroup
	writing.Go(c.write)
	err := c.read(ctx)
	stop()
	// The other side has said all it will; what it asked for is cancelled, and what is ready is still sent.
	cancel(ErrClosed)
	c.running.Wait()
	if errors.Is(err, io.EOF) {
		c.end()
		writing.Wait()
	}
	c.fail(err)
	writing.Wait()
	if err = c.reason(); errors.Is(err, io.EOF) || errors.Is(err, ErrClosed) {
		return nil
	}
	return err
}

// Close ends the connection. It does not wait; [Conn.Serve] does.
func (c *Conn) Close() error {
	c.fail(ErrClosed)
	return nil
}

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

func (c *Conn) fail(err error) {
	c.once.Do(func() {
		c.mu.Lock()
		c.err = err
		c.mu.Unlock()
		close(c.done)
		if err := c.stream.Close(); err != nil {
			c.o.Logger.Debug("jsonrpc: close the stream", "err", err)
		}
	})
}

func (c *Conn) reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// closed is the error of whoever meets the end of the connection.
func (c *Conn) closed() error {
	err := c.reason()
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, ErrClosed) {
		return ErrClosed
	}
	return fmt.Errorf("%w: %w", ErrClosed, err)
}

// Call asks the other side and waits for the answer, which is read into result unless that is nil. When the other side
// refuses, the error is an [*Error]; when the connection ends, [ErrClosed]. When ctx ends first the
// call is taken back, and its cause is the error.
func (c *Conn) Call(ctx context.Context, method string, params, result any) error {
	answer := make(chan message, 1)
	c.mu.Lock()
	c.next++
	id := ID(strconv.FormatUint(c.next, 10))
	c.calls[id] = answer
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.calls, id)
		c.mu.Unlock()
	}()
	raw, err := request(id, method, params)
	if err != nil {
		return fmt.Errorf("encode the parameters of %s: %w", method, err)
	}
	if err := c.enqueue(ctx, raw); err != nil {
		return fmt.Errorf("call %s: %w", method, err)
	}
	select {
	case m := <-answer:
		return accept(method, m, result)
	case <-c.done:
		select {
		case m := <-answer:
			return accept(method, m, result)
		default:
			return fmt.Errorf("call %s: %w", method, c.closed())
		}
	case <-ctx.Done():
		raw, err := request("", NoteCancel, struct {
			RequestID json.RawMessage `json:"requestId"`
		}{json.RawMessage(id)})
		if err == nil {
			c.push(raw)
		}
		return fmt.Errorf("call %s: %w", method, context.Cause(ctx))
	}
}

func accept(method string, m message, result any) error {
	if m.Error != nil {
		return m.Error
	}
	if result == nil || len(m.Result) == 0 {
		return nil
	}
	if err := json.Unmarshal(m.Result, result); err != nil {
		return fmt.Errorf("%s: its result is not understood: %w", method, err)
	}
	return nil
}

// Notify tells the other side something. It waits while too much is waiting to be written, bounded by ctx.
func (c *Conn) Notify(ctx context.Context, method string, params any) error {
	raw, err := request("", method, params)
	if err != nil {
		return fmt.Errorf("encode the parameters of %s: %w", method, err)
	}
	if err := c.enqueue(ctx, raw); err != nil {
		return fmt.Errorf("notify %s: %w", method, err)
	}
	return nil
}

// enqueue hands a message to the writer once there is room.
func (c *Conn) enqueue(ctx context.Context, raw []byte) error {
	for {
		c.mu.Lock()
		if c.err != nil {
			c.mu.Unlock()
			return c.closed()
		}
		if c.queued == 0 || c.queued+int64(len(raw)) <= c.o.QueueBytes {
			c.add(raw)
			c.mu.Unlock()
			return nil
		}
		if c.space == nil {
			c.space = make(chan struct{})
		}
		space := c.space
		c.mu.Unlock()
		select {
		case <-space:
		case <-c.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// push hands a short message to the writer without waiting for room.
func (c *Conn) push(raw []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.add(raw)
	}
}

// add appends to the queue; the lock is held.
func (c *Conn) add(raw []byte) {
	c.queue = append(c.queue, raw)
	c.queued += int64(len(raw))
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// write is the goroutine that writes. It ends with the connection.
func (c *Conn) write() {
	slow := time.AfterFunc(c.o.QueueTime, func() { c.fail(ErrSlow) })
	slow.Stop()
	defer slow.Stop()
	for {
		select {
		case <-c.wake:
		case <-c.done:
			return
		}
		c.mu.Lock()
		batch := c.queue
		c.queue = nil
		ending := c.ending
		c.mu.Unlock()
		for _, raw := range batch {
			slow.Reset(c.o.QueueTime)
			err := c.stream.Write(raw)
			slow.Stop()
			if err != nil {
				if gone(err) {
					err = ErrClosed
				}
				c.fail(err)
				return
			}
			c.written(int64(len(raw)))
		}
		if ending {
			return
		}
	}
}

// gone reports whether a write failed because the other side has ended the connection.
func gone(err error) bool {
	return errors.Is(err, io.ErrClosedPipe) || errors.Is(err, os.ErrClosed) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// end has the writer end once everything is written.
func (c *Conn) end() {
	c.mu.Lock()
	c.ending = true
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *Conn) written(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queued -= n
	// Half empty before anybody goes on: waking for each message would have every writer run for a few bytes.
	if c.space != nil && c.queued <= c.o.QueueBytes/2 {
		close(c.space)
		c.space = nil
	}
}

// read takes messages until the stream ends.
func (c *Conn) read(ctx context.Context) error {
	for {
		raw, err := c.stream.Read()
		var large *TooLargeError
		switch {
		case errors.As(err, &large):
			c.answer(ctx, "", nil, &Error{Code: CodeInvalid, Message: "the message was not read: " + err.Error()})
			continue
		case err != nil:
			return err
		}
		c.take(ctx, raw)
	}
}

// take handles one message.
func (c *Conn) take(ctx context.Context, raw []byte) {
	var m message
	if err := json.Unmarshal(raw, &m); err != nil {
		code, what := CodeParse, "the message is no JSON: "+err.Error()
		if first := bytes.TrimLeft(raw, " \t\r\n"); json.Valid(raw) {
			code, what = CodeInvalid, "the message is no JSON-RPC 2.0: "+err.Error()
			if len(first) > 0 && first[0] == '[' {
				what = "batches are not part of this protocol: send one message at a time"
			}
		}
		c.answer(ctx, "", nil, &Error{Code: code, Message: what})
		return
	}
	switch {
	case m.Method == nil && (m.Result != nil || m.Error != nil):
		c.settle(m)
	case m.Method == nil:
		id, _ := c.idFor(m.ID)
		c.answer(ctx, id, nil, &Error{Code: CodeInvalid, Message: "the message has neither a method nor a result"})
	case len(m.ID) == 0:
		c.notification(ctx, Incoming{Method: *m.Method, Params: bytes.Clone(m.Params), Notification: true})
	default:
		id, err := c.idFor(m.ID)
		if err == nil && m.Version != "2.0" {
			err = errors.New(`its member "jsonrpc" is not "2.0"`)
		}
		if err != nil {
			c.answer(ctx, id, nil, &Error{Code: CodeInvalid, Message: "the request is not valid: " + err.Error()})
			return
		}
		c.request(ctx, Incoming{Method: *m.Method, Params: bytes.Clone(m.Params), ID: id})
	}
}

func (c *Conn) idFor(raw json.RawMessage) (ID, error) {
	if len(raw) == 0 {
		return "", nil
	}
	return idOf(raw)
}

// settle gives an answer to who waits for it. One that nobody waits for, such as to a call that was taken back, is dropped.
func (c *Conn) settle(m message) {
	c.mu.Lock()
	answer, ok := c.calls[ID(m.ID)]
	delete(c.calls, ID(m.ID))
	c.mu.Unlock()
	if !ok {
		return
	}
	m.ID, m.Result = nil, bytes.Clone(m.Result)
	if m.Error != nil {
		m.Error.Data = bytes.Clone(m.Error.Data)
	}
	answer <- m
}

func (c *Conn) notification(ctx context.Context, m Incoming) {
	if m.Method == NoteCancel {
		var p struct {
			RequestID json.RawMessage `json:"requestId"`
		}
		if json.Unmarshal(m.Params, &p) != nil || len(p.RequestID) == 0 {
			return // a notification gets no answer, also when it is wrong
		}
		c.mu.Lock()
		cancel := c.serving[ID(p.RequestID)]
		c.mu.Unlock()
		if cancel != nil {
			cancel(ErrCancelled)
		}
		return
	}
	if r := c.handle(ctx, m); r.later != nil {
		c.running.Go(func() {
			if _, err := c.guard(m, func() (any, error) { return r.later(ctx) }); err != nil {
				c.o.Logger.Debug("jsonrpc: notification", "method", m.Method, "err", err)
			}
		})
	} else if r.err != nil {
		c.o.Logger.Debug("jsonrpc: notification", "method", m.Method, "err", r.err)
	}
}

func (c *Conn) request(ctx context.Context, m Incoming) {
	c.mu.Lock()
	_, twice := c.serving[m.ID]
	full := len(c.serving) >= c.o.MaxRequests
	c.mu.Unlock()
	switch {
	case twice:
		c.answer(ctx, m.ID, nil, &Error{Code: CodeInvalid, Message: fmt.Sprintf("a request with the id %s is still running", m.ID)})
		return
	case full:
		c.answer(ctx, m.ID, nil, &Error{Code: CodeBusy, Message: fmt.Sprintf("%d requests are running already; wait for an answer first", c.o.MaxRequests)})
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	c.mu.Lock()
	c.serving[m.ID] = cancel
	c.mu.Unlock()
	r := c.handle(ctx, m)
	end := func(result any, err error) {
		cancelled := errors.Is(context.Cause(ctx), ErrCancelled)
		c.mu.Lock()
		delete(c.serving, m.ID)
		c.mu.Unlock()
		cancel(nil)
		c.answer(context.WithoutCancel(ctx), m.ID, result, wire(err, cancelled))
		if r.then != nil {
			r.then()
		}
	}
	if r.later == nil {
		end(r.result, r.err)
		return
	}
	c.running.Go(func() {
		end(c.guard(m, func() (any, error) { return r.later(ctx) }))
	})
}

// handle calls the handler; a panic fails the request, not the connection.
func (c *Conn) handle(ctx context.Context, m Incoming) (r Reply) {
	_, err := c.guard(m, func() (any, error) {
		r = c.o.Handler(ctx, m)
		return nil, nil
	})
	if err != nil {
		return Fail(err)
	}
	return r
}

func (c *Conn) guard(m Incoming, f func() (any, error)) (v any, err error) {
	defer func() {
		if p := recover(); p != nil {
			c.o.Logger.Error("jsonrpc: a handler panicked", "method", m.Method, "panic", p, "stack", string(debug.Stack()))
			v, err = nil, &Error{Code: CodeInternal, Message: fmt.Sprintf("%s failed because of a mistake in this program: %v", m.Method, p)}
		}
	}()
	return f()
}

// wire is what the other side is told of an error.
func wire(err error, cancelled bool) *Error {
	var e *Error
	switch {
	case err == nil:
		return nil
	case cancelled:
		return &Error{Code: CodeCancelled, Message: err.Error()}
	case errors.As(err, &e):
		return e
	default:
		return &Error{Code: CodeInternal, Message: err.Error()}
	}
}

// answer sends an answer, waiting for room.
func (c *Conn) answer(ctx context.Context, id ID, result any, failure *Error) {
	raw, err := response(id, result, failure)
	if err != nil {
		c.o.Logger.Error("jsonrpc: encode a result", "err", err)
		if raw, err = response(id, nil, &Error{Code: CodeInternal, Message: "the result cannot be encoded: " + err.Error()}); err != nil {
			return
		}
	}
	_ = c.enqueue(ctx, raw) // the error is that the connection has ended: nobody waits for the answer
}
