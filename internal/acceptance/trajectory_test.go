//go:build unix

package acceptance

import (
	"strings"
	"testing"

	"github.com/dsh-harness/dsh/internal/testllm"
)

// TestSessions_TheTimeLineGoesDownToTheBytes compares what the command line says was sent with what the model's server got.
func TestSessions_TheTimeLineGoesDownToTheBytes(t *testing.T) {
	p := newPlace(t)
	p.srv.Script(writeCall("a.txt"), testllm.Text("Written."))
	p.run("--session-id", "s1", "write it")
	o := p.dsh("sessions", "show", "s1", "--timeline")
	for _, part := range []string{"1 write it", "  1.1 ", "    write {", "  1.2 Written.", "10 in 5 out"} {
		if o.Code != 0 || !strings.Contains(o.Stdout, part) {
			t.Errorf("the time line lacks %q:\n%s%s", part, o.Stdout, o.Stderr)
		}
	}
	for i, at := range []string{"1.1", "1.2"} {
		if o := p.dsh("sessions", "show", "s1", "--request", at); o.Code != 0 || o.Stdout != string(p.srv.Requests()[i].Body) {
			t.Errorf("request %s is not what was sent: %d %s\n%s", at, o.Code, o.Stderr, o.Stdout)
		}
	}
	for _, wrong := range []string{"1", "1.2.3.4", "0.1", "a.b"} {
		if o := p.dsh("sessions", "show", "s1", "--request", wrong); o.Code != 2 || !strings.Contains(o.Stderr, "turn.step") {
			t.Errorf("--request %s: %d %s", wrong, o.Code, o.Stderr)
		}
	}
	if o := p.dsh("sessions", "show", "s1", "--request", "7.1"); o.Code != 2 || !strings.Contains(o.Stderr, "--timeline s1") {
		t.Errorf("a request that there was not: %d %s", o.Code, o.Stderr)
	}
}
