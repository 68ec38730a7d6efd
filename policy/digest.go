package policy

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"github.com/dsh-harness/dsh/tool"
)

// Digest names what an answer allows, see [Request.Digest]: a call with its tool, arguments,
// folder and roots, the environment that commands are given a part of, and what else
// was decided by, such as the mode and [RuleKeeper.Fingerprint]. Any other byte in one of them, or in
// another of them, is another digest.
func Digest(c *tool.Call, env []string, decidedBy ...string) [32]byte {
	h := sha256.New()
	list(h, c.Name, string(c.Arguments))
	if c.Workspace != nil {
		list(h, c.Workspace.Dir())
		list(h, c.Workspace.Roots()...)
	}
	list(h, env...)
	list(h, decidedBy...)
	return [32]byte(h.Sum(nil))
}

// list hashes texts so that no others hash alike: how many there are, and each behind its length.
func list(h hash.Hash, texts ...string) {
	size := func(n int) {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], uint64(n))
		h.Write(b[:])
	}
	size(len(texts))
	for _, text := range texts {
		size(len(text))
		h.Write([]byte(text))
	}
}
