package network

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"time"

	"github.com/dsh-harness/dsh/policy"
)

// forward passes on a request with the whole address and streams the answer. Each hop of a
// redirect is a new request of the command, so it is checked like the first.
func (p *proxy) forward(w http.ResponseWriter, r *http.Request) {
	if r.URL.Scheme != "http" {
		say(w, http.StatusBadRequest, "a proxy gets requests for http only: https goes through CONNECT")
		return
	}
	if r.URL.User != nil {
		say(w, http.StatusBadRequest, "the address has a user in it: send that as a header")
		return
	}
	if r.Header.Get("Upgrade") != "" {
		say(w, http.StatusNotImplemented, "other protocols than http go through CONNECT")
		return
	}
	to, err := parseURLHost("http", r.URL.Host)
	if err != nil {
		say(w, http.StatusBadRequest, err.Error())
		return
	}
	if r.ContentLength != 0 {
		defer linger(w, r.Body)
	}
	rules := p.rules()
	if err := rules.check(to); err != nil {
		p.fail(w, err)
		return
	}
	if p.maxUpload > 0 && !rules.isGranted(to) {
		if r.ContentLength > p.maxUpload {
			p.fail(w, tooMuch(to, p.maxUpload))
			return
		}
		r = r.WithContext(r.Context()) // the server's own keeps its body
		r.Body = &uploadReader{ReadCloser: io.NopCloser(r.Body), left: p.maxUpload, err: tooMuch(to, p.maxUpload)}
	}
	(&httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.Out.URL.Host, pr.Out.Host = to.String(), to.header("http")
			pr.Out.URL.RawQuery = pr.In.URL.RawQuery // as it was sent, also where it is odd
			if _, ok := pr.In.Header["User-Agent"]; !ok {
				pr.Out.Header.Set("User-Agent", "") // none, rather than that of this program
			}
		},
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				conn, err := p.dialer.dial(ctx, to, rules)
				if err != nil {
					return nil, err
				}
				return &idleConn{Conn: conn, idle: p.limits.idle}, nil
			},
			DisableKeepAlives: true, DisableCompression: true,
			MaxResponseHeaderBytes: 64 << 10, ResponseHeaderTimeout: p.limits.idle,
		},
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		ModifyResponse: func(answer *http.Response) error {
			if answer.StatusCode == http.StatusSwitchingProtocols {
				return errors.New("the server changes the protocol without being asked to")
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) { p.fail(w, err) },
	}).ServeHTTP(w, r)
}

// linger reads for a moment what the command still sends, since a connection that is closed over
// it would take the answer along.
func linger(w http.ResponseWriter, body io.Reader) {
	c := http.NewResponseController(w)
	if c.Flush() == nil && c.SetReadDeadline(time.Now().Add(time.Second)) == nil {
		_, _ = io.CopyN(io.Discard, body, 1<<20)
	}
}

// uploadReader is a body that may not be longer than so much.
type uploadReader struct {
	io.ReadCloser
	left int64
	err  error
}

// Read implements [io.Reader].
func (u *uploadReader) Read(b []byte) (int, error) {
	n, err := u.ReadCloser.Read(b)
	if u.left -= int64(n); u.left < 0 {
		return 0, u.err
	}
	return n, err
}

func tooMuch(t target, limit int64) *policy.RefusedError {
	e := &policy.LimitError{Limit: policy.LimitUpload, Max: limit}
	return refused(t, e.Error(), t.String()+" for this call, or a greater maxUpload of the plugin network", false)
}
