package wirehttp

import (
	"bytes"
	"io"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// TestBodyReadsAsItsPieces: however a body is read, it is its pieces one behind the other,
// and they are unchanged.
func TestBodyReadsAsItsPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var body Body
		for range rapid.IntRange(0, 6).Draw(t, "pieces") {
			size := rapid.SampledFrom([]int{0, 1, 7, small / 2, small}).Draw(t, "size")
			body = append(body, bytes.Repeat([]byte{byte('a' + len(body))}, size))
		}
		want := bytes.Join(body, nil)
		if body.len() != int64(len(want)) {
			t.Fatalf("the length is %d, want %d", body.len(), len(want))
		}
		for name, read := range map[string]func(io.Reader) ([]byte, error){
			"read":     func(r io.Reader) ([]byte, error) { return io.ReadAll(struct{ io.Reader }{r}) },
			"by byte":  func(r io.Reader) ([]byte, error) { return io.ReadAll(iotest.OneByteReader(r)) },
			"write to": func(r io.Reader) ([]byte, error) { var b bytes.Buffer; _, err := io.Copy(&b, r); return b.Bytes(), err },
		} {
			got, err := read(body.reader())
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%s: %d bytes, want %d (%v)", name, len(got), len(want), err)
			}
		}
	})
}
