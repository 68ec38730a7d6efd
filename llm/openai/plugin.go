// Package openai speaks the chat completions API of OpenAI, which most other
// providers and local servers offer too, and DeepSeek's dialect of it.
//
// A row of the configuration is one provider:
//
//	# cordis.yml
//	- id: deepseek
//	  plugin: llm-openai
//	  config:
//	    name: deepseek
//	    baseURL: ${env:DEEPSEEK_BASE_URL:-https://api.deepseek.com}
//	- id: local
//	  plugin: llm-openai
//	  config:
//	    name: local
//	    baseURL: http://127.0.0.1:8080/v1
//	    models:
//	      - id: qwen3
//	        window: 131072
//
// What a server does is taken as it comes, as far as its meaning is beyond doubt: the
// quirks are listed where they are handled. An answer is complete once a finish_reason or
// [DONE] has come; one that ends before is an error, also when its tool calls
// look whole. A finish_reason without [DONE] is accepted.
//
// The adapter is used by many goroutines; each stream belongs to the one that
// ranges over it.
package openai

import (
	"context"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/llm/internal/wirehttp"
	"github.com/dsh-harness/dsh/plugin"
)

// Plugin adds one provider to [llm.Providers]. A changed row replaces the provider;
// answers that are streaming go on.
var Plugin = plugin.Plugin[Config]{
	Name:    "llm-openai",
	Doc:     "A model provider that speaks the OpenAI chat completions API, or DeepSeek's dialect of it.",
	Default: defaultConfig,
	Start: func(_ context.Context, s *plugin.Scope, c Config) error {
		a, err := newAdapter(c)
		if err != nil {
			return err
		}
		if _, err := s.Defer("close connections", func(context.Context) error {
			a.client.CloseIdle()
			return nil
		}); err != nil {
			return err
		}
		_, err = llm.Providers.Add(s, a.config.Name, llm.Provider{
			Adapter: a, Models: a.models, Ready: a.ready, Exact: a.config.Exact,
		})
		return err
	},
}

func newAdapter(c Config) (*adapter, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c, base, err := c.complete()
	if err != nil {
		return nil, err
	}
	models := make([]llm.Model, len(c.Models))
	for i, m := range c.Models {
		m.Provider = c.Name
		models[i] = m
	}
	return &adapter{config: c, models: models, client: &wirehttp.Client{
		Provider: c.Name, Base: base, KeyEnv: c.KeyEnv, KeyURL: c.KeyURL, Header: c.Headers,
		Connect: c.ConnectTimeout, Answer: c.HeaderTimeout, Idle: c.IdleTimeout,
	}}, nil
}
