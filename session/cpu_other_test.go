//go:build !unix

package session_test

import "time"

// cpuTime is not known on this system.
func cpuTime() time.Duration { return 0 }
