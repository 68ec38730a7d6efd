package permission

import (
	"strings"
	"testing"
	"time"

	"github.com/dsh-harness/dsh/tool"
)

// TestTrust_P02_ADecisionIsQuick: below 1 ms for an ordinary command, and below 50 ms for any input, as the best of some tries on a machine
// that may be busy. The race detector gets ten times as long.
func TestTrust_P02_ADecisionIsQuick(t *testing.T) {
	w := newWorld(t, Config{Allow: []string{"Bash(git:*)", "Bash(go test:*)", "Bash(true)"}, Deny: []string{"Bash(curl)", "Bash(" + strings.Repeat("a*", 100) + "b)", "Read(.env)"}})
	for name, c := range map[string]struct {
		line  string
		limit time.Duration
		least tool.Decision
	}{
		"ordinary":     {"git add a && go test ./... 2>&1 | tail -5", time.Millisecond, tool.Allow},
		"10,000 parts": {strings.Repeat("true&&", 10_000) + "curl x", 50 * time.Millisecond, tool.Deny},
		"words":        {"git add " + strings.Repeat("aaaaaaa ", 8191), 50 * time.Millisecond, tool.Allow},
		"parts":        {strings.Repeat("true;", 13_000), 50 * time.Millisecond, tool.Ask},
		"one word":     {strings.Repeat("a", 64<<10), 50 * time.Millisecond, tool.Ask},
		"1 MiB":        {strings.Repeat("a", 1<<20), 50 * time.Millisecond, tool.Ask},
		"nested":       {strings.Repeat("$(", 32<<10), 50 * time.Millisecond, tool.Ask},
		"quotes":       {strings.Repeat(`"`, 64<<10), 50 * time.Millisecond, tool.Ask},
	} {
		call := w.call("bash", "command", c.line)
		best := time.Hour
		for range 6 {
			began := time.Now()
			p := w.pending(call)
			best = min(best, time.Since(began))
			if p.Verdict.Decision < c.least {
				t.Fatalf("%s: %s", name, p.Verdict.Decision)
			}
		}
		if best > c.limit*slower {
			t.Errorf("%s: a decision takes %v, want %v at most", name, best, c.limit*slower)
		}
	}
}
