package rules

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestS24_TheGateRunsTheStrictChecks: what CI calls runs each check over the whole module, so that a change
// that is not clean is refused. That all is clean now is what the gate itself shows.
func TestS24_TheGateRunsTheStrictChecks(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if !strings.Contains(read(".ci/run"), "\nmake check\n") {
		t.Error(".ci/run does not call make check")
	}
	// The commands of a target, and what it depends on.
	needs, commands := map[string][]string{}, map[string]string{}
	target := ""
	for line := range strings.Lines(read("Makefile")) {
		line = strings.TrimRight(line, "\n")
		switch name, rest, ok := strings.Cut(line, ":"); {
		case strings.HasPrefix(line, "\t"):
			commands[target] += line + "\n"
		case ok && !strings.HasPrefix(rest, "="):
			target = name
			rest, _, _ = strings.Cut(rest, "##")
			needs[target] = strings.Fields(rest)
		}
	}
	var all strings.Builder
	var collect func(target string)
	collect = func(target string) {
		all.WriteString(commands[target])
		for _, n := range needs[target] {
			collect(n)
		}
	}
	collect("check")
	for _, want := range []string{
		"\tgo vet ./...\n", "\tGOOS=darwin go vet ./...\n", "\tGOOS=windows go vet ./...\n", "staticcheck ./...\n",
		"exhaustive ", "unparam ", "errcheck ", "gofmt -l ", "go test -race ",
	} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("the gate does not run %q", strings.TrimSpace(want))
		}
	}
	for line := range strings.Lines(all.String()) {
		if strings.HasPrefix(line, "\t-") || strings.Contains(line, "|| true") {
			t.Errorf("the gate goes on after a failure of %q", strings.TrimSpace(line))
		}
	}
}
