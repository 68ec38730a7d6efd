package openai

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/llm/internal/wirehttp"
)

// Dialect names what a provider makes of the wire.
type Dialect string

const (
	// DeepSeek passes reasoning back, and has a switch to turn thinking off.
	DeepSeek Dialect = "deepseek"
	// OpenAI is what OpenAI and most compatible servers speak.
	OpenAI Dialect = "openai"
)

// Config is one provider.
type Config struct {
	Name    string  `json:"name" doc:"the provider's name, the part before the slash in provider/model"`
	BaseURL string  `json:"baseURL,omitempty" doc:"URL that /chat/completions is appended to; known for deepseek and openai"`
	KeyEnv  string  `json:"keyEnv,omitempty" doc:"environment variable that holds the key; known for deepseek and openai, otherwise no key is sent"`
	KeyURL  string  `json:"keyURL,omitempty" doc:"page where a person gets a key, for messages"`
	Dialect Dialect `json:"dialect,omitempty" doc:"deepseek or openai; follows from the name"`

	Models []llm.Model `json:"models,omitempty" doc:"what is known about models, the default first; other names are passed as they are"`
	Exact  bool        `json:"exact,omitempty" doc:"only the listed models exist"`

	Headers map[string]string `json:"headers,omitempty" doc:"sent with each request"`
	// MaxTokensField differs: OpenAI's reasoning models refuse max_tokens, and
	// compatible servers ignore anything else.
	MaxTokensField string `json:"maxTokensField,omitempty" doc:"member that holds the output ceiling: max_tokens (deepseek) or max_completion_tokens (openai)"`
	AlternateRoles bool   `json:"alternateRoles" doc:"merge neighbouring user messages, for chat templates that want user and assistant to alternate"`

	ConnectTimeout time.Duration `json:"connectTimeout,omitempty" doc:"bound on connecting"`
	HeaderTimeout  time.Duration `json:"headerTimeout,omitempty" doc:"bound on waiting for an answer to begin"`
	IdleTimeout    time.Duration `json:"idleTimeout,omitempty" doc:"bound on waiting for more of an answer; comments count"`
}

func defaultConfig() Config {
	return Config{
		AlternateRoles: true,
		ConnectTimeout: 10 * time.Second,
		HeaderTimeout:  60 * time.Second,
		IdleTimeout:    120 * time.Second,
	}
}

// Validate returns nil when a provider can be made of the config.
func (c *Config) Validate() error {
	full, _, err := c.complete()
	if err != nil {
		return err
	}
	if full.Name == "" || strings.ContainsFunc(full.Name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
	}) {
		return fmt.Errorf("name %q: want letters a to z, digits, '-', '_' or '.'", full.Name)
	}
	if full.Dialect != DeepSeek && full.Dialect != OpenAI {
		return fmt.Errorf("dialect %q: want %s or %s", full.Dialect, DeepSeek, OpenAI)
	}
	if f := full.MaxTokensField; f != "max_tokens" && f != "max_completion_tokens" {
		return fmt.Errorf("maxTokensField %q: want max_tokens or max_completion_tokens", f)
	}
	if full.ConnectTimeout <= 0 || full.HeaderTimeout <= 0 || full.IdleTimeout <= 0 {
		return errors.New("connectTimeout, headerTimeout and idleTimeout must be above zero")
	}
	for name, value := range full.Headers {
		if name == "" || strings.ContainsAny(name, " :\r\n\t") || strings.ContainsAny(value, "\r\n") {
			return fmt.Errorf("header %q: a name and a value of one line are wanted", name)
		}
	}
	for i, m := range full.Models {
		if m.ID == "" {
			return fmt.Errorf("models[%d]: id is missing", i)
		}
		if m.Provider != "" && m.Provider != full.Name {
			return fmt.Errorf("models[%d]: provider %q: the row's provider is %q", i, m.Provider, full.Name)
		}
	}
	return nil
}

// complete fills in what follows from the name.
func (c Config) complete() (Config, *url.URL, error) {
	known := Config{Dialect: OpenAI}
	switch c.Name {
	case "deepseek":
		known = Config{
			BaseURL: "https://api.deepseek.com", KeyEnv: "DEEPSEEK_API_KEY", KeyURL: "https://platform.deepseek.com/api_keys",
			Dialect: DeepSeek, Models: deepSeekModels(),
		}
	case "openai":
		known = Config{
			BaseURL: "https://api.openai.com/v1", KeyEnv: "OPENAI_API_KEY", KeyURL: "https://platform.openai.com/api-keys",
			Dialect: OpenAI,
		}
	}
	orElse(&c.BaseURL, known.BaseURL)
	orElse(&c.KeyEnv, known.KeyEnv)
	orElse(&c.KeyURL, known.KeyURL)
	orElse(&c.Dialect, known.Dialect)
	if c.Models == nil {
		c.Models = known.Models
	}
	field := "max_completion_tokens"
	if c.Dialect == DeepSeek {
		field = "max_tokens"
	}
	orElse(&c.MaxTokensField, field)
	if c.BaseURL == "" {
		return c, nil, fmt.Errorf("provider %q: baseURL is missing, e.g. http://127.0.0.1:8080/v1", c.Name)
	}
	base, err := wirehttp.ParseBase(c.BaseURL)
	if err != nil {
		return c, nil, err
	}
	base.Path = strings.TrimSuffix(base.Path, "/chat/completions") // pasted from a page of documentation
	if base.Path == "" && c.Dialect == OpenAI {
		base.Path = "/v1"
	}
	return c, base, nil
}

func orElse[T ~string](v *T, fallback T) {
	if *v == "" {
		*v = fallback
	}
}

// deepSeekModels are the models that DeepSeek offers, the default first. Prices are
// left out, which means unknown: they have changed several times, and a row can
// give them.
func deepSeekModels() []llm.Model {
	model := func(id, name string) llm.Model {
		return llm.Model{
			ID: id, Name: name, Window: 1_000_000, MaxOutput: 256_000, Modalities: []string{"text"},
			Efforts: []string{effortOff, "low", "high", "max"}, DefaultEffort: "high",
		}
	}
	return []llm.Model{model("deepseek-v4-flash", "DeepSeek V4 Flash"), model("deepseek-v4-pro", "DeepSeek V4 Pro")}
}
