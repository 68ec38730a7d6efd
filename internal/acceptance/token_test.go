//go:build unix

package acceptance

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestTrust_W08_TheTokenGoesToItsServerAlone: an address that somebody was talked into gets nothing that opens the server here.
func TestTrust_W08_TheTokenGoesToItsServerAlone(t *testing.T) {
	p := newPlace(t)
	_, url := p.serving()
	given := make(chan string, 10)
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given <- r.Header.Get("Authorization")
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer stranger.Close()
	address := "ws" + strings.TrimPrefix(stranger.URL, "http") + "/v1/connect"
	if o := p.dsh("acp", "--attach="+address); o.Code == 0 || !strings.Contains(o.Stderr, "DSH_TOKEN") {
		t.Errorf("without a token: %d, %q", o.Code, o.Stderr)
	}
	if len(given) > 0 {
		t.Errorf("the stranger was given %q", <-given)
	}
	c := p.command(t.Context(), "acp", "--attach="+address)
	c.Env = append(c.Env, "DSH_TOKEN=for-the-stranger")
	if out, err := c.CombinedOutput(); err == nil || len(given) != 1 || <-given != "Bearer for-the-stranger" {
		t.Errorf("with a token for it: %v\n%s", err, out)
	}

	message := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}` + "\n"
	c = p.command(t.Context(), "acp", "--attach="+url)
	in, err := c.StdinPipe()
	check(t, err)
	out, err := c.StdoutPipe()
	check(t, err)
	check(t, c.Start())
	_, err = in.Write([]byte(message))
	check(t, err)
	answer := make([]byte, 4096)
	n, err := out.Read(answer)
	check(t, err)
	if !strings.Contains(string(answer[:n]), `"protocolVersion":1`) {
		t.Errorf("the server of one's own says %s", answer[:n])
	}
	check(t, in.Close())
	check(t, c.Wait())
}

// TestServer_EndsWhenNobodyNeedsIt, and its log says so, and who was turned away.
func TestServer_EndsWhenNobodyNeedsIt(t *testing.T) {
	p := newPlace(t)
	_, url := p.serving("--idle", "1s")
	r, err := http.Get("http" + strings.TrimPrefix(url, "ws"))
	check(t, err)
	check(t, r.Body.Close())
	if r.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: %s", r.Status)
	}
	for deadline := time.Now().Add(20 * time.Second); p.dsh("serve", "--status", "--json").Stdout != "[]\n"; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not end")
		}
	}
	log, err := os.ReadFile(filepath.Join(p.home, "dsh", "state", "server.log"))
	check(t, err)
	for _, want := range []string{"refused a request from 127.0.0.1", "the token is missing or wrong", "nobody needed the server for 1s"} {
		if !strings.Contains(string(log), want) {
			t.Errorf("the log lacks %q:\n%s", want, log)
		}
	}
}
