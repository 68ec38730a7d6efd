//go:build unix

package acceptance

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dsh-harness/dsh/internal/testllm"
)

// npmClients installs the clients of other projects once, and returns the folder.
var npmClients = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp(filepath.Dir(binary), "acp-clients-")
	if err != nil {
		return "", err
	}
	for _, name := range []string{"package.json", "client.mjs"} {
		raw, err := os.ReadFile(filepath.Join("testdata", "acp", name))
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o600); err != nil {
			return "", err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		return "", &installError{err, string(out)}
	}
	return dir, nil
})

type installError struct {
	err error
	out string
}

func (e *installError) Error() string { return "npm install: " + e.err.Error() + "\n" + e.out }

// node runs a program of the clients in the place.
func (p *place) node(args ...string) (stdout, stderr string, err error) {
	p.t.Helper()
	for _, tool := range []string{"npm", "node"} {
		if _, err := exec.LookPath(tool); err != nil {
			p.t.Skipf("%s is not installed", tool)
		}
	}
	dir, err := npmClients()
	if err != nil && regexp.MustCompile(`ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ENETUNREACH|ETIMEDOUT|SOCKET_TIMEOUT`).MatchString(err.Error()) {
		p.t.Skipf("npm reaches no registry: %v", err)
	}
	check(p.t, err)
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	c := p.command(ctx)
	args[0] = filepath.Join(dir, filepath.FromSlash(args[0]))
	c.Path, err = exec.LookPath("node")
	check(p.t, err)
	c.Args = append([]string{"node"}, args...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err = c.Run()
	return out.String(), errs.String(), err
}

// write is a call that writes a file.
func writeCall(name string) testllm.Turn {
	raw, _ := json.Marshal(map[string]string{"file_path": name, "content": "one\n"}) // a map of strings
	return testllm.Calls(testllm.Call{ID: "p", Name: "write", Arguments: string(raw)})
}

// TestEditors_TheOfficialSDK has the SDK of the protocol's authors, which checks each message, prompt, allow, reject, cancel, load and resume.
func TestEditors_TheOfficialSDK(t *testing.T) {
	p := newPlace(t)
	p.srv.Script(testllm.Text("Hello."), writeCall("a.txt"), testllm.Text("Written."), writeCall("b.txt"), testllm.Text("I may not."),
		writeCall("c.txt"), testllm.Text("Going on."))
	out, errs, err := p.node("client.mjs", binary, "acp", "--permission-mode", "ask")
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, errs)
	}
	want := strings.Join([]string{
		`{"what":"initialize","value":{"version":1,"load":true,"agent":"dsh"}}`,
		`{"what":"new","value":{"mode":"ask","options":["mode","model","effort"]}}`,
		`{"what":"prompt","value":{"stop":"end_turn","text":"Hello."}}`,
		`{"what":"allowed","value":{"stop":"end_turn","calls":["completed"]}}`,
		`{"what":"rejected","value":{"stop":"end_turn","calls":["failed"]}}`,
		`{"what":"cancelled","value":{"stop":"cancelled"}}`,
		`{"what":"list","value":[true]}`,
		`{"what":"mode","value":{}}`,
		`{"what":"exit","value":0}`,
		`{"what":"initialize","value":{"version":1,"load":true,"agent":"dsh"}}`,
		`{"what":"load","value":{"mode":"plan","user":"hellowritewrite againwrite and be cancelled","agent":"Hello.Written.I may not."}}`,
		`{"what":"exit","value":0}`,
		`{"what":"initialize","value":{"version":1,"load":true,"agent":"dsh"}}`,
		`{"what":"resume","value":{"before":0,"stop":"end_turn","text":"Going on."}}`,
		`{"what":"exit","value":0}`,
	}, "\n") + "\n"
	if out != want {
		t.Errorf("it went\n%s\nwant\n%s\n%s", out, want, errs)
	}
	if !p.has("a.txt") || p.has("b.txt") || p.has("c.txt") {
		t.Error("what was written is not what was allowed")
	}
}

// TestEditors_Acpx drives dsh with the client acpx: one prompt, and a session that a second process of it goes on with.
func TestEditors_Acpx(t *testing.T) {
	p := newPlace(t)
	p.srv.Script(testllm.Text("Hello from afar."), writeCall("a.txt"), testllm.Text("Written."), testllm.Text("Still here."))
	agent := binary + " acp --permission-mode ask"
	const acpx = "node_modules/acpx/dist/cli.js"
	step := func(want string, args ...string) {
		t.Helper()
		out, errs, err := p.node(append([]string{acpx, "--agent", agent, "--format", "text", "--ttl", "1"}, args...)...)
		if err != nil || !strings.Contains(out, want) {
			t.Fatalf("acpx %q: %v\n%s\n%s", args, err, out, errs)
		}
	}
	step("Hello from afar.", "exec", "hello")
	step("", "sessions", "new")
	step("Written.", "--approve-all", "prompt", "write it")
	if !p.has("a.txt") {
		t.Error("the file was not written")
	}
	time.Sleep(1500 * time.Millisecond) // its process ends, so that the next one loads the session
	step("Still here.", "prompt", "are you there?")
	if last := p.srv.Requests()[3]; !strings.Contains(string(last.Body), "write it") {
		t.Error("the session was not gone on with")
	}
}

// TestTrust_M06_StandardOutputIsTheProtocol feeds the real entry what no editor should send, a byte at a time.
func TestTrust_M06_StandardOutputIsTheProtocol(t *testing.T) {
	p := newPlace(t)
	p.srv.Script(testllm.Calls(shell("p", "echo to stdout; echo to stderr >&2; echo to the parent > /proc/$PPID/fd/1")), testllm.Text("done"))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c := p.command(ctx, "acp", "--verbose", "--permission-mode", "full-access")
	in, err := c.StdinPipe()
	check(t, err)
	out, err := c.StdoutPipe()
	check(t, err)
	var errs bytes.Buffer
	c.Stderr = &errs
	check(t, c.Start())
	lines := make(chan map[string]json.RawMessage, 1000)
	go func() {
		defer close(lines)
		d := json.NewDecoder(out)
		for {
			var m map[string]json.RawMessage
			if err := d.Decode(&m); err != nil {
				return
			}
			lines <- m
		}
	}()
	send := func(s string) {
		for _, b := range []byte(s + "\n") {
			if _, err := in.Write([]byte{b}); err != nil {
				t.Fatal(err)
			}
		}
	}
	answer := func(id string) map[string]json.RawMessage {
		t.Helper()
		for m := range lines {
			if string(m["jsonrpc"]) != `"2.0"` {
				t.Fatalf("a message without a version: %v", m)
			}
			if string(m["id"]) == id && m["method"] == nil {
				return m
			}
		}
		t.Fatalf("no answer to %s\n%s", id, errs.String())
		return nil
	}
	code := func(id, want string) {
		t.Helper()
		if e := string(answer(id)["error"]); !strings.Contains(e, `"code":`+want) {
			t.Errorf("the answer to %s is the error %s, want %s", id, e, want)
		}
	}
	huge := strings.Repeat("7", 600)
	send(`{"jsonrpc":"2.0","id":` + huge + `,"method":"initialize","params":{"protocolVersion":1}}`)
	if answer(huge)["result"] == nil {
		t.Error("a long id is not answered")
	}
	send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":99}}`)
	if r := string(answer("1")["result"]); !strings.Contains(r, `"protocolVersion":1,`) {
		t.Errorf("a newer client is answered %s", r)
	}
	send(`[{"jsonrpc":"2.0","id":2,"method":"session/list"}]`)
	code("null", "-32600")
	send(`{"jsonrpc":"2.0","id":3,"method":`)
	code("null", "-32700")
	send("\xff\xfe")
	code("null", "-32700")
	send(`{"jsonrpc":"2.0","id":4,"method":"no/such"}`)
	code("4", "-32601")
	send(`{"jsonrpc":"2.0","id":5,"method":"session/prompt","params":{"sessionId":7}}`)
	code("5", "-32602")
	send(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"nobody"}}`)
	send(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"nobody"}}`)
	send(`{"jsonrpc":"2.0","id":99,"result":{"to":"nobody"}}`)
	work, err := json.Marshal(p.work)
	check(t, err)
	send(`{"jsonrpc":"2.0","id":6,"method":"session/new","params":{"cwd":` + string(work) + `,"mcpServers":[]}}`)
	var made struct{ SessionID string }
	check(t, json.Unmarshal(answer("6")["result"], &made))
	send(`{"jsonrpc":"2.0","id":7,"method":"session/prompt","params":{"sessionId":"` + made.SessionID + `","prompt":[{"type":"text","text":"go"}]}}`)
	if r := string(answer("7")["result"]); !strings.Contains(r, "end_turn") {
		t.Errorf("the prompt is answered %s", r)
	}
	for i := range 5 { // a cancellation races with the answer
		id := "1" + strings.Repeat("0", i)
		p.srv.Script(testllm.Text("quick"))
		send(`{"jsonrpc":"2.0","id":` + id + `,"method":"session/prompt","params":{"sessionId":"` + made.SessionID + `","prompt":[{"type":"text","text":"go"}]}}`)
		send(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"` + made.SessionID + `"}}`)
		if r := string(answer(id)["result"]); !strings.Contains(r, "cancelled") && !strings.Contains(r, "end_turn") {
			t.Errorf("a cancelled prompt is answered %s", r)
		}
	}
	check(t, in.Close())
	for range lines {
	}
	check(t, c.Wait())
}

// TestTrust_M07_AnEditorThatDiesTakesItsTurnsWithIt kills the input of the agent in the middle of a command.
func TestTrust_M07_AnEditorThatDiesTakesItsTurnsWithIt(t *testing.T) {
	p := newPlace(t)
	p.srv.Script(testllm.Calls(shell("p", "echo $$ > pid; sleep 601")))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c := p.command(ctx, "acp", "--permission-mode", "full-access")
	in, err := c.StdinPipe()
	check(t, err)
	out, err := c.StdoutPipe()
	check(t, err)
	check(t, c.Start())
	d := json.NewDecoder(out)
	work, err := json.Marshal(p.work)
	check(t, err)
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}`,
		`{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":` + string(work) + `,"mcpServers":[]}}`,
	} {
		_, err := in.Write([]byte(line + "\n"))
		check(t, err)
	}
	var made struct{ Result struct{ SessionID string } }
	for made.Result.SessionID == "" {
		check(t, d.Decode(&made))
	}
	_, err = in.Write([]byte(`{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"` + made.Result.SessionID + `","prompt":[{"type":"text","text":"go"}]}}` + "\n"))
	check(t, err)
	for !p.has("pid") {
		if ctx.Err() != nil {
			t.Fatal("the command did not start")
		}
		time.Sleep(5 * time.Millisecond)
	}
	check(t, in.Close())
	check(t, out.Close())
	began := time.Now()
	if err := c.Wait(); err != nil {
		t.Errorf("dsh ended with %v", err)
	}
	t.Logf("it took %v", time.Since(began))
	left, err := exec.Command("pgrep", "-f", "sleep 601").Output()
	if err == nil && len(bytes.TrimSpace(left)) > 0 {
		t.Errorf("its command still runs: %s", left)
	}
	if end := p.lastEnd(); end.Data.Reason != "aborted" {
		t.Errorf("the turn ended as %+v", end.Data)
	}
}
