package local_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/dsh-harness/dsh/workspace"
)

// program is an executable of 64-bit x86 that holds only the given instructions.
func program(code []byte) []byte {
	const base, header = 0x400000, 64 + 56
	size := uint64(header + len(code))
	var b bytes.Buffer
	b.WriteString("\x7fELF\x02\x01\x01" + string(make([]byte, 9)))
	for _, v := range []any{
		uint16(2), uint16(62), uint32(1), uint64(base + header), uint64(64), uint64(0), uint32(0), uint16(64), uint16(56), uint16(1), uint16(0), uint16(0), uint16(0),
		uint32(1), uint32(5), uint64(0), uint64(base), uint64(base), size, size, uint64(0x1000),
	} {
		_ = binary.Write(&b, binary.LittleEndian, v) // a buffer takes all
	}
	b.Write(code)
	return b.Bytes()
}

func TestTrust_S07_OtherArchitecturesAreKilled(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the programs are for amd64; what other processors' filters decide is tested in the package sandbox")
	}
	w, dir := confined(t, nil)
	for _, c := range []struct {
		name, signal string
		code         int
		instructions []byte
	}{
		{"exit", "", 7, []byte{0xb8, 60, 0, 0, 0, 0xbf, 7, 0, 0, 0, 0x0f, 0x05}},
		{"exit of x32", "SIGSYS", -1, []byte{0xb8, 60, 0, 0, 0x40, 0xbf, 7, 0, 0, 0, 0x0f, 0x05}},
		{"exit of 32 bits", "SIGSYS", -1, []byte{0xb8, 1, 0, 0, 0, 0xbb, 7, 0, 0, 0, 0xcd, 0x80}},
	} {
		path := filepath.Join(dir, "program")
		must(t, os.RemoveAll(path))
		must(t, os.WriteFile(path, program(c.instructions), 0o755))
		result, err := w.Exec().Run(t.Context(), workspace.Command{Args: []string{path}})
		if err != nil || result.Signal != c.signal || result.Code != c.code {
			t.Errorf("%s: %+v, %v", c.name, result, err)
		}
	}
}
