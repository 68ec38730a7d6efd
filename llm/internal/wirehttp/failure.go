package wirehttp

import (
	"fmt"
	"html"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/llm/internal/jsonwire"
)

// Failure is what a provider says about a request that it did not serve, as the body
// of an answer or as an event in a stream.
type Failure struct {
	Status  int // of HTTP; 0 in a stream that has begun
	Message string
	Type    string // e.g. invalid_request_error
	Code    string // e.g. model_not_found, or a number
}

// ParseFailure reads a JSON document that reports an error: an object or a string
// under "error", or an object that says of itself that it is one.
func ParseFailure(page []byte) (f Failure, ok bool) {
	var s jsonwire.Scanner
	s.Reset(page)
	for s.Open('{'); s.Next('}'); {
		if key := string(s.Key()); key == "error" {
			ok = f.Scan(&s) || ok
		} else {
			ok = f.member(&s, key) && key != "message" || ok
		}
	}
	return f, ok && s.End() == nil
}

// Scan reads the value of a member "error", and reports false when it is null.
func (f *Failure) Scan(s *jsonwire.Scanner) bool {
	switch {
	case s.Null():
		return false
	case s.Peek() == '{':
		for s.Open('{'); s.Next('}'); {
			f.member(s, string(s.Key()))
		}
	case s.Peek() == '"':
		f.Message = s.Text()
	default:
		f.Message = string(s.Raw())
	}
	return true
}

// member reads one member of an error, and reports whether it is a sign of one.
func (f *Failure) member(s *jsonwire.Scanner, key string) bool {
	var into *string
	switch key {
	case "message", "detail":
		into = &f.Message
	case "type", "object":
		into = &f.Type
	case "code", "status":
		into = &f.Code
	}
	switch {
	case into == nil || s.Peek() == '{' || s.Peek() == '[' || s.Peek() == 'n':
		s.Skip()
		return false
	case s.Peek() == '"':
		*into = s.Text()
	default:
		*into = string(s.Raw())
	}
	return key == "detail" || *into == "error"
}

// Classify returns the error that f means. The words that providers use for one
// thing are many, and their codes are not a standard.
func (r *Response) Classify(f Failure) *llm.Error {
	c, host := r.client, r.host()
	status := f.Status
	if n, err := strconv.Atoi(f.Code); status == 0 && err == nil && n >= 400 && n <= 599 {
		status = n // the status that the stream could not have any more
	}
	code := classify(f, status)
	said := shorten(oneLine(f.Message), 200)
	if said == "" {
		said = strings.TrimSpace(shorten(oneLine(f.Type+" "+f.Code), 100))
	}
	what := fmt.Sprintf("%s: %s reports an error", c.Provider, host)
	if status != 0 {
		what = fmt.Sprintf("%s: %s answered %d", c.Provider, host, status)
		if said == "" {
			said = http.StatusText(status)
		}
	}
	if said != "" {
		what += fmt.Sprintf(": %s", said)
	}
	switch code {
	case llm.CodeAuth:
		what += "; " + c.whatToDoAboutTheKey()
	case llm.CodeQuota:
		what += "; the account has no credit left: top it up, or choose another provider"
	case llm.CodeUnknownModel:
		what += "; choose another model"
	case llm.CodeContextOverflow:
		what += "; the conversation is too long for the model"
	case llm.CodeInvalidRequest:
		if status == http.StatusNotFound || status == http.StatusMethodNotAllowed {
			what += "; check the base URL " + c.Base.String()
		}
	case llm.CodeMissingKey, llm.CodeRateLimit, llm.CodeServer, llm.CodeTimeout, llm.CodeTransport,
		llm.CodeStreamClosed, llm.CodeMalformed, llm.CodeEmpty, llm.CodeUnknownProvider, llm.CodeUnsupported,
		llm.CodeRefusal, llm.CodeAborted, llm.CodeReplayMismatch, llm.CodeUnknown:
	}
	e := r.error(code, shorten(what, 390), nil)
	e.Status = status
	if r.http != nil {
		e.After = retryAfter(r.http.Header, time.Now())
	}
	return e
}

func (c *Client) whatToDoAboutTheKey() string {
	if c.KeyEnv == "" {
		return "no key was sent: name the environment variable that holds one as keyEnv"
	}
	what := "check the key in " + c.KeyEnv
	if c.KeyURL != "" {
		what += ", or get one at " + c.KeyURL
	}
	return what
}

func classify(f Failure, status int) llm.Code {
	said := strings.ToLower(f.Type + " " + f.Code + " " + f.Message)
	has := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(said, w) {
				return true
			}
		}
		return false
	}
	overflow := has("context_length", "context length", "context window", "maximum context", "context_window", "too many tokens", "prompt is too long", "input is too long", "exceeds the model", "exceed_context", "available context size")
	quota := has("insufficient_quota", "insufficient balance", "insufficient_balance", "insufficient credit", "exceeded your current quota", "billing", "out of credit", "payment required")
	model := has("model_not_found", "model not exist", "model not found", "unknown model", "no such model", "invalid model", "unsupported model") ||
		has("model") && has("does not exist", "not found", "not exist", "not supported for your account")
	switch {
	case status == http.StatusPaymentRequired, quota && status < 500:
		return llm.CodeQuota
	case status == http.StatusUnauthorized, status == http.StatusForbidden, has("invalid_api_key", "authentication_error", "authentication fails"):
		return llm.CodeAuth
	case status == http.StatusTooManyRequests, has("rate_limit", "rate limit", "too many requests"):
		return llm.CodeRateLimit
	case overflow:
		return llm.CodeContextOverflow
	case status >= 500:
		return llm.CodeServer
	case status == http.StatusRequestTimeout:
		return llm.CodeTimeout
	case has("content_filter", "content_policy", "content management policy", "content exists risk", "safety system"):
		return llm.CodeRefusal
	case model && (status == 0 || status == http.StatusNotFound || status == http.StatusBadRequest || status == http.StatusUnprocessableEntity):
		return llm.CodeUnknownModel
	case status >= 400 && status != http.StatusConflict && status != http.StatusTooEarly:
		return llm.CodeInvalidRequest
	case has("invalid_request"):
		return llm.CodeInvalidRequest
	}
	return llm.CodeServer // a stream that had begun, or a status that asks to come again
}

// pageTitle returns what an error page that is not JSON says, without markup.
func pageTitle(page, media string) string {
	text := page
	lower := strings.ToLower(page)
	if i := strings.Index(lower, "<title"); i >= 0 && len(lower) == len(page) {
		if _, title, ok := strings.Cut(page[i:], ">"); ok {
			title, _, _ = strings.Cut(title, "<")
			return html.UnescapeString(title)
		}
	}
	if media == "text/html" || strings.HasPrefix(strings.TrimSpace(text), "<") {
		return "a web page"
	}
	return shorten(oneLine(text), 200)
}

// oneLine makes text from outside safe to show: one line, no control characters, no
// characters that hide or reorder others, no markup.
func oneLine(s string) string {
	var out strings.Builder
	space := false
	for _, r := range s {
		switch {
		case unicode.IsSpace(r) || unicode.IsControl(r):
			space = out.Len() > 0
			continue
		case r == '<' || r == '>':
			r = '\''
		case unicode.Is(unicode.Cf, r):
			continue
		}
		if space {
			out.WriteByte(' ')
			space = false
		}
		out.WriteRune(r)
	}
	return out.String()
}

// shorten cuts s to at most n bytes, at a rune.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n -= len("…"); n > 0 && !utf8.RuneStart(s[n]); {
		n--
	}
	return s[:n] + "…"
}
