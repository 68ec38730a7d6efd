//go:build !(linux || darwin || freebsd)

package cli

import "errors"

func freeSpace(string) (uint64, error) { return 0, errors.ErrUnsupported }
