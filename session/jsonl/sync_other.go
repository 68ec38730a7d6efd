//go:build !linux

package jsonl

import "os"

// syncData makes a file's content durable.
func syncData(f *os.File) error { return f.Sync() }
