package cli

import "os"

// input reads from a file. A read that waits cannot be ended here: it ends with the other side, or with the process.
type input struct{ f *os.File }

func newInput(f *os.File) (*input, error) { return &input{f}, nil }

func (i *input) Read(p []byte) (int, error) { return i.f.Read(p) }

func (i *input) shut() error { return i.f.Close() }
