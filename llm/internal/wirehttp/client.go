// Package wirehttp sends the requests of a model wire over HTTP, and turns whatever
// can go wrong on the way into an [llm.Error] with a message for a person. The
// wires share it; it knows nothing of what they say.
//
// A [Client] may be used from any goroutine, a [Response] belongs to one.
package wirehttp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dsh-harness/dsh/llm"
)

// Client calls one provider. It opens nothing before the first call.
type Client struct {
	Provider string   // its name, for messages
	Base     *url.URL // [ParseBase] makes one
	// KeyEnv is the environment variable that holds the key; empty: no key is sent.
	KeyEnv string
	KeyURL string            // where a person gets a key, may be empty
	Header map[string]string // sent with each request

	Connect time.Duration // bound on connecting
	Answer  time.Duration // bound on waiting for the head of the answer
	Idle    time.Duration // bound on waiting for more of it

	// Transport stands in for the network, in tests.
	Transport http.RoundTripper

	once sync.Once
	http *http.Client
}

// ParseBase reads the URL that the paths of an API are appended to. The trailing
// slash makes no difference.
func ParseBase(s string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(s))
	switch {
	case err != nil:
		return nil, fmt.Errorf("base URL %q: %w", s, err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, fmt.Errorf("base URL %q: want http:// or https:// and a host", s)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("base URL %q: want nothing but a host and a path", s)
	}
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawPath = ""
	return u, nil
}

// Key returns the provider's key, "" when it needs none. It reads the
// environment each time, so that a new key needs no restart.
func (c *Client) Key() (string, *llm.Error) {
	if c.KeyEnv == "" {
		return "", nil
	}
	key := strings.TrimSpace(os.Getenv(c.KeyEnv))
	if key == "" {
		where := ""
		if c.KeyURL != "" {
			where = " (get one at " + c.KeyURL + ")"
		}
		return "", &llm.Error{Code: llm.CodeMissingKey, Message: fmt.Sprintf(
			"%s needs a key: set the environment variable %s%s", c.Provider, c.KeyEnv, where)}
	}
	for _, b := range []byte(key) {
		if b <= ' ' || b > '~' {
			return "", &llm.Error{Code: llm.CodeAuth, Message: fmt.Sprintf(
				"the key of %s in %s has a character that is no printable ASCII; copy it again", c.Provider, c.KeyEnv)}
		}
	}
	return key, nil
}

// Post sends body, which is JSON, to path below the base URL and returns the
// answer once its status is known to be good. Cancelling ctx ends the call and the
// reading of its answer.
func (c *Client) Post(ctx context.Context, path string, body Body) (*Response, *llm.Error) {
	key, failed := c.Key()
	if failed != nil {
		return nil, failed
	}
	callCtx, cancel := context.WithCancelCause(ctx)
	r := &Response{client: c, ctx: ctx, callCtx: callCtx, cancel: cancel, key: key}
	req, err := http.NewRequestWithContext(callCtx, http.MethodPost, c.Base.JoinPath(path).String(), body.reader())
	if err != nil {
		r.Close()
		return nil, &llm.Error{Code: llm.CodeInvalidRequest, Message: c.Provider + ": cannot make the request: " + oneLine(err.Error()), Err: err}
	}
	req.ContentLength = body.len()
	req.GetBody = func() (io.ReadCloser, error) { return body.reader(), nil }
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("User-Agent", "dsh (+https://github.com/dsh-harness/dsh)")
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	for name, value := range c.Header {
		req.Header.Set(name, value)
	}
	resp, err := c.client().Do(req)
	if err != nil {
		failed := r.Failed(err)
		r.Close()
		return nil, failed
	}
	r.begin(resp)
	if failed := r.check(); failed != nil {
		r.Close()
		return nil, failed
	}
	return r, nil
}

// CloseIdle closes the connections that no call uses.
func (c *Client) CloseIdle() { c.client().CloseIdleConnections() }

func (c *Client) client() *http.Client {
	c.once.Do(func() {
		c.http = &http.Client{Transport: c.Transport, CheckRedirect: sameHost}
		if c.Transport == nil {
			c.http.Transport = c.transport()
		}
	})
	return c.http
}

func (c *Client) transport() *http.Transport {
	const buffer = 32 << 10
	dialer := &net.Dialer{
		Timeout:         c.Connect,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 15 * time.Second, Count: 3},
	}
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dialer.DialContext,
		TLSHandshakeTimeout:   c.Connect,
		ResponseHeaderTimeout: c.Answer,
		IdleConnTimeout:       90 * time.Second,
		MaxIdleConnsPerHost:   64, // one for each agent that works at once
		ReadBufferSize:        buffer,
		WriteBufferSize:       buffer,
		DisableCompression:    true, // it would hold back what is streamed
		ForceAttemptHTTP2:     true,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
	}
}

// redirectError is why a redirect was not followed.
type redirectError struct{ to string }

func (e *redirectError) Error() string { return "redirects to " + e.to }

// sameHost lets a provider redirect within itself only: a conversation and a key
// go nowhere that the configuration does not name.
func sameHost(req *http.Request, via []*http.Request) error {
	from := via[0].URL
	if req.URL.Host != from.Host || req.URL.Scheme != from.Scheme || req.Method != http.MethodPost || len(via) > 5 {
		return &redirectError{req.URL.Redacted()}
	}
	return nil
}

// Body is a request body in pieces, which are shared and never changed.
type Body [][]byte

func (b Body) len() (n int64) {
	for _, piece := range b {
		n += int64(len(piece))
	}
	return n
}

// small is a body that is worth a copy: it leaves in one write together with the headers.
const small = 24 << 10

func (b Body) reader() io.ReadCloser {
	if b.len() <= small {
		// net/http knows this type, and does not send the headers ahead of it.
		return io.NopCloser(bytes.NewReader(bytes.Join(b, nil)))
	}
	return &pieces{slices.Clone(b)}
}

// pieces reads a body without putting it together.
type pieces struct{ rest [][]byte }

func (p *pieces) Close() error { return nil }

func (p *pieces) Read(to []byte) (n int, err error) {
	for n < len(to) && len(p.rest) > 0 {
		m := copy(to[n:], p.rest[0])
		n += m
		if p.rest[0] = p.rest[0][m:]; len(p.rest[0]) == 0 {
			p.rest = p.rest[1:]
		}
	}
	if n == 0 && len(to) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// WriteTo writes what is left, each piece from where it stands.
func (p *pieces) WriteTo(w io.Writer) (n int64, err error) {
	for len(p.rest) > 0 {
		m, err := w.Write(p.rest[0])
		n += int64(m)
		if err != nil {
			return n, err
		}
		p.rest = p.rest[1:]
	}
	return n, nil
}
