package jsonl

import (
	"strings"
	"testing"
)

// TestTrust_L01_L02_L03_TwelvePlacesEach is the matrix with real system calls, in full: it needs DSH_TEST_FULL=1.
func TestTrust_L01_L02_L03_TwelvePlacesEach(t *testing.T) {
	if !full() {
		t.Skip("84 runs under strace; DSH_TEST_FULL=1 makes them")
	}
	const turns = 6
	for _, fault := range []struct{ call, inject string }{
		{"write", "error=ENOSPC"}, {"write", "error=EIO"}, {"write", "error=EDQUOT"}, {"write", "error=EINTR"},
		{"fdatasync", "error=EIO"}, {"write", "signal=KILL"}, {"fdatasync", "signal=KILL"},
	} {
		places := 0
		for k := 1; k <= 12; k++ {
			dir := t.TempDir()
			out, injected := strace(t, dir, fault.call, fault.inject, k, turns)
			if injected {
				places++
			}
			if fault.call == "fdatasync" && fault.inject == "error=EIO" && injected && !strings.Contains(out, "failed") {
				t.Errorf("the writer did not notice that fdatasync %d failed: %s", k, out)
			}
			checkChildLog(t, dir, durable(out), turns)
		}
		t.Logf("%s %s: %d places", fault.call, fault.inject, places)
		if places < 12 {
			t.Errorf("%s %s struck at %d places, want 12", fault.call, fault.inject, places)
		}
	}
}
