package network

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
)

const (
	maxRedirects = 5
	maxRatio     = 100
	freeRatio    = 1 << 20 // decoded bytes up to which the ratio does not matter
)

// web makes the requests of tools; it implements [policy.WebClient].
type web struct {
	rules     func(session, dir string, granted []string) *ruleset
	dialer    *dialer
	maxBytes  int64
	maxUpload int64
	timeout   time.Duration
}

// Do implements [policy.WebClient].
func (w *web) Do(ctx context.Context, c *tool.Call, r *http.Request) (*http.Response, error) {
	session, dir := "", ""
	if c.Session != nil {
		session = c.Session.ID()
	}
	if c.Workspace != nil {
		if roots := c.Workspace.Roots(); len(roots) > 0 {
			dir = roots[0]
		}
	}
	late := &policy.LimitError{Limit: policy.LimitTime, Max: w.timeout.Milliseconds()}
	ctx, cancel := context.WithTimeoutCause(ctx, w.timeout, late)
	h := &hops{web: w, rules: func() *ruleset { return w.rules(session, dir, workspace.GrantOf(ctx).Hosts) }}
	client := &http.Client{Transport: h, CheckRedirect: func(_ *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return &policy.LimitError{Limit: policy.LimitRedirects, Max: maxRedirects}
		}
		return nil
	}}
	r = r.Clone(ctx)
	r.Header.Set("Accept-Encoding", "gzip")
	answer, err := client.Do(r)
	if err != nil {
		err = because(ctx, err)
		cancel()
		return nil, fmt.Errorf("fetch from %s: %w", r.URL.Host, err)
	}
	b := &body{ctx: ctx, cancel: cancel, sent: answer.Body, maxBytes: w.maxBytes}
	switch encoding := answer.Header.Get("Content-Encoding"); encoding {
	case "", "identity":
		b.decoded = countingReader{b}
	case "gzip", "x-gzip":
		b.zipped = true
		answer.ContentLength = -1
		answer.Uncompressed = true
		answer.Header.Del("Content-Encoding")
		answer.Header.Del("Content-Length")
	default:
		_ = b.Close() // nobody reads it
		return nil, fmt.Errorf("fetch from %s: the answer is packed as %.40q, which was not asked for", r.URL.Host, encoding)
	}
	answer.Body = b
	return answer, nil
}

// because puts the limit of time in the place of what it caused.
func because(ctx context.Context, err error) error {
	if limit, ok := errors.AsType[*policy.LimitError](context.Cause(ctx)); ok && ctx.Err() != nil {
		return limit
	}
	return err
}

// hops sends each request of a chain of redirects after its host was checked.
type hops struct {
	web   *web
	rules func() *ruleset
}

// RoundTrip implements [http.RoundTripper].
func (h *hops) RoundTrip(r *http.Request) (*http.Response, error) {
	to, err := parseURLHost(r.URL.Scheme, r.URL.Host)
	if err != nil {
		return nil, err
	}
	if r.URL.User != nil {
		return nil, errors.New("the address has a user in it: send that as a header")
	}
	rules := h.rules()
	if err := rules.check(to); err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.URL.Host, r.Host = to.String(), to.header(r.URL.Scheme)
	if limit := h.web.maxUpload; limit > 0 && r.Body != nil && !rules.isGranted(to) {
		tooLong := tooMuch(to, limit)
		if r.ContentLength > limit {
			return nil, tooLong
		}
		r.Body = &uploadReader{ReadCloser: r.Body, left: limit, err: tooLong}
	}
	return (&http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return h.web.dialer.dial(ctx, to, rules) },
		DisableKeepAlives: true, DisableCompression: true,
		MaxResponseHeaderBytes: 64 << 10,
	}).RoundTrip(r)
}

// body is an answer's body as far as the limits go. One goroutine reads it.
type body struct {
	ctx      context.Context
	cancel   context.CancelFunc
	sent     io.ReadCloser // as it comes
	zipped   bool
	decoded  io.Reader // nil until the first read of a zipped body
	maxBytes int64
	in, out  int64 // bytes so far
	err      error // what every further read returns
}

// Read implements [io.Reader].
func (b *body) Read(buffer []byte) (int, error) {
	if b.err != nil || len(buffer) == 0 {
		return 0, b.err
	}
	if b.decoded == nil {
		unzip, err := gzip.NewReader(countingReader{b})
		if err != nil {
			b.err = because(b.ctx, fmt.Errorf("unpack the answer: %w", err))
			return 0, b.err
		}
		b.decoded = unzip
	}
	// One byte more than is left tells whether there is more.
	if left := b.maxBytes - b.out + 1; int64(len(buffer)) > left {
		buffer = buffer[:left]
	}
	n, err := b.decoded.Read(buffer)
	b.out += int64(n)
	switch {
	case b.out > b.maxBytes:
		n -= int(b.out - b.maxBytes)
		b.err = &policy.LimitError{Limit: policy.LimitBytes, Max: b.maxBytes}
	case b.zipped && b.out > freeRatio && b.out > maxRatio*b.in:
		b.err = &policy.LimitError{Limit: policy.LimitRatio, Max: maxRatio}
	case err == io.EOF:
		b.err = err
	case err != nil:
		b.err = because(b.ctx, err)
	}
	return n, b.err
}

// Close implements [io.Closer].
func (b *body) Close() error {
	b.cancel()
	return b.sent.Close()
}

// countingReader counts what comes.
type countingReader struct{ b *body }

// Read implements [io.Reader].
func (c countingReader) Read(buffer []byte) (int, error) {
	n, err := c.b.sent.Read(buffer)
	c.b.in += int64(n)
	return n, err
}
