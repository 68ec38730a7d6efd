//go:build unix

package acceptance

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dsh-harness/dsh/internal/jsonrpc"
	"github.com/dsh-harness/dsh/internal/testllm"
	"github.com/dsh-harness/dsh/protocol"
	"github.com/dsh-harness/dsh/surface/server"
)

// serving starts a server in the background, which ends with the test.
func (p *place) serving(args ...string) (socket, url string) {
	p.t.Helper()
	if o := p.dsh(append([]string{"serve", "--background"}, args...)...); o.Code != 0 {
		p.t.Fatalf("dsh serve: %d\n%s", o.Code, o.Stderr)
	}
	p.t.Cleanup(p.stopServer)
	var all []struct{ Address, URL string }
	check(p.t, json.Unmarshal([]byte(p.dsh("serve", "--status", "--json").Stdout), &all))
	if len(all) != 1 {
		p.t.Fatalf("%d servers run", len(all))
	}
	return strings.TrimPrefix(all[0].Address, "unix:"), all[0].URL
}

func (p *place) stopServer() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if out, err := p.command(ctx, "serve", "--stop").CombinedOutput(); err != nil {
		p.t.Errorf("dsh serve --stop: %v\n%s", err, out)
	}
}

// remote is a client of a server.
type remote struct {
	t    *testing.T
	conn *jsonrpc.Conn
}

func (p *place) connect(address, token string) *remote {
	p.t.Helper()
	s, err := server.Dial(p.t.Context(), address, token)
	check(p.t, err)
	r := &remote{p.t, jsonrpc.New(s, jsonrpc.Options{Handler: func(_ context.Context, m jsonrpc.Incoming) jsonrpc.Reply {
		if m.Method == protocol.MethodRequestPermission {
			return jsonrpc.Result(protocol.RequestPermissionResult{Outcome: protocol.PermissionOutcome{Outcome: "selected", OptionID: "allow"}})
		}
		return jsonrpc.Reply{}
	}})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = r.conn.Serve(context.Background())
	}()
	p.t.Cleanup(func() {
		_ = r.conn.Close()
		<-ended
	})
	r.call(protocol.MethodInitialize, protocol.InitializeParams{ProtocolVersion: 1}, nil)
	return r
}

func (r *remote) call(method string, params, result any) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := r.conn.Call(ctx, method, params, result); err != nil {
		r.t.Fatalf("%s: %v", method, err)
	}
}

func (p *place) open(r *remote) string {
	p.t.Helper()
	var made protocol.OpenResult
	r.call(protocol.MethodSessionNew, protocol.OpenParams{Cwd: p.work, MCPServers: []protocol.MCPServer{}}, &made)
	return made.SessionID
}

func text(id, words string) protocol.PromptParams {
	return protocol.PromptParams{SessionID: id, Prompt: []protocol.ContentBlock{protocol.Text(words)}}
}

// TestServer_OneSessionManyFaces goes through what a server is for: two ways in, a client that goes and comes back, a session that others cannot have
// and are told where it is, and an end that closes everything.
func TestServer_OneSessionManyFaces(t *testing.T) {
	p := newPlace(t)
	socket, url := p.serving("--permission-mode", "ask")
	p.srv.Script(testllm.Text("Hello."), writeCall("a.txt"), testllm.Text("Written."), testllm.Text("Resumed."))
	first := p.connect("unix:"+socket, "")
	id := p.open(first)
	first.call(protocol.MethodSessionPrompt, text(id, "hello"), nil)

	o := p.dsh("resume", id, "me too")
	if o.Code == 0 || !strings.Contains(o.Stderr, "is in use by process") || !strings.Contains(o.Stderr, "unix:"+socket) {
		t.Errorf("another process is told %d, %q", o.Code, o.Stderr)
	}

	token, err := os.ReadFile(filepath.Join(p.home, "dsh", "state", "server.token"))
	check(t, err)
	_ = first.conn.Close()
	second := p.connect(url, strings.TrimSpace(string(token)))
	second.call(protocol.MethodSessionResume, protocol.OpenParams{SessionID: id, Cwd: p.work, MCPServers: []protocol.MCPServer{}}, nil)
	second.call(protocol.MethodSessionPrompt, text(id, "write it"), nil)
	if !p.has("a.txt") {
		t.Error("the file was not written")
	}
	second.call(protocol.MethodSessionClose, protocol.SessionParams{SessionID: id}, nil)
	_ = second.conn.Close()
	for deadline := time.Now().Add(25 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		o = p.dsh("resume", id, "and now here")
		if o.Code == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the session is not given back: %s", o.Stderr)
		}
	}
	p.ok(o, "Resumed.")
	if again := p.dsh("serve", "--background"); again.Code != 0 || !strings.Contains(again.Stderr, "runs already") {
		t.Errorf("a second server: %d, %q", again.Code, again.Stderr)
	}
	if o := p.dsh("serve", "--socket", socket); o.Code == 0 || !strings.Contains(o.Stderr, "another process answers there") {
		t.Errorf("a second one at the same socket: %d, %q", o.Code, o.Stderr)
	}
	raw, err := os.ReadFile(filepath.Join(p.home, "dsh", "state", "server.log"))
	check(t, err)
	if strings.Contains(string(raw), strings.TrimSpace(string(token))) {
		t.Error("the log has the token")
	}
}

// TestServer_SurvivesItsTerminal starts one from a process group that then ends.
func TestServer_SurvivesItsTerminal(t *testing.T) {
	p := newPlace(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c := p.command(ctx)
	c.Path, c.Args = "/bin/sh", []string{"sh", "-c", binary + " serve --background && sleep 600"}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	check(t, c.Start())
	t.Cleanup(p.stopServer)
	for p.dsh("serve", "--status", "--json").Stdout == "[]\n" {
		if ctx.Err() != nil {
			t.Fatal("it does not start")
		}
		time.Sleep(10 * time.Millisecond)
	}
	check(t, syscall.Kill(-c.Process.Pid, syscall.SIGHUP))
	_ = c.Wait() // the hang-up ended it
	var all []struct {
		PID     int
		Address string
	}
	check(t, json.Unmarshal([]byte(p.dsh("serve", "--status", "--json").Stdout), &all))
	if len(all) != 1 {
		t.Fatalf("%d servers run", len(all))
	}
	p.connect(all[0].Address, "").call(protocol.MethodStats, nil, nil)

	// Killed, it leaves its entry and its socket behind; neither misleads anybody.
	check(t, syscall.Kill(all[0].PID, syscall.SIGKILL))
	for p.dsh("serve", "--status", "--json").Stdout != "[]\n" {
		if ctx.Err() != nil {
			t.Fatal("a killed server is still listed")
		}
		time.Sleep(10 * time.Millisecond)
	}
	p.serving()
}

// TestTrust_W05_OtherUsersAreRefused connects as somebody else.
func TestTrust_W05_OtherUsersAreRefused(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be somebody else")
	}
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		t.Skip("setpriv is not installed")
	}
	p := newPlace(t)
	socket := filepath.Join("/tmp", fmt.Sprintf("dsh-w05-%d.sock", os.Getpid())) // where everybody may look
	t.Cleanup(func() { _ = os.Remove(socket) })
	p.serving("--socket", socket)
	try := func() (string, error) {
		c := exec.Command(setpriv, "--reuid=65534", "--clear-groups", "python3", "-c",
			"import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\ns.sendall(b'{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":1}}\\n')\nprint(s.recv(100))", socket)
		out, err := c.CombinedOutput()
		return string(out), err
	}
	if out, err := try(); err == nil || !strings.Contains(out, "Permission denied") {
		t.Errorf("another user came in: %v\n%s", err, out)
	}
	// The mode is one lock. The kernel's word about who connects is another.
	check(t, os.Chmod(socket, 0o666))
	if out, _ := try(); strings.Contains(out, "protocolVersion") {
		t.Errorf("another user was answered: %s", out)
	}
	c, err := net.Dial("unix", socket)
	check(t, err)
	check(t, c.Close())
}
