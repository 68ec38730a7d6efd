// Package need is for tests that cannot run without something of the machine: a program,
// a right. What is missing fails in CI, with what to install, and skips the test on a
// developer's own machine. It is for tests only, and used on the test's goroutine.
package need

import (
	"os"
	"os/exec"
	"testing"
)

// Program returns the path of a program; pkg is the package that holds it.
func Program(t testing.TB, name, pkg string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(t, "%s is missing: install the package %s", name, pkg)
	}
	return path
}

// Missing ends the test, as failed where the variable CI is set, otherwise as skipped.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}
