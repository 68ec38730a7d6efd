//go:build amd64 || arm64

package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What is beside the holes is all that there is but the holes.
func TestBeside(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"a/b/secret/deep", "a/c", "d"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(base, "a", "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	var below []string
	for _, p := range beside([]string{filepath.Join(base, "a/b/secret"), filepath.Join(base, "a/b/secret/deep"), filepath.Join(base, "missing")}) {
		if rest, ok := strings.CutPrefix(p, base+"/"); ok {
			below = append(below, rest)
		} else if strings.HasPrefix(base, p+"/") || p == "/" {
			t.Errorf("%s is open, and so is all below it", p)
		}
	}
	slices.Sort(below)
	if want := []string{"a/c", "a/file", "d"}; !slices.Equal(below, want) {
		t.Errorf("open are %v, want %v", below, want)
	}
	if got := beside(nil); !slices.Equal(got, []string{"/"}) {
		t.Errorf("without a hole %v is open", got)
	}
}

func TestAbove(t *testing.T) {
	v := view{spec: Spec{Write: []string{"/p", "/p/a/sub"}}}
	for path, want := range map[string][]string{
		"/p/.git":            nil,
		"/p/x/y/hooks":       {"/p/x", "/p/x/y"},
		"/p/a/sub/.git/conf": {"/p/a", "/p/a/sub/.git"},
		"/elsewhere/x":       nil,
	} {
		if got := v.above(path); !slices.Equal(got, want) {
			t.Errorf("above %s: %v, want %v", path, got, want)
		}
	}
}

func TestThreadsAreCounted(t *testing.T) {
	if n := threads(); n < 2 || n > 1_000_000 {
		t.Errorf("this user has %d threads", n)
	}
}
