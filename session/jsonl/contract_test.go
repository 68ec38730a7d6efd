package jsonl

import (
	"testing"
	"time"

	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/session/sessiontest"
)

func TestS21_FilesKeepTheContract(t *testing.T) {
	sessiontest.Contract(t, func(t *testing.T) func() session.Persistence {
		dir := t.TempDir()
		return func() session.Persistence { return newBackend(dir, system{}, time.Now) }
	})
}
