package jsonrpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs a connection until the test ends.
func serve(t *testing.T, s Stream, o Options) *Conn {
	t.Helper()
	c := New(s, o)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Serve(context.Background())
	}()
	t.Cleanup(func() {
		_ = c.Close()
		<-ended
	})
	return c
}

// exchange feeds lines to a connection with the handler and returns what it wrote until the input ended.
func exchange(t *testing.T, h Handler, input string) []string {
	t.Helper()
	var out bytes.Buffer
	c := New(Lines(iotest.OneByteReader(strings.NewReader(input)), &out, nil, 4096), Options{Handler: h})
	if err := c.Serve(t.Context()); err != nil {
		t.Fatalf("Serve: %v", err)
	}
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

func echo(_ context.Context, m Incoming) Reply {
	switch m.Method {
	case "echo":
		return Result(m.Params)
	case "later":
		return Later(func(context.Context) (any, error) { return m.Params, nil })
	case "wait":
		return Later(func(ctx context.Context) (any, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})
	case "panic":
		panic("a mistake")
	case "refuse":
		return Fail(NewError(-32000, map[string]int{"n": 1}, "not %s", "today"))
	default:
		return Fail(NoMethod(m.Method))
	}
}

func TestAnswersAsTheSpecificationSays(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"request":          {`{"jsonrpc":"2.0","id":1,"method":"echo","params":{"a":"<b>"}}`, `{"jsonrpc":"2.0","id":1,"result":{"a":"<b>"}}`},
		"string id":        {`{"jsonrpc":"2.0","id":"x\"y","method":"echo","params":[1]}`, `{"jsonrpc":"2.0","id":"x\"y","result":[1]}`},
		"large number":     {`{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"echo","params":[1]}`, `{"jsonrpc":"2.0","id":123456789012345678901234567890,"result":[1]}`},
		"nothing":          {`{"jsonrpc":"2.0","id":1,"method":"echo"}`, `{"jsonrpc":"2.0","id":1,"result":null}`},
		"null id":          {`{"jsonrpc":"2.0","id":null,"method":"echo"}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the request is not valid: its id is neither a string nor a number"}}`},
		"object id":        {`{"jsonrpc":"2.0","id":{},"method":"echo"}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the request is not valid: its id is neither a string nor a number"}}`},
		"no version":       {`{"id":1,"method":"echo"}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"the request is not valid: its member \"jsonrpc\" is not \"2.0\""}}`},
		"unknown":          {`{"jsonrpc":"2.0","id":1,"method":"ech"}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"there is no method \"ech\""}}`},
		"refused":          {`{"jsonrpc":"2.0","id":1,"method":"refuse"}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"not today","data":{"n":1}}}`},
		"panic":            {`{"jsonrpc":"2.0","id":1,"method":"panic"}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"panic failed because of a mistake in this program: a mistake"}}`},
		"batch":            {`[{"jsonrpc":"2.0","id":1,"method":"echo"}]`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"batches are not part of this protocol: send one message at a time"}}`},
		"no message":       {`{"jsonrpc":"2.0","id":7}`, `{"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"the message has neither a method nor a result"}}`},
		"unknown answer":   {`{"jsonrpc":"2.0","id":7,"result":1}`, ``},
		"notification":     {`{"jsonrpc":"2.0","method":"nobody knows"}`, ``},
		"empty lines":      {"\n \n\r\n" + `{"jsonrpc":"2.0","id":1,"method":"echo"}` + "\r\n\n", `{"jsonrpc":"2.0","id":1,"result":null}`},
		"wrong cancelling": {`{"jsonrpc":"2.0","method":"$/cancel_request","params":3}`, ``},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(exchange(t, echo, c.in), "\n"); got != c.want {
				t.Errorf("%s\n got %s\nwant %s", c.in, got, c.want)
			}
		})
	}
}

func TestWhatIsNoJSONIsAnsweredAndTheConnectionGoesOn(t *testing.T) {
	long := `{"jsonrpc":"2.0","id":1,"method":"echo","params":"` + strings.Repeat("x", 9000) + `"}`
	id := `{"jsonrpc":"2.0","id":"` + strings.Repeat("i", 2000) + `","method":"echo"}`
	got := exchange(t, echo, "{\"jsonrpc\"\n\xff\xfe\n"+long+"\n"+id+"\n"+`{"jsonrpc":"2.0","id":2,"method":"echo"}`)
	if len(got) != 5 {
		t.Fatalf("%d answers, want 5: %q", len(got), got)
	}
	for i, code := range []int{CodeParse, CodeParse, CodeInvalid, CodeInvalid} {
		if !strings.Contains(got[i], fmt.Sprintf(`"id":null,"error":{"code":%d`, code)) {
			t.Errorf("answer %d is %s, want the code %d", i, got[i], code)
		}
	}
	if got[4] != `{"jsonrpc":"2.0","id":2,"result":null}` {
		t.Errorf("the request after them got %s", got[4])
	}
}

func TestAnIDThatIsInFlightIsRefused(t *testing.T) {
	got := exchange(t, echo, `{"jsonrpc":"2.0","id":1,"method":"wait"}`+"\n"+`{"jsonrpc":"2.0","id":1,"method":"echo"}`)
	if len(got) != 2 || !strings.Contains(got[0], "still running") || !strings.Contains(got[1], "closed") {
		t.Errorf("got %q", got)
	}
}

func TestBothSidesCall(t *testing.T) {
	a, b := Pipe()
	var left, right *Conn
	left = New(a, Options{Handler: func(_ context.Context, m Incoming) Reply {
		return Later(func(ctx context.Context) (any, error) {
			var n int
			if err := m.Decode(&n); err != nil || n == 0 {
				return n, err
			}
			var back int
			err := left.Call(ctx, "down", n-1, &back)
			return back + 1, err
		})
	}})
	right = New(b, Options{Handler: func(_ context.Context, m Incoming) Reply {
		return Later(func(ctx context.Context) (any, error) {
			var n, back int
			if err := m.Decode(&n); err != nil || n == 0 {
				return n, err
			}
			err := right.Call(ctx, "down", n-1, &back)
			return back + 1, err
		})
	}})
	var all sync.WaitGroup
	for _, c := range []*Conn{left, right} {
		all.Go(func() { _ = c.Serve(t.Context()) })
	}
	var depth int
	if err := left.Call(t.Context(), "down", 20, &depth); err != nil || depth != 20 {
		t.Errorf("depth %d, %v", depth, err)
	}
	_ = left.Close()
	all.Wait()
	if err := left.Call(t.Context(), "down", 1, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("a call after the end: %v", err)
	}
}

func TestACallIsTakenBack(t *testing.T) {
	a, b := Pipe()
	client := serve(t, a, Options{})
	seen := make(chan error, 1)
	serve(t, b, Options{Handler: func(context.Context, Incoming) Reply {
		return Later(func(ctx context.Context) (any, error) {
			<-ctx.Done()
			seen <- context.Cause(ctx)
			return nil, context.Cause(ctx)
		})
	}})
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	time.AfterFunc(time.Millisecond, func() { cancel(why) })
	if err := client.Call(ctx, "wait", nil, nil); !errors.Is(err, why) {
		t.Errorf("the call ended with %v", err)
	}
	if err := <-seen; !errors.Is(err, ErrCancelled) {
		t.Errorf("the handler was told %v", err)
	}
}

func TestARequestThatIsTakenBackIsAnswered(t *testing.T) {
	got := exchange(t, echo, `{"jsonrpc":"2.0","id":"a","method":"wait"}`+"\n"+`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"a"}}`+"\n")
	if len(got) != 1 || !strings.Contains(got[0], `"id":"a","error":{"code":-32800`) {
		t.Errorf("got %q", got)
	}
}

func TestTheHandlerSeesTheOrderOfArrival(t *testing.T) {
	var in strings.Builder
	for i := range 200 {
		id := ""
		if i%2 == 0 {
			id = fmt.Sprintf(`"id":%d,`, i)
		}
		fmt.Fprintf(&in, `{"jsonrpc":"2.0",%s"method":"n","params":%d}`+"\n", id, i)
	}
	next := 0
	exchange(t, func(_ context.Context, m Incoming) Reply {
		var i int
		if err := m.Decode(&i); err != nil || i != next {
			t.Errorf("got %d, want %d (%v)", i, next, err)
		}
		next++
		return Result(i)
	}, in.String())
	if next != 200 {
		t.Errorf("%d messages arrived", next)
	}
}

// TestEachRequestGetsOneAnswer is the law of the package.
func TestEachRequestGetsOneAnswer(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var in strings.Builder
		want := map[string]int{}
		for i := range rapid.IntRange(0, 40).Draw(rt, "messages") {
			method := rapid.SampledFrom([]string{"echo", "later", "wait", "panic", "refuse", "nobody", "cancel", "note", "junk"}).Draw(rt, "method")
			switch method {
			case "cancel":
				fmt.Fprintf(&in, `{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":%d}}`+"\n", rapid.IntRange(0, i).Draw(rt, "which"))
			case "note":
				fmt.Fprintf(&in, `{"jsonrpc":"2.0","method":"later","params":1}`+"\n")
			case "junk":
				in.WriteString("{]\n")
				want["null"]++
			default:
				fmt.Fprintf(&in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":{"n":%d}}`+"\n", i, method, i)
				want[fmt.Sprint(i)]++
			}
		}
		var out bytes.Buffer
		c := New(Lines(strings.NewReader(in.String()), &out, nil, 0), Options{Handler: echo, MaxRequests: 5})
		if err := c.Serve(context.Background()); err != nil {
			rt.Fatal(err)
		}
		got := map[string]int{}
		for line := range strings.Lines(out.String()) {
			var m struct{ ID, Result, Error json.RawMessage }
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				rt.Fatalf("%q is no JSON: %v", line, err)
			}
			if (m.Error == nil) == (m.Result == nil) {
				rt.Fatalf("%s has not one of result and error", line)
			}
			got[string(m.ID)]++
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			rt.Fatalf("answers by id %v, want %v\n%s", got, want, in.String())
		}
	})
}

// stuck is a stream whose other side reads nothing.
type stuck struct {
	gone chan struct{}
	once sync.Once
}

func (s *stuck) Read() ([]byte, error) { <-s.gone; return nil, io.EOF }
func (s *stuck) Write([]byte) error    { <-s.gone; return io.ErrClosedPipe }
func (s *stuck) Close() error          { s.once.Do(func() { close(s.gone) }); return nil }

func TestWhoDoesNotReadIsDroppedAfterATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(&stuck{gone: make(chan struct{})}, Options{QueueBytes: 1000, QueueTime: 30 * time.Second})
		ended := make(chan error, 1)
		go func() { ended <- c.Serve(t.Context()) }()
		var sent atomic.Int64
		var last error
		began := time.Now()
		for last == nil {
			if last = c.Notify(t.Context(), "n", strings.Repeat("x", 100)); last == nil {
				sent.Add(1)
			}
		}
		if err := <-ended; !errors.Is(err, ErrSlow) || !errors.Is(last, ErrSlow) {
			t.Errorf("Serve: %v; Notify: %v", err, last)
		}
		if d := time.Since(began); d != 30*time.Second {
			t.Errorf("it took %v", d)
		}
		if n := sent.Load(); n == 0 || n > 10 {
			t.Errorf("%d messages of about 140 bytes were taken into a queue of 1000", n)
		}
	})
}

func TestAFullQueueHoldsTheSenderUntilItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(&stuck{gone: make(chan struct{})}, Options{QueueBytes: 10, QueueTime: time.Hour})
		go func() { _ = c.Serve(t.Context()) }()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Notify(ctx, "first", nil); err != nil {
			t.Fatal(err)
		}
		if err := c.Notify(ctx, "second", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		_ = c.Close()
	})
}

func FuzzServe(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"echo","params":{}}`))
	f.Add([]byte(`[1]` + "\n" + `{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":null}}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		var out bytes.Buffer
		if err := New(Lines(bytes.NewReader(in), &out, nil, 1<<16), Options{Handler: echo}).Serve(t.Context()); err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(out.Bytes()) {
			if !json.Valid(line) {
				t.Errorf("%q is no JSON", line)
			}
		}
	})
}

func BenchmarkNotify(b *testing.B) {
	x, y := Pipe()
	got := make(chan struct{}, 1024)
	sink := New(y, Options{Handler: func(context.Context, Incoming) Reply { got <- struct{}{}; return Reply{} }})
	from := New(x, Options{})
	var all sync.WaitGroup
	for _, c := range []*Conn{sink, from} {
		all.Go(func() { _ = c.Serve(context.Background()) })
	}
	params := json.RawMessage(`{"sessionId":"s","text":"some words of an answer"}`)
	b.ReportAllocs()
	for b.Loop() {
		if err := from.Notify(context.Background(), "session/update", params); err != nil {
			b.Fatal(err)
		}
		<-got
	}
	_ = from.Close()
	all.Wait()
}
