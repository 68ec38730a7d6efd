// Package replay is a model whose answers are written down: a cassette stands in for
// the provider, everything else is real. The demo runs on it, and tests of agents do.
//
//	# cordis.yml
//	- id: replay
//	  plugin: llm-replay
//	  config:
//	    file: answers.yml # or the answers themselves, as answers:
//	    pace: 30ms
//
// Answers are given in order, one to each request of a session, whatever the
// request says, unless the answer expects something of it. A session that another
// process began goes on behind as many answers as it has assistant messages.
//
// The adapter is used by many goroutines; sessions do not disturb one another.
package replay

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
)

// Config is one scripted provider.
type Config struct {
	Name    string   `json:"name" doc:"the provider's name"`
	Model   string   `json:"model" doc:"the name of its one model"`
	File    string   `json:"file,omitempty" doc:"the cassette, a YAML list of answers"`
	Answers []Answer `json:"answers,omitempty" doc:"the cassette itself, instead of a file"`
	Pace    Duration `json:"pace,omitempty" doc:"wait between the words of an answer"`
}

// Validate returns nil when there is exactly one cassette and it can be played.
func (c *Config) Validate() error {
	switch {
	case c.Name == "" || c.Model == "":
		return errors.New("name and model must not be empty")
	case (c.File == "") == (c.Answers == nil):
		return errors.New("want a cassette: either file or answers")
	}
	return check(c.Answers)
}

// Plugin adds the provider to [llm.Providers]. A changed row starts from the first answer.
var Plugin = plugin.Plugin[Config]{
	Name:    "llm-replay",
	Doc:     "A model whose answers are written down in a cassette.",
	Default: func() Config { return Config{Name: "replay", Model: "scripted"} },
	Start: func(_ context.Context, s *plugin.Scope, c Config) error {
		answers := c.Answers
		if c.File != "" {
			data, err := os.ReadFile(c.File)
			if err != nil {
				return fmt.Errorf("read the cassette: %w", err)
			}
			if answers, err = Parse(data); err != nil {
				return fmt.Errorf("%s: %w", c.File, err)
			}
		}
		_, err := llm.Providers.Add(s, c.Name, llm.Provider{
			Adapter: New(answers, time.Duration(c.Pace)),
			Models:  []llm.Model{{Provider: c.Name, ID: c.Model}},
			Exact:   true,
		})
		return err
	},
}

// New returns an adapter that gives these answers, word by word with a wait of pace
// between them.
func New(answers []Answer, pace time.Duration) llm.Adapter {
	return &player{answers: answers, pace: pace, given: map[place]int{}}
}

type player struct {
	answers []Answer
	pace    time.Duration

	mu    sync.Mutex
	given map[place]int
}

// place is one list of requests that are answered in order.
type place struct{ session, purpose string }

// next returns the answer to a request and its number, from 1.
func (p *player) next(req *llm.Request) (Answer, int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := place{req.Session, req.Purpose}
	n, ok := p.given[at]
	if !ok && req.Purpose == "" {
		for _, m := range req.History.Messages() {
			if m.Role == llm.RoleAssistant {
				n++
			}
		}
	}
	p.given[at] = n + 1
	seen := 0
	for i, a := range p.answers {
		if a.Purpose != req.Purpose {
			continue
		}
		if seen == n {
			if what := a.Expect.differs(req); what != "" {
				return a, i + 1, mismatch(fmt.Sprintf("the cassette's answer %d expects another request: %s", i+1, what))
			}
			return a, i + 1, nil
		}
		seen++
	}
	what := "the conversation"
	if req.Purpose != "" {
		what = "the purpose " + req.Purpose
	}
	return Answer{}, 0, mismatch(fmt.Sprintf("the cassette has %d answers for %s, and this is request %d", seen, what, n+1))
}

func mismatch(message string) error {
	return &llm.Error{Code: llm.CodeReplayMismatch, Message: message}
}

// Stream implements [llm.Adapter].
func (p *player) Stream(ctx context.Context, req *llm.Request) llm.Stream {
	return func(yield func(llm.Chunk, error) bool) {
		if err := p.play(ctx, req, func(c llm.Chunk) bool { return yield(c, nil) }); err != nil && !errors.Is(err, errLeft) {
			yield(llm.Chunk{}, err)
		}
	}
}

// errLeft says that nobody wants the rest of the answer.
var errLeft = errors.New("left")

func (p *player) play(ctx context.Context, req *llm.Request, yield func(llm.Chunk) bool) error {
	if err := wait(ctx, 0); err != nil {
		return err
	}
	a, number, err := p.next(req)
	if err != nil {
		return err
	}
	if err := wait(ctx, time.Duration(a.Delay)); err != nil {
		return err
	}
	blocks := 0
	send := func(first llm.Chunk, text string) error {
		first.Index = blocks
		blocks++
		for i, piece := range pieces(text) {
			if i > 0 {
				if err := wait(ctx, p.pace); err != nil {
					return err
				}
				first = llm.Chunk{Index: first.Index, Block: first.Block}
			}
			first.Text = piece
			if !yield(first) {
				return errLeft
			}
		}
		return nil
	}
	if a.Reasoning != "" {
		if err := send(llm.Chunk{Block: llm.BlockReasoning}, a.Reasoning); err != nil {
			return err
		}
	}
	if a.Text != "" {
		if err := send(llm.Chunk{Block: llm.BlockText}, a.Text); err != nil {
			return err
		}
	}
	for i, c := range a.Calls {
		arguments, err := c.arguments()
		if err != nil {
			return mismatch(fmt.Sprintf("the cassette's answer %d: calls[%d]: %v", number, i, err))
		}
		if c.ID == "" {
			c.ID = fmt.Sprintf("call_%d_%d", number, i)
		}
		if err := send(llm.Chunk{Block: llm.BlockToolCall, ProviderID: c.ID, Name: c.Name}, arguments); err != nil {
			return err
		}
	}
	if a.Hold {
		<-ctx.Done()
		return wait(ctx, 0)
	}
	if f := a.Error; f != nil {
		return &llm.Error{Code: f.Code, Message: f.Message, Status: f.Status, After: time.Duration(f.After)}
	}
	return end(a, blocks, yield)
}

func end(a Answer, blocks int, yield func(llm.Chunk) bool) error {
	var last []llm.Chunk
	for i := range blocks {
		last = append(last, llm.Chunk{Kind: llm.ChunkBlockEnd, Index: i})
	}
	if a.Usage != nil {
		last = append(last, llm.Chunk{Kind: llm.ChunkUsage, Usage: *a.Usage})
	}
	finish := a.Finish
	if finish == "" {
		finish = llm.FinishStop
		if len(a.Calls) > 0 {
			finish = llm.FinishToolCalls
		}
	}
	for _, c := range append(last, llm.Chunk{Kind: llm.ChunkFinish, Finish: finish}) {
		if !yield(c) {
			return errLeft
		}
	}
	return nil
}

// pieces cuts text behind its spaces; there is always one piece.
func pieces(text string) []string {
	all := strings.SplitAfter(text, " ")
	if n := len(all); n > 1 && all[n-1] == "" {
		all = all[:n-1]
	}
	return all
}

// wait returns an error when ctx ended before d was over.
func wait(ctx context.Context, d time.Duration) error {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		cause := context.Cause(ctx)
		return &llm.Error{Code: llm.CodeAborted, Message: "the call was ended: " + cause.Error(), Err: cause}
	}
	return nil
}
