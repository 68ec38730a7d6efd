package escape

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dsh-harness/dsh/internal/need"
	"github.com/dsh-harness/dsh/workspace"
)

var update = flag.Bool("update", false, "write the table anew; read it before you commit it")

// column is how the tries are run.
type column struct {
	level workspace.SandboxLevel
	uid   int
}

func (c column) String() string {
	who := "user"
	if c.uid == 0 {
		who = "root"
	}
	return fmt.Sprintf("%s/%s", c.level, who)
}

// TestTrust_S01_S02_N03_TheEscapeList makes every try in every sandbox, as an ordinary user and as root, and once without a sandbox
// as an ordinary user, to see that the tries are attacks. It compares what succeeded with the table that we accept: what succeeds more, or is tried no more, fails. And it asks the bait who came: nobody.
func TestTrust_S01_S02_N03_TheEscapeList(t *testing.T) {
	if os.Getuid() != 0 {
		need.Missing(t, "the escape list needs root to make its jail")
	}
	columns := []column{{workspace.SandboxNone, 60001}, {workspace.SandboxFull, 60001}, {workspace.SandboxFull, 0}, {workspace.SandboxPartial, 60001}, {workspace.SandboxPartial, 0}}
	var all []results
	for _, c := range columns {
		r, ok := inJail(t, c.level, c.uid)
		if !ok {
			need.Missing(t, "namespaces for a jail are refused here")
		}
		all = append(all, r)
		if c.level == workspace.SandboxPartial { // it cannot hide sockets of the file system, as the table says
			r.hits = slices.DeleteFunc(r.hits, func(hit string) bool { return strings.HasPrefix(hit, "unix /") })
		}
		if came := len(r.hits) > 0; came != (c.level == workspace.SandboxNone) { // without a sandbox somebody must, or the bait hears nothing
			t.Errorf("%s: who came to the bait: %q", c, r.hits)
		}
	}
	var table strings.Builder
	fmt.Fprintf(&table, "%-44s", "A: it succeeded   .: it did not")
	for _, c := range columns {
		fmt.Fprintf(&table, " %-13s", c)
	}
	table.WriteString("\n")
	for _, name := range all[1].order {
		fmt.Fprintf(&table, "%-44s", name)
		for _, r := range all {
			mark := map[string]string{"ALLOWED": "A", "DENIED": ".", "": "?"}[r.verdicts[name]]
			fmt.Fprintf(&table, " %-13s", mark)
		}
		table.WriteString("\n")
	}
	text := strings.ReplaceAll(table.String(), " \n", "\n")
	for strings.Contains(text, " \n") {
		text = strings.ReplaceAll(text, " \n", "\n")
	}
	t.Logf("%d tries\n%s", len(all[1].order), text)
	if len(all[1].order) < 120 {
		t.Errorf("only %d tries", len(all[1].order))
	}
	if *update {
		if err := os.WriteFile("testdata/table.txt", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/table.txt")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), text); d != "" {
		t.Errorf("the table changed:\n%s", d)
		for i, r := range all {
			for _, name := range r.order {
				if strings.HasPrefix(name, "ok: ") && r.verdicts[name] == "DENIED" {
					t.Logf("%s: %s: %s", columns[i], name, r.details[name])
				}
			}
		}
	}
}

// The full sandbox lets nothing through but what works by design.
func TestTheTableOfTheFullSandbox(t *testing.T) {
	text, err := os.ReadFile("testdata/table.txt")
	if err != nil {
		t.Fatal(err)
	}
	accepted := map[string]bool{
		"write through a hard link that was there": true, // the kernel knows files, not names
		"the proxy": true, "the proxy to an allowed host": true,
		"a netlink socket": true, // of the sandbox's own network
		"poison a cache":   true, // it is a layer: the last line says whether it came out
	}
	real := 0 // attacks that succeed without a sandbox
	for line := range strings.Lines(string(text)) {
		name, marks := strings.TrimSpace(line[:min(44, len(line))]), strings.Fields(line[min(44, len(line)):])
		if strings.HasPrefix(name, "A: ") || len(marks) == 0 {
			continue
		}
		if len(marks) < 5 {
			t.Fatalf("%s has %d marks", name, len(marks))
		}
		if marks[0] == "A" && !strings.HasPrefix(name, "ok: ") {
			real++
		}
		for i, mark := range marks[1:3] {
			works := strings.HasPrefix(name, "ok: ") || accepted[name] ||
				name == "a bomb of 1000 processes" && i == 1 // limits of a user do not bind root, and the jail has no control groups
			if works != (mark == "A") {
				t.Errorf("%s is %q in column %d", name, mark, i+2)
			}
		}
	}
	if real < 60 {
		t.Errorf("only %d tries succeed without a sandbox: are they attacks?", real)
	}
}
