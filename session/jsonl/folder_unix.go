//go:build unix

package jsonl

import (
	"errors"
	"os"
)

// syncFolder makes what was created, renamed or removed in a folder durable.
func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
