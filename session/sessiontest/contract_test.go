package sessiontest

import (
	"testing"

	"github.com/dsh-harness/dsh/session"
)

func TestS21_MemoryKeepsTheContract(t *testing.T) {
	Contract(t, func(*testing.T) func() session.Persistence {
		m := NewMemory()
		return func() session.Persistence { return m }
	})
}
