package sse

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

type event struct{ Name, Data string }

func read(src io.Reader) (events []event, err error) {
	r := NewReader(src)
	for {
		e, err := r.Next()
		if err != nil {
			return events, err
		}
		events = append(events, event{string(e.Name), string(e.Data)})
	}
}

func TestEvents(t *testing.T) {
	for name, tc := range map[string]struct {
		in   string
		want []event
	}{
		"nothing":                       {"", nil},
		"one":                           {"data: a\n\n", []event{{"", "a"}}},
		"no space, one of two spaces":   {"data:a\n\ndata:  b\n\n", []event{{"", "a"}, {"", " b"}}},
		"a name, for one event only":    {"event: x\ndata: a\n\ndata: b\n\n", []event{{"x", "a"}, {"", "b"}}},
		"the last name":                 {"event: x\nevent: y\ndata: a\n\n", []event{{"y", "a"}}},
		"several data lines":            {"data: a\ndata:\ndata: b\n\n", []event{{"", "a\n\nb"}}},
		"two empty data lines":          {"data:\ndata\n\n", []event{{"", "\n"}}},
		"a first empty data line":       {"data\ndata: b\n\n", []event{{"", "\nb"}}},
		"empty data":                    {"data:\n\ndata\n\ndata: \n\n", nil},
		"a name without data":           {"event: x\n\ndata: a\n\n", []event{{"", "a"}}},
		"comments":                      {": ping\n\n:\ndata: a\n: in between\ndata: b\n\n", []event{{"", "a\nb"}}},
		"other fields":                  {"id: 7\nretry: 3000\nretry: x\nfoo: bar\ndatum: x\ndata x\ndata: a\n\n", []event{{"", "a"}}},
		"a colon in the data":           {"data: a: b:\n\n", []event{{"", "a: b:"}}},
		"CRLF":                          {"data: a\r\n\r\ndata: b\r\n\r\n", []event{{"", "a"}, {"", "b"}}},
		"CR":                            {"data: a\r\rdata: b\rdata: c\r\r", []event{{"", "a"}, {"", "b\nc"}}},
		"mixed ends":                    {"data: a\r\ndata: b\n\rdata: c\r\n\n", []event{{"", "a\nb"}, {"", "c"}}},
		"many blank lines":              {"\n\n\r\n\rdata: a\n\n\n\n", []event{{"", "a"}}},
		"a byte order mark":             {"\xef\xbb\xbfdata: a\n\n", []event{{"", "a"}}},
		"a byte order mark elsewhere":   {"data: a\n\n\xef\xbb\xbfdata: b\n\n", []event{{"", "a"}}},
		"half a byte order mark":        {"\xef\xbbdata: a\n\ndata: b\n\n", []event{{"", "b"}}},
		"an event without its end":      {"data: a\n\ndata: b\n", []event{{"", "a"}}},
		"a line without its end":        {"data: a\n\ndata: b", []event{{"", "a"}}},
		"only a byte order mark":        {"\xef\xbb\xbf", nil},
		"bytes that are not UTF-8":      {"data: \xff\x00\n\n", []event{{"", "\xff\x00"}}},
		"longer than the first buffer":  {"data: " + strings.Repeat("x", 3*firstBuffer) + "\n\n", []event{{"", strings.Repeat("x", 3*firstBuffer)}}},
		"more lines than one buffer":    {strings.Repeat("data: x\n", firstBuffer) + "\n", []event{{"", strings.TrimSuffix(strings.Repeat("x\n", firstBuffer), "\n")}}},
		"more events than one buffer":   {strings.Repeat("data: x\n\n", firstBuffer), slices.Repeat([]event{{"", "x"}}, firstBuffer)},
		"more comments than one buffer": {strings.Repeat(": x\r\n", firstBuffer) + "data: a\r\n\r\n", []event{{"", "a"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := read(strings.NewReader(tc.in))
			if d := cmp.Diff(tc.want, got); d != "" || err != io.EOF {
				t.Errorf("error %v, events %s", err, d)
			}
		})
	}
}

// cut reads data in two pieces that end at i, the second of which ends with err.
func cut(data []byte, i int, err error) io.Reader {
	return io.MultiReader(bytes.NewReader(data[:i]), bytes.NewReader(data[i:]), iotest.ErrReader(err))
}

// checkChunking reads data whole, byte by byte, and cut in two at every byte (or
// at about 2,000 of them, if it is long).
func checkChunking(t *testing.T, data []byte) {
	t.Helper()
	broken := errors.New("broken")
	want, err := read(cut(data, len(data), broken))
	if err != broken {
		t.Fatal(err)
	}
	check := func(how string, src io.Reader) {
		t.Helper()
		if got, err := read(src); err != broken || !slices.Equal(want, got) {
			t.Fatalf("%s: error %v, events %s", how, err, cmp.Diff(want, got))
		}
	}
	check("byte by byte", iotest.OneByteReader(cut(data, 0, broken)))
	check("error with the last bytes", iotest.DataErrReader(cut(data, 0, broken)))
	for i := 0; i < len(data); i += 1 + len(data)/2000 {
		check("cut", cut(data, i, broken))
	}
}

// TestTrust_A04_AnyChunkingGivesTheSameEvents reads every recording in testdata.
func TestTrust_A04_AnyChunkingGivesTheSameEvents(t *testing.T) {
	files, err := filepath.Glob("testdata/*.sse")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.Base(f), func(t *testing.T) { checkChunking(t, data) })
	}
}

func FuzzChunking(f *testing.F) {
	for _, s := range []string{
		"\xef\xbb\xbfdata: a\r\n\r\n: c\r\rdata\ndata:b\n\n", "event: x\rid: 1\r\ndata:\n\n", "data: a\n\r\n\r", "\xef\xbb", "data: {\"a\":\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(checkChunking)
}

func TestTooLarge(t *testing.T) {
	for name, in := range map[string]string{
		"one line":   "data: " + strings.Repeat("x", 100) + "\n\n",
		"many lines": strings.Repeat("data: xxxxxxxx\n", 20) + "\n",
		"a comment":  ":" + strings.Repeat("x", 100),
		"no end":     strings.Repeat("x", 1000),
	} {
		r := NewReader(iotest.OneByteReader(strings.NewReader("data: ok\n\n" + in)))
		r.max = 64
		if e, err := r.Next(); err != nil || string(e.Data) != "ok" {
			t.Fatalf("%s: %q %v", name, e.Data, err)
		}
		for range 2 {
			if _, err := r.Next(); !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	// Nothing beyond the limit is kept while it comes.
	r := NewReader(io.LimitReader(zeros{}, 50<<20))
	if _, err := r.Next(); !errors.Is(err, ErrTooLarge) || len(r.buf) > 2*MaxEvent {
		t.Errorf("%v with a buffer of %d", err, len(r.buf))
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

type silent struct{}

func (silent) Read([]byte) (int, error) { return 0, nil }

func TestSourceThatBringsNothing(t *testing.T) {
	if _, err := NewReader(silent{}).Next(); err != io.ErrNoProgress {
		t.Error(err)
	}
}

func stream(n int) []byte {
	return bytes.Repeat([]byte(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1764540000,"model":"m","choices":[{"index":0,"delta":{"content":"tok "},"finish_reason":null}]}`+"\n\n"), n)
}

func TestNothingIsAllocatedForAnEvent(t *testing.T) {
	r := NewReader(bytes.NewReader(stream(3000)))
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(2000, func() {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for an event", n)
	}
}

func BenchmarkNext(b *testing.B) {
	const n = 20000
	data := stream(n)
	b.SetBytes(int64(len(data) / n))
	b.ReportAllocs()
	for b.Loop() {
		r := NewReader(bytes.NewReader(data))
		for range n {
			if _, err := r.Next(); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/event")
}
