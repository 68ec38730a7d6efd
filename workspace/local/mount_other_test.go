//go:build unix && !linux

package local_test

import "testing"

func mountIn(t *testing.T, _ string) { t.Skip("only Linux lists mounts") }
