package openai

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"github.com/dsh-harness/dsh/internal/sse"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/llm/internal/wirehttp"
)

const (
	// afterFinish bounds the wait for usage and [DONE] once the answer is whole.
	afterFinish = 5 * time.Second
	// afterDone bounds the wait for the end of the body, so that the connection
	// can be used again.
	afterDone = 200 * time.Millisecond
)

type adapter struct {
	config Config
	models []llm.Model
	client *wirehttp.Client
}

func (a *adapter) ready() error {
	if _, err := a.client.Key(); err != nil {
		return err
	}
	return nil
}

func (a *adapter) model(id string) llm.Model {
	for _, m := range a.models {
		if m.ID == id {
			return m
		}
	}
	return llm.Model{Provider: a.config.Name, ID: id}
}

// Stream implements [llm.Adapter].
func (a *adapter) Stream(ctx context.Context, req *llm.Request) llm.Stream {
	return func(yield func(llm.Chunk, error) bool) {
		body, err := a.encode(req)
		if err != nil {
			yield(llm.Chunk{}, err)
			return
		}
		resp, failed := a.client.Post(ctx, "chat/completions", body)
		if failed != nil {
			yield(llm.Chunk{}, failed)
			return
		}
		defer resp.Close()
		a.read(resp, yield)
	}
}

// read passes the answer on, chunk by chunk.
func (a *adapter) read(resp *wirehttp.Response, yield func(llm.Chunk, error) bool) {
	d := newDecoder(a.config.Dialect)
	events := sse.NewReader(resp)
	for {
		event, err := events.Next()
		if err == nil {
			err = d.event(event, resp)
		} else {
			err = d.ended(err, resp)
		}
		if errors.Is(err, errComplete) {
			d.finish()
		}
		for _, c := range d.out {
			if !yield(c, nil) {
				return
			}
		}
		switch {
		case errors.Is(err, errComplete):
			resp.Hurry(afterDone)
			_, _ = io.Copy(io.Discard, io.LimitReader(resp, 64<<10)) // nothing in it counts any more
			return
		case err != nil:
			yield(llm.Chunk{}, err)
			return
		case d.reason != "":
			resp.Hurry(afterFinish)
		}
	}
}

// errComplete says that the answer is whole.
var errComplete = errors.New("complete")

var done = []byte("[DONE]")

// event reads one event of the stream into d.out. The error is [errComplete], or an
// [*llm.Error].
func (d *decoder) event(e sse.Event, resp *wirehttp.Response) error {
	d.out = d.out[:0]
	data := bytes.TrimSpace(e.Data)
	if len(data) == 0 {
		return nil
	}
	if bytes.Equal(data, done) {
		return errComplete
	}
	if string(e.Name) == "error" {
		f, _ := wirehttp.ParseFailure(data)
		if f.Message == "" {
			f.Message = string(data)
		}
		return resp.Classify(f)
	}
	switch err := d.decode(data); {
	case err != nil:
		return resp.Malformed("is no valid stream of chunks: "+err.Error(), err)
	case d.failed:
		return resp.Classify(d.failure)
	case d.reason == "insufficient_system_resource" || d.reason == "error":
		return resp.Classify(wirehttp.Failure{Message: "the answer was broken off: " + d.reason, Code: "503"})
	}
	return nil
}

// ended returns what the end of the stream means.
func (d *decoder) ended(err error, resp *wirehttp.Response) error {
	d.out = d.out[:0]
	if errors.Is(err, sse.ErrTooLarge) {
		return resp.Malformed("has an event of more than 16 MiB", err)
	}
	failed := resp.Failed(err)
	switch {
	case failed.Code == llm.CodeAborted:
		return failed
	case d.reason != "":
		return errComplete
	case err == io.EOF:
		return resp.Closed(nil)
	}
	return failed
}
