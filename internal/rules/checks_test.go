package rules

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestS24 sees that the strictest checks are on where CI runs them. That they find nothing is
// for CI to show: they take minutes, and need a module of their own.
func TestS24_TheStrictestChecksAreOn(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if !strings.Contains(read(".ci/run"), "make check") {
		t.Error(".ci/run does not call make check")
	}
	makefile := read("Makefile")
	_, check, _ := strings.Cut(makefile, "\ncheck:")
	check, _, _ = strings.Cut(check, "\n")
	for _, target := range []string{"lint", "race", "examples"} {
		if !strings.Contains(check, target) {
			t.Errorf("make check does not call %s", target)
		}
	}
	_, lint, _ := strings.Cut(makefile, "\nlint:")
	lint, _, _ = strings.Cut(lint, "\n\n")
	for _, tool := range []string{
		"gofmt", "go vet ./...", "GOOS=darwin go vet", "GOOS=windows go vet",
		"staticcheck ./...", "exhaustive -check=switch", "unparam", "errcheck",
	} {
		if !strings.Contains(lint, tool) {
			t.Errorf("make lint does not run %s", tool)
		}
	}
	if strings.Contains(lint, "|| true") || strings.Contains(lint, "\n\t-") {
		t.Error("make lint lets a check fail")
	}
	if !strings.Contains(makefile, "go test -race") {
		t.Error("the tests do not run under the race detector")
	}
}
