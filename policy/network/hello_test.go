package network

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
)

// hello returns the first message of Go's own TLS, in one record.
func hello(t testing.TB, name string) []byte {
	client, server := net.Pipe()
	defer func() { _ = server.Close() }()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = tls.Client(client, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake() //nolint:gosec // there is no other end
		_ = client.Close()
	}()
	defer func() { _ = server.Close(); <-done }()
	var head [5]byte
	if _, err := io.ReadFull(server, head[:]); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, binary.BigEndian.Uint16(head[3:]))
	if _, err := io.ReadFull(server, body); err != nil {
		t.Fatal(err)
	}
	return append(head[:], body...)
}

// records cuts the message in a record into records of n bytes.
func records(record []byte, n int) []byte {
	var all []byte
	for rest := record[5:]; len(rest) > 0; {
		part := rest[:min(n, len(rest))]
		rest = rest[len(part):]
		all = append(append(all, 22, 3, 1, byte(len(part)>>8), byte(len(part))), part...)
	}
	return all
}

func TestNameOfHello(t *testing.T) {
	for _, name := range []string{"a.test", strings.Repeat("a", 60) + ".test", ""} {
		whole := hello(t, name)
		for _, n := range []int{1 << 14, 700, 100, 5, 1} {
			cut := records(whole, n)
			read, got, err := readHello(io.MultiReader(bytes.NewReader(cut), strings.NewReader("")))
			if err != nil || got != name || !bytes.Equal(read.Bytes(), cut) {
				t.Errorf("%q in records of %d bytes: %q, %v; all is passed on: %v", name, n, got, err, bytes.Equal(read.Bytes(), cut))
			}
		}
		for n := range len(whole) {
			if _, _, err := readHello(bytes.NewReader(whole[:n])); err == nil {
				t.Fatalf("%d of %d bytes are enough", n, len(whole))
			}
		}
	}
	two := hello(t, "a.test")
	more := append(append([]byte{}, two...), 0)
	binary.BigEndian.PutUint16(more[3:], uint16(len(more)-5))
	if _, _, err := readHello(bytes.NewReader(more)); err == nil {
		t.Error("something may follow in the same record")
	}
	// A message of which no end comes is not waited for without bound.
	endless := &counting{r: endlessRecords{}}
	if _, _, err := readHello(endless); !errors.Is(err, errHello) || endless.n > 3*maxHello {
		t.Errorf("%v after %d bytes", err, endless.n)
	}
	ext := func(list ...[]byte) []byte {
		all := bytes.Join(list, nil)
		body := append(make([]byte, 34), 0, 0, 2, 0x13, 1, 1, 0)
		return append(binary.BigEndian.AppendUint16(body, uint16(len(all))), all...)
	}
	sni := func(name string) []byte {
		n := byte(len(name))
		return append([]byte{0, 0, 0, n + 5, 0, n + 3, 0, 0, n}, name...)
	}
	if name, err := helloName(ext([]byte{0, 43, 0, 1, 9}, sni("a.test"))); name != "a.test" || err != nil {
		t.Error(name, err)
	}
	if name, err := helloName(ext()); name != "" || err != nil {
		t.Error(name, err)
	}
	for what, body := range map[string][]byte{
		"two names": ext(sni("a.test"), sni("b.test")), "no name": ext(sni("")), "two in one": ext([]byte{0, 0, 0, 10, 0, 8, 0, 0, 1, 'a', 0, 0, 1, 'b'}),
		"another kind": ext([]byte{0, 0, 0, 6, 0, 4, 1, 0, 1, 'a'}), "cut": ext(sni("a.test"))[:50], "more": append(ext(sni("a.test")), 0), "empty": {},
	} {
		if name, err := helloName(body); err == nil {
			t.Errorf("%s: %q", what, name)
		}
	}
}

type counting struct {
	r io.Reader
	n int
}

func (c *counting) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += n
	return n, err
}

// endlessRecords are records of one byte each, of a message that says it is long.
type endlessRecords struct{}

func (endlessRecords) Read(b []byte) (int, error) {
	if len(b) == 5 {
		return copy(b, []byte{22, 3, 1, 0, 1}), nil
	}
	return copy(b, []byte{1}), nil
}

func FuzzHello(f *testing.F) {
	f.Add(hello(f, "a.test"))
	f.Add(hello(f, ""))
	f.Add(records(hello(f, "b.test"), 9))
	f.Add([]byte{22, 3, 1, 0, 4, 1, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		read, name, err := readHello(bytes.NewReader(b))
		if !bytes.HasPrefix(b, read.Bytes()) {
			t.Fatal("what was read is not what was sent")
		}
		if err == nil && name != "" && !bytes.Contains(b, []byte(name)) && len(name) < 2 {
			t.Fatalf("%q is made up", name)
		}
		if again, same, err2 := readHello(bytes.NewReader(read.Bytes())); err == nil && (err2 != nil || same != name || again.Len() != read.Len()) {
			t.Fatal("it is read in two ways")
		}
	})
}
