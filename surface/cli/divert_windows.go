package cli

import "os"

// divert returns f itself: programs that are started get streams of their own here.
func divert(f, _ *os.File) (*os.File, error) { return f, nil }
