package wirehttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dsh-harness/dsh/llm"
)

func client(t *testing.T, base string) *Client {
	t.Helper()
	t.Setenv("ACME_KEY", "sk-secret-0123456789")
	u, err := ParseBase(base)
	if err != nil {
		t.Fatal(err)
	}
	c := &Client{
		Provider: "acme", Base: u, KeyEnv: "ACME_KEY", KeyURL: "https://acme.test/keys",
		Connect: time.Second, Answer: 5 * time.Second, Idle: 5 * time.Second,
	}
	t.Cleanup(c.CloseIdle)
	return c
}

func TestParseBase(t *testing.T) {
	for in, want := range map[string]string{
		"https://api.test":       "https://api.test",
		"https://api.test/":      "https://api.test",
		" http://[::1]:8080/v1/": "http://[::1]:8080/v1",
		"":                       "", "api.test": "", "ftp://api.test": "", "https://": "", "http://a b": "",
		"https://u:p@api.test": "", "https://api.test?x=1": "", "https://api.test#x": "",
	} {
		u, err := ParseBase(in)
		if (err == nil) != (want != "") || err == nil && u.String() != want {
			t.Errorf("%q: %v %v", in, u, err)
		}
	}
}

func TestKey(t *testing.T) {
	c := client(t, "http://x.test")
	for value, want := range map[string]string{
		"sk-1": "sk-1", " sk-1\n": "sk-1", "": "!acme needs a key: set the environment variable ACME_KEY (get one at https://acme.test/keys)", "  ": "!acme needs a key: set the environment variable ACME_KEY (get one at https://acme.test/keys)",
		"sk-\x01": "!the key of acme in ACME_KEY has a character that is no printable ASCII; copy it again",
		"sk 1":    "!the key of acme in ACME_KEY has a character that is no printable ASCII; copy it again",
		"sk-é":    "!the key of acme in ACME_KEY has a character that is no printable ASCII; copy it again",
	} {
		t.Setenv("ACME_KEY", value)
		key, err := c.Key()
		if err != nil {
			key = "!" + err.Error()
			if err.Code.Retryable() {
				t.Errorf("%q is retried", value)
			}
		}
		if key != want {
			t.Errorf("%q: %q", value, key)
		}
	}
	c.KeyEnv = ""
	if key, err := c.Key(); key != "" || err != nil {
		t.Errorf("%q %v", key, err)
	}
}

// post sends an empty object to h.
func post(t *testing.T, h http.HandlerFunc) (*Response, *llm.Error) {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	c := client(t, srv.URL+"/v1")
	r, err := c.Post(t.Context(), "chat", Body{[]byte("{"), []byte("}")})
	if err != nil {
		if s := err.Error(); strings.ContainsAny(s, "<>\n\r\x1b") || len(s) > 400 || strings.Contains(s, "sk-secret") {
			t.Errorf("no short line without markup and key: %q", s)
		}
		err.Message = strings.ReplaceAll(err.Message, c.Base.Host, "HOST")
	} else {
		t.Cleanup(r.Close)
	}
	return r, err
}

func TestPost(t *testing.T) {
	var got *http.Request
	var body string
	r, failed := post(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got, body = r, string(b)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: x\n\n")
	})
	if failed != nil {
		t.Fatal(failed)
	}
	answer, err := io.ReadAll(r)
	if string(answer) != "data: x\n\n" || err != nil {
		t.Errorf("%q %v", answer, err)
	}
	if got.URL.Path != "/v1/chat" || body != "{}" || got.ContentLength != 2 || len(got.TransferEncoding) > 0 {
		t.Errorf("%s %q %d", got.URL, body, got.ContentLength)
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer sk-secret-0123456789", "Content-Type": "application/json", "Accept": "text/event-stream", "Accept-Encoding": "",
	} {
		if got.Header.Get(name) != want {
			t.Errorf("%s: %q", name, got.Header.Get(name))
		}
	}
}

func TestRefusals(t *testing.T) {
	page := func(title string) string {
		return "<!DOCTYPE html>\n<html><head><title>" + title + "</title></head><body>" + strings.Repeat("<div>x</div>\n", 2000)
	}
	for _, tc := range []struct {
		status  int
		media   string
		body    string
		code    llm.Code
		message string
	}{
		{401, "application/json", `{"error":{"message":"Incorrect API key provided: sk-secret-0123456789","code":"invalid_api_key"}}`, llm.CodeAuth, "acme: HOST answered 401: Incorrect API key provided: [key]; check the key in ACME_KEY, or get one at https://acme.test/keys"},
		{403, "application/json", `{"error":{"message":"not for you"}}`, llm.CodeAuth, "acme: HOST answered 403: not for you; check the key in ACME_KEY, or get one at https://acme.test/keys"},
		{402, "application/json", `{"error":{"message":"Insufficient Balance"}}`, llm.CodeQuota, "acme: HOST answered 402: Insufficient Balance; the account has no credit left: top it up, or choose another provider"},
		{429, "application/json", `{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}`, llm.CodeQuota, "acme: HOST answered 429: You exceeded your current quota; the account has no credit left: top it up, or choose another provider"},
		{429, "application/json", `{"error":{"message":"slow down"}}`, llm.CodeRateLimit, "acme: HOST answered 429: slow down"},
		{404, "application/json", `{"error":{"message":"The model 'x' does not exist","code":"model_not_found"}}`, llm.CodeUnknownModel, "acme: HOST answered 404: The model 'x' does not exist; choose another model"},
		{400, "application/json", `{"error":{"message":"Model Not Exist"}}`, llm.CodeUnknownModel, "acme: HOST answered 400: Model Not Exist; choose another model"},
		{404, "text/plain", "404 page not found", llm.CodeInvalidRequest, "acme: HOST answered 404: 404 page not found; check the base URL http://HOST/v1"},
		{404, "application/json", `{"detail":"Not Found"}`, llm.CodeInvalidRequest, "acme: HOST answered 404: Not Found; check the base URL http://HOST/v1"},
		{405, "text/html", page("405 Not Allowed"), llm.CodeInvalidRequest, "acme: HOST answered 405: 405 Not Allowed; check the base URL http://HOST/v1"},
		{400, "application/json", `{"error":{"message":"This model's maximum context length is 65536 tokens. However, you requested 70000"}}`, llm.CodeContextOverflow, "acme: HOST answered 400: This model's maximum context length is 65536 tokens. However, you requested 70000; the conversation is too long for the model"},
		{413, "application/json", `{"error":{"message":"prompt is too long"}}`, llm.CodeContextOverflow, "acme: HOST answered 413: prompt is too long; the conversation is too long for the model"},
		{413, "text/html", "<html>big</html>", llm.CodeInvalidRequest, "acme: HOST answered 413: a web page"},
		{400, "application/json", `{"error":{"message":"Invalid max_tokens value, the valid range of max_tokens is [1, 8192]","type":"invalid_request_error"}}`, llm.CodeInvalidRequest, "acme: HOST answered 400: Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"},
		{400, "application/json", `{"error":{"message":"filtered","code":"content_filter"}}`, llm.CodeRefusal, "acme: HOST answered 400: filtered"},
		{422, "application/json", `{"object":"error","message":"bad messages","type":"BadRequestError","code":422}`, llm.CodeInvalidRequest, "acme: HOST answered 422: bad messages"},
		{408, "", "", llm.CodeTimeout, "acme: HOST answered 408: Request Timeout"},
		{409, "", "", llm.CodeServer, "acme: HOST answered 409: Conflict"},
		{500, "application/json", `{"error":"oops"}`, llm.CodeServer, "acme: HOST answered 500: oops"},
		{502, "text/html", page("example.test | 521: Web server is down"), llm.CodeServer, "acme: HOST answered 502: example.test | 521: Web server is down"},
		{503, "", "", llm.CodeServer, "acme: HOST answered 503: Service Unavailable"},
		{529, "application/json", `{"error":{"type":"overloaded_error","message":"Overloaded"}}`, llm.CodeServer, "acme: HOST answered 529: Overloaded"},
		{500, "text/plain", "line one\nline\x1b[31m two\u202e\x00" + strings.Repeat(" x", 1000), llm.CodeServer, "acme: HOST answered 500: line one line [31m two" + strings.Repeat(" x", 87) + " …"},
		{500, "application/json", `{"error":{"message":"<script>alert(1)</script>"}}`, llm.CodeServer, "acme: HOST answered 500: 'script'alert(1)'/script'"},
		{304, "", "", llm.CodeServer, "acme: HOST answered 304: Not Modified"},
	} {
		t.Run(fmt.Sprint(tc.status, " ", tc.code), func(t *testing.T) {
			_, failed := post(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tc.media)
				w.Header().Set("X-Request-Id", "req-7")
				w.WriteHeader(tc.status)
				_, _ = io.WriteString(w, tc.body)
			})
			if failed == nil {
				t.Fatal("it was accepted")
			}
			if failed.Code != tc.code || failed.Message != tc.message || failed.Status != tc.status || failed.RequestID != "req-7" {
				t.Errorf("%s %d %q\n%s", failed.Code, failed.Status, failed.RequestID, failed.Message)
			}
		})
	}
}

func TestAnswersThatAreNoStream(t *testing.T) {
	for name, tc := range map[string]struct {
		header http.Header
		body   string
		code   llm.Code
		want   string
	}{
		"a page":             {http.Header{"Content-Type": {"text/html; charset=utf-8"}}, "<html>sign in</html>", llm.CodeMalformed, "acme: the answer of HOST is a web page; check the base URL http://HOST/v1"},
		"an error":           {http.Header{"Content-Type": {"application/json"}}, `{"error":{"message":"busy","code":503}}`, llm.CodeServer, "acme: HOST answered 503: busy"},
		"another document":   {http.Header{"Content-Type": {"application/json"}}, `{"choices":[]}`, llm.CodeMalformed, "acme: the answer of HOST is a JSON document, not a stream"},
		"compressed unasked": {http.Header{"Content-Type": {"text/event-stream"}, "Content-Encoding": {"br"}}, "xx", llm.CodeMalformed, "acme: the answer of HOST is encoded with br, which was not asked for"},
	} {
		_, failed := post(t, func(w http.ResponseWriter, _ *http.Request) {
			for k, v := range tc.header {
				w.Header()[k] = v
			}
			_, _ = io.WriteString(w, tc.body)
		})
		if failed == nil || failed.Code != tc.code || failed.Message != tc.want {
			t.Errorf("%s: %+v", name, failed)
		}
	}
}

func TestRedirects(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the conversation went elsewhere") }))
	defer elsewhere.Close()
	for target, want := range map[string]string{
		"/v2/chat":            "",
		elsewhere.URL + "/v1": "acme: HOST redirects to " + elsewhere.URL + "/v1, which is not followed; check the base URL http://HOST/v1",
	} {
		r, failed := post(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/chat" {
				http.Redirect(w, r, target, http.StatusTemporaryRedirect)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.Copy(w, r.Body)
		})
		if want != "" {
			if failed == nil || failed.Message != want || failed.Code != llm.CodeInvalidRequest {
				t.Errorf("%+v", failed)
			}
			continue
		}
		if failed != nil {
			t.Fatal(failed)
		}
		if b, err := io.ReadAll(r); string(b) != "{}" || err != nil {
			t.Errorf("the body came as %q %v", b, err)
		}
	}
}

func TestNoConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := l.Addr().String()
	l.Close() // nobody listens there now
	_, failed := client(t, "http://"+host+"/v1").Post(t.Context(), "chat", nil)
	want := "acme: cannot reach " + host + ": connection refused; is the server running? check the base URL http://" + host + "/v1"
	if failed == nil || failed.Code != llm.CodeTransport || failed.Message != want || !failed.Code.Retryable() {
		t.Errorf("%+v", failed)
	}

	tls := httptest.NewTLSServer(http.NotFoundHandler())
	defer tls.Close()
	tls.Config.ErrorLog = nil
	_, failed = client(t, tls.URL).Post(t.Context(), "chat", nil)
	if failed == nil || failed.Code != llm.CodeUnknown || !strings.Contains(failed.Message, "is not trusted: x509: certificate signed by unknown authority") {
		t.Errorf("%+v", failed)
	}
}

type failing struct{ err error }

func (f failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

func TestTransportErrors(t *testing.T) {
	for want, err := range map[string]error{
		"transport: acme: there is no host api.test; check the network and the base URL http://api.test/v1":                 &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "api.test", IsNotFound: true}},
		"timeout: acme: api.test did not answer in time: i/o timeout":                                                       &net.OpError{Op: "dial", Err: &net.DNSError{Err: "i/o timeout", IsTimeout: true, UnwrapErr: errors.New("i/o timeout")}},
		"transport: acme: cannot reach api.test: broken pipe; is the server running? check the base URL http://api.test/v1": &url.Error{Op: "Post", Err: errors.New("broken pipe")},
	} {
		c := client(t, "http://api.test/v1")
		c.Transport = failing{err}
		_, failed := c.Post(t.Context(), "chat", nil)
		if failed == nil || string(failed.Code)+": "+failed.Message != want || !errors.Is(failed, errors.Unwrap(failed)) {
			t.Errorf("%+v", failed)
		}
	}
}

// slow answers with a body that brings a byte at each of these moments, and then
// nothing until the request is cancelled.
type slow struct{ gaps []time.Duration }

func (s slow) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Request: r,
		Body: io.NopCloser(&slowBody{r.Context(), s.gaps}),
	}, nil
}

type slowBody struct {
	ctx  context.Context
	gaps []time.Duration
}

func (b *slowBody) Read(p []byte) (int, error) {
	wait := time.Hour
	if len(b.gaps) > 0 {
		wait, b.gaps = b.gaps[0], b.gaps[1:]
	}
	select {
	case <-time.After(wait):
		p[0] = ':'
		return 1, nil
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	}
}

// TestTrust_A03_TheIdleTimeIsPerRead: each read has the whole time, anything that
// comes counts, and the reader's own time does not.
func TestTrust_A03_TheIdleTimeIsPerRead(t *testing.T) {
	c := client(t, "http://api.test/v1")
	synctest.Test(t, func(t *testing.T) {
		c.Idle, c.Transport = 10*time.Second, slow{[]time.Duration{9 * time.Second, 9 * time.Second, 9 * time.Second}}
		r, failed := c.Post(context.Background(), "chat", nil)
		if failed != nil {
			t.Fatal(failed)
		}
		defer r.Close()
		begin := time.Now()
		p := make([]byte, 10)
		for range 3 {
			if n, err := r.Read(p); n != 1 || err != nil {
				t.Fatalf("%d %v", n, err)
			}
			time.Sleep(time.Minute) // a slow reader
		}
		_, err := r.Read(p)
		e := r.Failed(err)
		if e.Code != llm.CodeTimeout || e.Message != "acme: nothing came from api.test for 10s" {
			t.Errorf("%+v", e)
		}
		if d := time.Since(begin); d != 3*9*time.Second+3*time.Minute+10*time.Second {
			t.Errorf("it took %s", d)
		}
	})
}

func TestHurryAndCancel(t *testing.T) {
	c := client(t, "http://api.test/v1")
	synctest.Test(t, func(t *testing.T) {
		c.Idle, c.Transport = time.Minute, slow{}
		r, failed := c.Post(context.Background(), "chat", nil)
		if failed != nil {
			t.Fatal(failed)
		}
		begin := time.Now()
		r.Hurry(time.Second)
		r.Hurry(time.Hour) // never longer
		if _, err := r.Read(make([]byte, 1)); r.Failed(err).Code != llm.CodeTimeout || time.Since(begin) != time.Second {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
		r.Close()

		ctx, cancel := context.WithCancelCause(context.Background())
		r, failed = c.Post(ctx, "chat", nil)
		if failed != nil {
			t.Fatal(failed)
		}
		defer r.Close()
		cause := errors.New("cancelled: user")
		time.AfterFunc(time.Second, func() { cancel(cause) })
		_, err := r.Read(make([]byte, 1))
		if e := r.Failed(err); e.Code != llm.CodeAborted || !errors.Is(e, cause) || e.Message != "acme: the call was ended: cancelled: user" {
			t.Errorf("%+v", e)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	date := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	for _, tc := range []struct {
		header http.Header
		want   time.Duration
	}{
		{http.Header{}, 0},
		{http.Header{"Retry-After": {"2"}}, 2 * time.Second},
		{http.Header{"Retry-After": {" 2 "}}, 2 * time.Second},
		{http.Header{"Retry-After": {"1.5"}}, 1500 * time.Millisecond},
		{http.Header{"Retry-After": {"0"}}, 0},
		{http.Header{"Retry-After": {"-3"}}, 0},
		{http.Header{"Retry-After": {"NaN"}}, 0},
		{http.Header{"Retry-After": {"1e300"}}, mostAfter},
		{http.Header{"Retry-After": {"soon"}}, 0},
		{http.Header{"Retry-After": {date(3 * time.Second)}}, 3 * time.Second},
		{http.Header{"Retry-After": {date(-time.Hour)}}, 0},
		{http.Header{"Retry-After": {date(time.Hour)}, "Date": {date(59 * time.Minute)}}, time.Minute}, // their clock is ahead
		{http.Header{"Retry-After": {"9"}, "Retry-After-Ms": {"1500"}}, 1500 * time.Millisecond},
	} {
		if got := retryAfter(tc.header, now); got != tc.want {
			t.Errorf("%v: %s", tc.header, got)
		}
	}
}

func FuzzParseFailure(f *testing.F) {
	for _, s := range []string{`{"error":{"message":"x","code":5}}`, `{"error":"x"}`, `{"object":"error","message":"x"}`, `{"detail":[1]}`, `{"error":null}`, `[]`, `{"error":{"message":{}}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, page []byte) {
		failure, _ := ParseFailure(page)
		r := &Response{client: &Client{Provider: "acme", Base: &url.URL{Scheme: "http", Host: "h"}}, key: "sk-secret"}
		e := r.Classify(failure)
		if e.Code == "" || len(e.Message) > 400 || strings.ContainsAny(e.Message, "<>\n\r") {
			t.Errorf("%+v", e)
		}
		if title := oneLine(pageTitle(string(page), "text/html")); strings.ContainsAny(title, "<>\n") {
			t.Errorf("%q", title)
		}
	})
}
