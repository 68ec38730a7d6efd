package policy

import (
	"context"

	"github.com/dsh-harness/dsh/plugin"
)

// Trust is the key of the service that knows what a folder may bring to execution.
var Trust = plugin.NewKey[Truster]("trust")

// Truster tells what of a folder may be used. It may be used by many goroutines at once.
type Truster interface {
	// Trusted returns the content of the file at path, relative to the folder dir, if the person
	// trusts dir with exactly that content, and nil when there is no such file or it is not trusted.
	// It starts no process and follows no link out of dir.
	Trusted(ctx context.Context, dir, path string) ([]byte, error)
}
