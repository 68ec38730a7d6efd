// Package retry tries failed requests again, and holds back the calls of all agents
// while a provider has asked to wait.
//
//	# cordis.yml
//	- id: llm-retry
//	  plugin: llm-retry
//	  config:
//	    maxAttempts: 8
//	    maxTime: 10m
//	    initialDelay: 500ms
//	    maxDelay: 10s
//	    maxAfter: 60s
//	    jitter: 0.1
//
// It tries again what may succeed without anybody changing anything: a rate limit, a
// failing server, a broken or silent connection, and once an answer with nothing
// in it. What the provider asks to wait is honoured up to maxAfter; beyond that the request
// fails, and says when to try again. Otherwise the wait doubles from initialDelay to
// maxDelay. Each retry is in the log as llm/retry, durable before the wait begins.
//
// The state is of the plugin's life and guards itself: agents of any number use it at once.
package retry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/session"
)

// Config is how often and how long requests are tried.
type Config struct {
	MaxAttempts  int           `json:"maxAttempts" doc:"how often a request is sent in all"`
	MaxTime      time.Duration `json:"maxTime" doc:"no retry later than this after the first failure of a step"`
	InitialDelay time.Duration `json:"initialDelay" doc:"wait before the first retry; it doubles from one to the next"`
	MaxDelay     time.Duration `json:"maxDelay" doc:"longest wait where the provider asks for none"`
	MaxAfter     time.Duration `json:"maxAfter" doc:"longest wait that a provider may ask for; beyond it the request fails"`
	Jitter       float64       `json:"jitter" doc:"share of a wait by which it varies, from 0 to 1"`
}

func defaultConfig() Config {
	return Config{
		MaxAttempts: 8, MaxTime: 10 * time.Minute, InitialDelay: 500 * time.Millisecond,
		MaxDelay: 10 * time.Second, MaxAfter: time.Minute, Jitter: 0.1,
	}
}

// Validate returns nil when the config makes sense.
func (c *Config) Validate() error {
	switch {
	case c.MaxAttempts < 1:
		return fmt.Errorf("maxAttempts %d: want at least 1", c.MaxAttempts)
	case c.MaxTime <= 0 || c.InitialDelay <= 0 || c.MaxDelay < c.InitialDelay || c.MaxAfter < 0:
		return errors.New("want maxTime and initialDelay above zero, maxDelay at least initialDelay, maxAfter not below zero")
	case !(c.Jitter >= 0 && c.Jitter <= 1):
		return fmt.Errorf("jitter %v: want 0 to 1", c.Jitter)
	}
	return nil
}

// Plugin is the retry policy. A changed config applies to the next failure.
var Plugin = plugin.Plugin[Config]{
	Name:    "llm-retry",
	Doc:     "Tries failed model requests again, and holds calls back while a provider asks to wait.",
	Default: defaultConfig,
	Start: func(_ context.Context, s *plugin.Scope, c Config) error {
		p := &policy{scope: s, config: c, steps: map[string]step{}, holds: map[string]time.Time{}}
		if _, err := agent.RequestFailed.On(s, p.failed, plugin.At(agent.Retry)); err != nil {
			return err
		}
		if _, err := agent.Gone.On(s, p.forget); err != nil {
			return err
		}
		if _, err := llm.StreamCall.On(s, p.admit, plugin.At(llm.Admit)); err != nil {
			return err
		}
		return plugin.OnReconfigure(s, func(_ context.Context, c Config) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.config = c
			return nil
		})
	},
}

type policy struct {
	scope *plugin.Scope

	mu     sync.Mutex
	config Config
	steps  map[string]step      // by agent: the one that is failing
	holds  map[string]time.Time // by provider: when it may be called again
}

// step is what is known about the failures of a step.
type step struct {
	turn, step int
	since      time.Time
	empty      bool // it was tried again after an empty answer
}

// failed decides about a failed request: agent/request-error.
func (p *policy) failed(ctx context.Context, f *agent.RequestFailure, next plugin.Next[*agent.RequestFailure, agent.Recovery]) (agent.Recovery, error) {
	delay, retry, why := p.decide(f, time.Now())
	if !retry {
		if why != "" {
			f.Err.Message = f.Err.Error() + why // whoever holds the failure shows it
		}
		return next(ctx, f)
	}
	log := f.Agent.Session()
	if _, err := log.Append(session.Draft{Type: session.Retry, Data: session.RetryData{
		Turn: f.Turn, Step: f.Step.Step, Attempt: f.Attempt, DelayMS: delay.Milliseconds(),
		Failure: session.ErrorData{Code: string(f.Err.Code), Message: f.Err.Error(), Status: f.Err.Status},
	}}); err != nil {
		return agent.Recovery{}, fmt.Errorf("log the retry: %w", err)
	}
	if err := log.Flush(ctx); err != nil {
		return agent.Recovery{}, fmt.Errorf("log the retry: %w", err)
	}
	if !p.wait(ctx, delay) {
		return next(ctx, f)
	}
	return agent.Recovery{Retry: true}, nil
}

// decide returns how long to wait before the request is tried again. Where it is not,
// why completes the error's message.
func (p *policy) decide(f *agent.RequestFailure, now time.Time) (delay time.Duration, retry bool, why string) {
	if !f.Err.Code.Retryable() {
		return 0, false, ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c, id := p.config, f.Agent.ID()
	s := p.steps[id]
	if s.turn != f.Turn || s.step != f.Step.Step {
		s = step{turn: f.Turn, step: f.Step.Step, since: now}
	}
	again := s.empty
	s.empty = s.empty || f.Err.Code == llm.CodeEmpty
	p.steps[id] = s
	delay = p.delay(f)
	switch {
	case f.Err.Code == llm.CodeEmpty && again:
		return 0, false, "; it was asked twice"
	case f.Err.After > c.MaxAfter:
		return 0, false, fmt.Sprintf("; try again at %s, in %s", now.Add(f.Err.After).Format("15:04:05"), f.Err.After.Round(time.Second))
	case c.MaxAttempts == 1:
		return 0, false, ""
	case f.Attempt >= c.MaxAttempts:
		return 0, false, fmt.Sprintf("; given up after %d attempts", f.Attempt)
	case now.Add(delay).Sub(s.since) > c.MaxTime:
		return 0, false, fmt.Sprintf("; given up %s after the first failure", now.Sub(s.since).Round(time.Second))
	}
	return delay, true, ""
}

func (p *policy) delay(f *agent.RequestFailure) time.Duration {
	c := p.config
	vary := func(d time.Duration, by float64) time.Duration { return time.Duration(float64(d) * (1 + c.Jitter*by)) }
	if f.Err.After > 0 {
		return vary(f.Err.After, rand.Float64()) // never earlier than asked
	}
	d := c.InitialDelay
	for range f.Attempt - 1 {
		if d *= 2; d >= c.MaxDelay {
			break
		}
	}
	return min(vary(min(d, c.MaxDelay), 2*rand.Float64()-1), c.MaxDelay)
}

// wait reports false when ctx or the plugin ended before d was over.
func (p *policy) wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-p.scope.Context().Done():
	}
	return false
}

func (p *policy) forget(_ context.Context, a agent.Agent) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.steps, a.ID())
	return nil
}

// admit holds a call back while its provider has asked to wait, whichever agent it
// told, and notes when it asks: llm/stream.
func (p *policy) admit(ctx context.Context, req *llm.Request, next plugin.Next[*llm.Request, llm.Stream]) (llm.Stream, error) {
	provider := req.Header.Provider
	if err := p.hold(ctx, provider); err != nil {
		return nil, err
	}
	stream, err := next(ctx, req)
	if err != nil {
		p.note(provider, err)
		return nil, err
	}
	return func(yield func(llm.Chunk, error) bool) {
		for c, err := range stream {
			if err != nil {
				p.note(provider, err)
			}
			if !yield(c, err) {
				return
			}
		}
	}, nil
}

// spread is the most by which held calls go out one after the other.
const spread = 250 * time.Millisecond

func (p *policy) hold(ctx context.Context, provider string) error {
	begin := time.Now()
	for {
		p.mu.Lock()
		until, most := p.holds[provider], p.config.MaxTime
		p.mu.Unlock()
		left := time.Until(until)
		if left <= 0 {
			return nil
		}
		if time.Since(begin)+left > most {
			return &llm.Error{Code: llm.CodeRateLimit, After: left, Message: fmt.Sprintf(
				"%s: it goes on asking to wait, for %s by now; try again at %s", provider, time.Since(begin).Round(time.Second), until.Format("15:04:05"))}
		}
		if !p.wait(ctx, left+rand.N(min(spread, left))) && ctx.Err() != nil {
			cause := context.Cause(ctx)
			return &llm.Error{Code: llm.CodeAborted, Message: provider + ": the call was ended while it waited: " + cause.Error(), Err: cause}
		}
		if p.scope.Context().Err() != nil {
			return nil // nobody counts any more
		}
	}
}

// note remembers how long the provider asks to wait. A wait that is too long for
// a retry holds nobody: the next call may find that the limit was lifted.
func (p *policy) note(provider string, err error) {
	var e *llm.Error
	if !errors.As(err, &e) || e.After <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := time.Now().Add(e.After); e.After <= p.config.MaxAfter && until.After(p.holds[provider]) {
		p.holds[provider] = until
	}
}
