package acceptance

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dsh-harness/dsh/internal/testllm"
)

// TestTrust_F05_WhatIsTemporary: the temporary folder of a session is its owner's alone, has a random name, and is gone with the run. What dsh makes
// in the folder and keeps of large output is new (O_EXCL), so that nothing that was planted is opened; in the state, where it is alone, it is 0600.
func TestTrust_F05_WhatIsTemporary(t *testing.T) {
	p := newPlace(t)
	temp := filepath.Join(p.home, "temp")
	check(t, os.Mkdir(temp, 0o777))
	for _, name := range []string{"dsh", "dsh-", "dsh-temp", "claude", "a.txt.tmp", ".a.txt.tmp"} {
		check(t, os.Symlink(filepath.Join(p.home, "target"), filepath.Join(temp, name)))
		check(t, os.Symlink(filepath.Join(p.home, "target"), filepath.Join(p.work, name)))
	}
	p.file("a.txt", "old\n")
	p.srv.Script(testllm.Calls(
		shell("temp", "echo at $TMPDIR; stat -c 'mode %a' $TMPDIR; echo x > $TMPDIR/x"),
		testllm.Call{ID: "write", Name: "write", Arguments: `{"file_path":"b.txt","content":"x"}`},
		shell("much", "seq 100000"),
	), testllm.Text("done"))
	trace, o := p.traced([]string{"TMPDIR=" + temp}, "run", "hi")
	if o.Stdout != "done\n" {
		t.Fatalf("exit %d: %s", o.Code, o.Stderr)
	}
	got := results(p.requests(2)[1])
	at := regexp.MustCompile(`at (.*/dsh-[A-Z0-9]{20,})\nmode 700`).FindStringSubmatch(got["temp"])
	if at == nil || filepath.Dir(at[1]) != temp {
		t.Fatalf("the temporary folder: %q", got["temp"])
	}
	if _, err := os.Lstat(at[1]); err == nil {
		t.Errorf("%s is left", at[1])
	}
	if _, err := os.Lstat(filepath.Join(p.home, "target")); err == nil {
		t.Error("a planted link was followed")
	}
	made := 0
	for line := range strings.Lines(trace) {
		place := ""
		for _, dir := range []string{p.work + "/", filepath.Join(p.home, "dsh", "state", "sessions")} {
			if strings.Contains(line, " = ") && strings.Contains(line[strings.LastIndex(line, " = "):], "<"+dir) {
				place = dir
			}
		}
		if place == "" || !strings.Contains(line, "O_CREAT") || regexp.MustCompile(`/(lock|log\.jsonl\.new)"`).MatchString(line) {
			continue
		}
		made++
		if !strings.Contains(line, "O_EXCL") || place == p.work+"/" && !strings.Contains(line, "O_NOFOLLOW") || place != p.work+"/" && !strings.Contains(line, ", 0600)") {
			t.Errorf("not new, or not its owner's: %s", line)
		}
	}
	if made < 2 {
		t.Errorf("the trace shows %d files that were made", made)
	}
}
