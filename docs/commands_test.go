package docs

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	// The binary is built from these: what the go command remembers of these tests is not good any more when they change.
	_ "github.com/dsh-harness/dsh/std"
	_ "github.com/dsh-harness/dsh/surface/cli"
)

// build returns a folder that holds the binary.
func build(t *testing.T) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the pages show commands of a POSIX shell")
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", dir, "../cmd/dsh")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as vet and the Makefile build, so that the cache is shared
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build ../cmd/dsh: %v\n%s", err, out)
	}
	return dir
}

// shell runs commands as a newcomer would: with an empty home, and no variable but those of every login.
type shell struct{ bin, home, dir string }

// run returns what a command printed on both streams.
func (s shell) run(t *testing.T, command string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=" + s.bin + string(filepath.ListSeparator) + os.Getenv("PATH"), "HOME=" + s.home, "LC_ALL=C"}
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if cause := context.Cause(ctx); cause != nil {
		t.Fatalf("%s: %v", command, cause)
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", command, err) // what the command itself says with its exit code is part of the page
	}
	return string(out)
}

// TestPagesShowWhatHappens takes each page below docs through what it shows, in an empty folder: a block with a file name
// after its language is written to that file, and each line "$ command" of a console block is run. What follows it must be what the
// command printed, where … stands for any text within a line, and a line of its own for any lines.
func TestPagesShowWhatHappens(t *testing.T) {
	bin, shown := build(t), 0
	for _, p := range pages(t) {
		blocks, _ := p.fences()
		if !strings.HasPrefix(p.name, "docs/") {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			s := shell{bin, t.TempDir(), t.TempDir()}
			for _, b := range blocks {
				lang, file, named := strings.Cut(b.info, " ")
				switch {
				case named:
					write(t, filepath.Join(s.dir, filepath.FromSlash(file)), strings.Join(b.text, "\n")+"\n")
				case lang == "console":
					for _, step := range b.steps() {
						shown++
						got := s.run(t, step.command)
						if want := strings.Join(step.want, "\n"); !matches(want, got) {
							t.Fatalf("%s:%d: %s\nprints\n%s\nand not\n%s", p.name, step.line, step.command, got, want)
						}
					}
				}
			}
		})
	}
	if shown == 0 {
		t.Error("no page shows a command: is a block called something else than console?")
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// step is one command of a console block, and what it must print.
type step struct {
	line    int
	command string
	want    []string
}

func (b fence) steps() (steps []step) {
	for i, line := range b.text {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			steps = append(steps, step{line: b.line + i, command: command})
		} else if len(steps) > 0 {
			last := &steps[len(steps)-1]
			last.want = append(last.want, line)
		}
	}
	return steps
}

// matches tells whether got is what want describes.
func matches(want, got string) bool {
	var pattern strings.Builder
	for line := range strings.Lines(strings.TrimRight(want, "\n") + "\n") {
		line = strings.TrimRight(line, " \n")
		if line == "…" {
			pattern.WriteString(`(?:.*\n)*?`)
			continue
		}
		parts := strings.Split(line, "…")
		for i, part := range parts {
			parts[i] = regexp.QuoteMeta(part)
		}
		pattern.WriteString(strings.Join(parts, ".*") + ` *\n`)
	}
	return regexp.MustCompile(`^` + pattern.String() + `$`).MatchString(strings.TrimRight(got, "\n") + "\n")
}

func TestMatches(t *testing.T) {
	tests := []struct {
		want, got string
		matches   bool
	}{
		{"", "", true},
		{"a\nb", "a\nb\n", true},
		{"a", "a\nb\n", false},
		{"a.c", "abc", false},
		{"a … c", "a b c", true},
		{"a … c", "a b\nc", false},
		{"a\n…\nd", "a\nb\nc\nd", true},
		{"a\n…\nd", "a\nd", true},
		{"…", "a\nb", true},
		{"a\n…", "b\na", false},
	}
	for _, test := range tests {
		if got := matches(test.want, test.got); got != test.matches {
			t.Errorf("matches(%q, %q) = %v", test.want, test.got, got)
		}
	}
}
