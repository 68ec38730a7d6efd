package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dsh-harness/dsh/internal/jsonrpc"
	"github.com/dsh-harness/dsh/internal/testllm"
	"github.com/dsh-harness/dsh/protocol"
	"github.com/dsh-harness/dsh/surface/acp"
	"github.com/dsh-harness/dsh/surface/live/livetest"
	"github.com/dsh-harness/dsh/surface/server"
)

// full says whether the whole counts of the tests are wanted.
func full() bool { return os.Getenv("DSH_TEST_FULL") != "" }

// count is quick in the gate.
func count(quick, whole int) int {
	if full() {
		return whole
	}
	return quick
}

// world is a server with real sessions.
func world(t *testing.T, o livetest.Options) (w *livetest.World, socket string) {
	t.Helper()
	w = livetest.New(t, o)
	socket = filepath.Join(t.TempDir(), "s")
	start(t, server.Options{Socket: socket, Serve: func(ctx context.Context, s jsonrpc.Stream) error {
		return acp.Serve(ctx, s, acp.Options{Hub: w.Hub, Version: "test"})
	}})
	return w, socket
}

// peer is a client that watches.
type peer struct {
	conn   *jsonrpc.Conn
	events atomic.Int64 // how many came
	wrong  atomic.Int64 // how many came in a wrong place
	next   atomic.Int64
	ended  sync.WaitGroup
}

func dial(t *testing.T, socket string) *peer {
	t.Helper()
	s, err := server.Dial(t.Context(), socket, "")
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{}
	p.conn = jsonrpc.New(s, jsonrpc.Options{Handler: p.take})
	p.ended.Go(func() { _ = p.conn.Serve(context.Background()) })
	t.Cleanup(p.close)
	p.call(t, protocol.MethodInitialize, protocol.InitializeParams{ProtocolVersion: 1, ClientCapabilities: protocol.ClientCapabilities{
		Meta: protocol.Meta{"dsh": json.RawMessage(`{"quiet":true,"questions":true,"name":"peer"}`)},
	}}, nil)
	return p
}

func (p *peer) close() {
	_ = p.conn.Close()
	p.ended.Wait()
}

func (p *peer) take(_ context.Context, m jsonrpc.Incoming) jsonrpc.Reply {
	if m.Method != protocol.NoteEvent {
		return jsonrpc.Reply{}
	}
	var note struct{ Line struct{ Seq int64 } }
	if json.Unmarshal(m.Params, &note) != nil || note.Line.Seq != p.next.Load() {
		p.wrong.Add(1)
	}
	p.next.Store(note.Line.Seq + 1)
	p.events.Add(1)
	return jsonrpc.Reply{}
}

func (p *peer) call(t *testing.T, method string, params, result any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := p.conn.Call(ctx, method, params, result); err != nil {
		t.Errorf("%s: %v", method, err)
	}
}

func (p *peer) create(t *testing.T, dir string) string {
	t.Helper()
	var r protocol.OpenResult
	p.call(t, protocol.MethodSessionNew, protocol.OpenParams{Cwd: dir, MCPServers: []protocol.MCPServer{}}, &r)
	return r.SessionID
}

func (p *peer) prompt(t *testing.T, id, text string) {
	t.Helper()
	p.call(t, protocol.MethodSessionPrompt, protocol.PromptParams{SessionID: id, Prompt: []protocol.ContentBlock{protocol.Text(text)}}, nil)
}

// durable is how many events a session has.
func (p *peer) durable(t *testing.T, id string) int64 {
	t.Helper()
	var r protocol.EventsResult
	p.call(t, protocol.MethodEvents, protocol.EventsParams{SessionID: id, From: 0, Limit: 1}, &r)
	return r.DurableSeq
}

func (p *peer) watch(t *testing.T, id string, from int64) {
	t.Helper()
	p.next.Store(from)
	p.call(t, protocol.MethodWatch, protocol.WatchParams{SessionID: id, From: from}, nil)
}

// reach waits until a peer has seen the events before seq.
func (p *peer) reach(t *testing.T, seq int64) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); p.next.Load() < seq; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it has seen the events before %d, not those before %d", p.next.Load(), seq)
		}
	}
}

// TestTrust_W10_AReconnectMissesNothing cuts the connection at random moments while a session goes on.
func TestTrust_W10_AReconnectMissesNothing(t *testing.T) {
	w, socket := world(t, livetest.Options{Mode: "workspace-write"})
	driver := dial(t, socket)
	id := driver.create(t, w.Dir)
	cuts := count(40, 1000)
	stop := make(chan struct{})
	var driving sync.WaitGroup
	driving.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				w.Model.Script(testllm.Text("some words"))
				driver.prompt(t, id, "go on")
			}
		}
	})
	var seen int64
	for range cuts {
		p := dial(t, socket)
		p.watch(t, id, seen)
		time.Sleep(rand.N(3 * time.Millisecond))
		p.close()
		if p.wrong.Load() > 0 {
			t.Fatalf("%d events came in a wrong place", p.wrong.Load())
		}
		if got := p.next.Load(); got < seen {
			t.Fatalf("from %d back to %d", seen, got)
		} else {
			seen = got
		}
	}
	close(stop)
	driving.Wait()
	last := dial(t, socket)
	last.watch(t, id, seen)
	last.reach(t, driver.durable(t, id))
	if last.wrong.Load() > 0 {
		t.Error("the rest came in a wrong place")
	}
	t.Logf("%d cuts, %d events", cuts, last.next.Load())
}

// TestTrust_W11_ClientsActAtOnceAndSeeTheSame has several clients prompt, steer and answer in one session.
func TestTrust_W11_ClientsActAtOnceAndSeeTheSame(t *testing.T) {
	w, socket := world(t, livetest.Options{Mode: "workspace-write"})
	const clients, each = 4, 5
	for range 2 * clients * each {
		w.Model.Script(testllm.Text("yes"))
	}
	first := dial(t, socket)
	id := first.create(t, w.Dir)
	all := make([]*peer, clients)
	for i := range all {
		all[i] = dial(t, socket)
		all[i].watch(t, id, 0)
	}
	var acting sync.WaitGroup
	for i, p := range all {
		acting.Go(func() {
			for n := range each {
				method := protocol.MethodEnqueue
				if n%2 == 1 {
					method = protocol.MethodSteer
				}
				p.call(t, method, protocol.DeliverParams{SessionID: id, Prompt: []protocol.ContentBlock{protocol.Text(fmt.Sprint(i, n))}}, nil)
			}
		})
	}
	acting.Wait()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		var s protocol.StatsResult
		first.call(t, protocol.MethodStats, nil, &s)
		if s.Running == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it does not come to rest")
		}
	}
	end := first.durable(t, id)
	for i, p := range all {
		p.reach(t, end)
		if p.wrong.Load() > 0 || p.events.Load() != end {
			t.Errorf("client %d saw %d events, %d of them in a wrong place; there are %d", i, p.events.Load(), p.wrong.Load(), end)
		}
	}
	var text protocol.ExportResult
	first.call(t, protocol.MethodExport, protocol.ExportParams{SessionID: id, Format: "jsonl"}, &text)
	for i := range clients {
		for n := range each {
			if c := strings.Count(text.Text, fmt.Sprintf(`"text":"%d %d"`, i, n)); c != 2 { // as it was queued, and as it was taken
				t.Errorf("input %d of client %d stands %d times in the log", n, i, c)
			}
		}
	}
}

// TestTrust_X01_ManyClientsOfManySessions: everything reaches who reads, though some do not. X03 is the same with an eye on those.
func TestTrust_X01_ManyClientsOfManySessions(t *testing.T) {
	w, socket := world(t, livetest.Options{Mode: "workspace-write"})
	sessions, each, turns := count(10, 100), count(6, 10), count(5, 50)
	driver := dial(t, socket)
	ids := make([]string, sessions)
	for i := range ids {
		ids[i] = driver.create(t, w.Dir)
	}
	var peers []*peer
	stalled := 0
	for i := range sessions * each {
		if i%20 == 7 { // one in twenty connects and reads nothing
			stalled++
			stall(t, socket, ids[i%sessions])
			continue
		}
		p := dial(t, socket)
		p.watch(t, ids[i%sessions], 0)
		peers = append(peers, p)
	}
	before := memory()
	began := time.Now()
	var driving sync.WaitGroup
	for _, id := range ids {
		driving.Go(func() {
			for range turns {
				driver.prompt(t, id, "[[mock text:400]] go on")
			}
		})
	}
	driving.Wait()
	sent := time.Since(began)
	ends := map[string]int64{}
	total := int64(0)
	for _, id := range ids {
		ends[id] = driver.durable(t, id)
	}
	i := 0
	for n := range sessions * each {
		if n%20 == 7 {
			continue
		}
		p := peers[i]
		i++
		p.reach(t, ends[ids[n%sessions]])
		if p.wrong.Load() > 0 {
			t.Errorf("client %d saw %d events in a wrong place", n, p.wrong.Load())
		}
		total += p.events.Load()
	}
	t.Logf("%d clients on %d sessions, %d stalled: %d events delivered, sent in %v, all there after %v; heap %d MB, before %d MB",
		sessions*each, sessions, stalled, total, sent, time.Since(began), memory()>>20, before>>20)
}

// stall connects, asks for everything, and never reads again.
func stall(t *testing.T, socket, id string) {
	t.Helper()
	c, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	for _, m := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}`,
		`{"jsonrpc":"2.0","id":2,"method":"_dsh/watch","params":{"sessionId":"` + id + `","from":0}}`,
	} {
		if _, err := c.Write([]byte(m + "\n")); err != nil {
			t.Fatal(err)
		}
	}
}

// memory is the heap after a collection, in bytes.
func memory() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestTrust_X03_AStalledClientIsLetGoAndComesBack fills the queue of one client; the others do not notice.
func TestTrust_X03_AStalledClientIsLetGoAndComesBack(t *testing.T) {
	w := livetest.New(t, livetest.Options{Mode: "workspace-write"})
	socket := filepath.Join(t.TempDir(), "s")
	ended := make(chan error, 10)
	start(t, server.Options{Socket: socket, Serve: func(ctx context.Context, s jsonrpc.Stream) error {
		err := acp.Serve(ctx, s, acp.Options{Hub: w.Hub, Version: "test", Queue: 16 << 10, QueueTime: 300 * time.Millisecond})
		ended <- err
		return err
	}})
	driver := dial(t, socket)
	id := driver.create(t, w.Dir)
	stall(t, socket, id)
	reader := dial(t, socket)
	reader.watch(t, id, 0)
	let := false
	for n := 0; !let; n++ {
		if n == 500 {
			t.Fatal("the client that reads nothing is still there")
		}
		driver.prompt(t, id, "[[mock text:4000]] go on")
		select {
		case err := <-ended:
			if !errors.Is(err, jsonrpc.ErrSlow) {
				t.Errorf("it ended with %v", err)
			}
			let = true
		default:
		}
	}
	end := driver.durable(t, id)
	reader.reach(t, end)
	again := dial(t, socket)
	again.watch(t, id, 0)
	again.reach(t, end)
	if reader.wrong.Load()+again.wrong.Load() > 0 {
		t.Error("events came in a wrong place")
	}
}

// TestTrust_X05_ChurnLeavesNothing connects and goes, many times.
func TestTrust_X05_ChurnLeavesNothing(t *testing.T) {
	_, socket := world(t, livetest.Options{})
	dial(t, socket).close()
	before, goroutines := descriptors(t), runtime.NumGoroutine()
	for i := range count(300, 20000) {
		if i%3 == 0 {
			c, err := net.Dial("unix", socket)
			if err != nil {
				t.Fatal(err)
			}
			_ = c.Close()
			continue
		}
		dial(t, socket).close()
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if now, g := descriptors(t), runtime.NumGoroutine(); now <= before && g <= goroutines {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("%d descriptors and %d goroutines, %d and %d before", now, g, before, goroutines)
		}
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("there is no /proc/self/fd here")
	}
	return len(all)
}

// TestIdleSessionsCostLittle parks many sessions in one server.
func TestIdleSessionsCostLittle(t *testing.T) {
	w, socket := world(t, livetest.Options{Mode: "workspace-write", Park: time.Millisecond})
	n := count(200, 10000)
	p := dial(t, socket)
	before := memory()
	for i := range n {
		id := p.create(t, w.Dir)
		p.call(t, protocol.MethodRename, protocol.RenameParams{SessionID: id, Title: fmt.Sprint("session ", i)}, nil) // so that it is stored
		p.call(t, protocol.MethodSessionClose, protocol.SessionParams{SessionID: id}, nil)
	}
	for deadline := time.Now().Add(time.Minute); w.Hub.Stats().Live > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d sessions are not parked", w.Hub.Stats().Live)
		}
	}
	used := int64(memory()) - int64(before)
	if parked := w.Hub.Stats().Parked; parked != n {
		t.Errorf("%d are parked, of %d", parked, n)
	}
	each := used / int64(n)
	t.Logf("%d parked sessions take %d kB, %d bytes each", n, used>>10, each)
	if each > 20<<10 { // 10,000 of them have 300 MB
		t.Errorf("each takes %d bytes", each)
	}
}

// TestTrust_X02_ManySessionsRunAtOnce measures how long a piece of text takes to a client.
func TestTrust_X02_ManySessionsRunAtOnce(t *testing.T) {
	w, socket := world(t, livetest.Options{Mode: "workspace-write"})
	n := count(10, 100)
	p := dial(t, socket)
	var mu sync.Mutex
	var took []time.Duration
	var running sync.WaitGroup
	for range n {
		running.Go(func() {
			id := p.create(t, w.Dir)
			began := time.Now()
			p.prompt(t, id, "[[mock text:2000,gap:5]] go on")
			mu.Lock()
			took = append(took, time.Since(began))
			mu.Unlock()
		})
	}
	running.Wait()
	slices.Sort(took)
	t.Logf("%d sessions, each 2,000 bytes with 5 ms between the pieces: %v to %v", n, took[0], took[len(took)-1])
}
