package wirehttp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/dsh-harness/dsh/llm"
)

// Response is the answer to a call. Its Read waits no longer than the client's
// Idle for the next bytes, whatever they are: a provider that sends comments
// to keep the connection is alive, and a reader that takes its time is not late.
type Response struct {
	client  *Client
	ctx     context.Context // the caller's
	callCtx context.Context // ends earlier, when nothing comes
	cancel  context.CancelCauseFunc
	key     string
	http    *http.Response
	idle    time.Duration
	timer   *time.Timer
}

var errIdle = errors.New("nothing came")

const errorBody = 64 << 10 // of a page that says what went wrong

func (r *Response) begin(resp *http.Response) {
	r.http, r.idle = resp, r.client.Idle
	r.timer = time.AfterFunc(r.idle, func() { r.cancel(errIdle) })
	r.timer.Stop()
}

// Read reads what comes next.
func (r *Response) Read(p []byte) (int, error) {
	r.timer.Reset(r.idle)
	n, err := r.http.Body.Read(p)
	r.timer.Stop()
	return n, err
}

// Hurry bounds each wait from now on, when the answer is known to be whole and
// only what is left of the stream is read.
func (r *Response) Hurry(idle time.Duration) { r.idle = min(r.idle, idle) }

// Close ends the call.
func (r *Response) Close() {
	if r.http != nil {
		_ = r.http.Body.Close() // the call is over, whatever it says
	}
	r.cancel(nil)
}

// check returns nil when the answer is the stream that was asked for.
func (r *Response) check() *llm.Error {
	media, _, _ := mime.ParseMediaType(r.http.Header.Get("Content-Type"))
	if code := r.http.StatusCode; code < 200 || code > 299 {
		return r.refused(media)
	}
	if coding := r.http.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return r.Malformed("is encoded with "+coding+", which was not asked for", nil)
	}
	switch media {
	case "application/json":
		page, err := io.ReadAll(io.LimitReader(r, errorBody))
		if err != nil {
			return r.Failed(err)
		}
		if f, ok := ParseFailure(page); ok {
			return r.Classify(f)
		}
		return r.Malformed("is a JSON document, not a stream", nil)
	case "text/html":
		return r.Malformed("is a web page; check the base URL "+r.client.Base.String(), nil)
	}
	return nil
}

// refused returns the error that an answer with a bad status means.
func (r *Response) refused(media string) *llm.Error {
	page, err := io.ReadAll(io.LimitReader(r, errorBody))
	if err != nil && r.ctx.Err() != nil {
		return r.Failed(err)
	}
	f, ok := ParseFailure(page)
	if !ok {
		f.Message = pageTitle(string(page), media)
	}
	f.Status = r.http.StatusCode
	return r.Classify(f)
}

// Malformed returns the error of an answer that cannot be understood. What
// completes a sentence that begins with "the answer".
func (r *Response) Malformed(what string, err error) *llm.Error {
	return r.error(llm.CodeMalformed, fmt.Sprintf("%s: the answer of %s %s", r.client.Provider, r.host(), what), err)
}

// Closed returns the error of an answer that ended before it was complete.
func (r *Response) Closed(err error) *llm.Error {
	return r.error(llm.CodeStreamClosed, fmt.Sprintf(
		"%s: %s closed the connection before the answer was complete", r.client.Provider, r.host()), err)
}

// Failed returns the error that err, of a call or a read, means.
func (r *Response) Failed(err error) *llm.Error {
	name, host := r.client.Provider, r.host()
	switch {
	case r.ctx.Err() != nil:
		cause := context.Cause(r.ctx)
		return r.error(llm.CodeAborted, name+": the call was ended: "+cause.Error(), cause)
	case context.Cause(r.callCtx) == errIdle:
		return r.error(llm.CodeTimeout, fmt.Sprintf("%s: nothing came from %s for %s", name, host, r.idle), err)
	case r.http != nil:
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return r.Closed(err)
		}
		return r.error(llm.CodeStreamClosed, fmt.Sprintf("%s: the connection to %s broke: %s", name, host, cause(err)), err)
	}
	check := "check the base URL " + r.client.Base.String()
	var redirect *redirectError
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	var timeout net.Error
	switch {
	case errors.As(err, &redirect):
		return r.error(llm.CodeInvalidRequest, fmt.Sprintf("%s: %s %v, which is not followed; %s", name, host, redirect, check), err)
	case errors.As(err, &cert):
		return r.error(llm.CodeUnknown, fmt.Sprintf("%s: the certificate of %s is not trusted: %s; %s", name, host, cause(cert.Err), check), err)
	case errors.As(err, &dns) && dns.IsNotFound:
		return r.error(llm.CodeTransport, fmt.Sprintf("%s: there is no host %s; check the network and the base URL %s", name, dns.Name, r.client.Base), err)
	case errors.As(err, &timeout) && timeout.Timeout():
		return r.error(llm.CodeTimeout, fmt.Sprintf("%s: %s did not answer in time: %s", name, host, cause(err)), err)
	}
	return r.error(llm.CodeTransport, fmt.Sprintf("%s: cannot reach %s: %s; is the server running? %s", name, host, cause(err), check), err)
}

// error makes an error whose message is one line that does not hold the key.
func (r *Response) error(code llm.Code, message string, err error) *llm.Error {
	if r.key != "" {
		message = strings.ReplaceAll(message, r.key, "[key]")
	}
	e := &llm.Error{Code: code, Message: oneLine(message), Err: err}
	if r.http != nil {
		for _, name := range []string{"X-Request-Id", "X-Ds-Trace-Id", "Request-Id"} {
			if id := r.http.Header.Get(name); id != "" && len(id) <= 200 {
				e.RequestID = oneLine(id)
				break
			}
		}
	}
	return e
}

func (r *Response) host() string { return r.client.Base.Host }

// cause returns the innermost text of an error of package net or net/http,
// which wrap it with addresses that the message has already.
func cause(err error) string {
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return err.Error()
}
