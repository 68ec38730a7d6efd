package cli

import (
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// readable waits until f has a byte or an end to read. Windows cannot wait for an anonymous pipe, so it looks again and again.
func readable(f *os.File, wait time.Duration) bool {
	peek := windows.NewLazySystemDLL("kernel32.dll").NewProc("PeekNamedPipe")
	timeout, tick := time.After(wait), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for {
		var available uint32
		ok, _, _ := peek.Call(f.Fd(), 0, 0, 0, uintptr(unsafe.Pointer(&available)), 0)
		if ok == 0 || available > 0 { // a pipe whose writer is gone cannot be peeked into
			return true
		}
		select {
		case <-tick.C:
		case <-timeout:
			return false
		}
	}
}
