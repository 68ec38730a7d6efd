package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	numbered = regexp.MustCompile(`^(\d{4})-[a-z0-9]+(-[a-z0-9]+)*\.md$`)
	titled   = regexp.MustCompile(`^# (\d+)\. (\S.*)$`)
	status   = regexp.MustCompile(`^Status: (.+)$`)
	accepted = regexp.MustCompile(`^accepted, became \[[^\]]+\]\(\.\./adr/([^)]+)\)$`)
)

// number returns the number and the title of a numbered page, and what is wrong with them.
func number(name string, lines []string) (n, title string, faults []string) {
	file := numbered.FindStringSubmatch(name)
	if file == nil {
		return "", "", []string{"its name is not NNNN-some-words.md"}
	}
	m := titled.FindStringSubmatch(lines[0])
	if m == nil {
		return file[1], "", []string{"its first line is not \"# N. Title\""}
	}
	if strings.TrimLeft(file[1], "0") != m[1] {
		faults = append(faults, fmt.Sprintf("its name says %s and its title %s", file[1], m[1]))
	}
	return file[1], m[2], faults
}

// section returns the text below a heading of the second level, "" if there is none.
func section(lines []string, name string) string {
	i := slices.Index(lines, "## "+name)
	if i < 0 {
		return ""
	}
	rest := lines[i+1:]
	if end := slices.IndexFunc(rest, func(l string) bool { return strings.HasPrefix(l, "## ") }); end >= 0 {
		rest = rest[:end]
	}
	return strings.TrimSpace(strings.Join(rest, "\n"))
}

// checkRecord returns what a decision record lacks.
func checkRecord(name string, lines []string) []string {
	_, _, faults := number(name, lines)
	at := -1
	for _, part := range []string{"Context", "Decision", "Consequences"} {
		i := slices.Index(lines, "## "+part)
		switch {
		case section(lines, part) == "":
			faults = append(faults, "it says nothing under \"## "+part+"\"")
		case i < at:
			faults = append(faults, "\"## "+part+"\" is out of order")
		}
		at = i
	}
	return faults
}

// checkProposal returns what a proposal lacks; exists tells whether there is a record of that file name.
func checkProposal(name string, lines []string, exists func(record string) bool) []string {
	_, _, faults := number(name, lines)
	says := ""
	for _, line := range lines {
		if m := status.FindStringSubmatch(line); m != nil {
			says = m[1]
			break
		}
	}
	m := accepted.FindStringSubmatch(says)
	switch {
	case says == "draft" || strings.HasPrefix(says, "withdrawn: ") || strings.HasPrefix(says, "rejected: "):
	case m == nil:
		faults = append(faults, fmt.Sprintf("its status is %q: expected draft, \"withdrawn: why\", \"rejected: why\", or "+
			"\"accepted, became [ADR N](../adr/NNNN-title.md)\"", says))
	case !exists(m[1]):
		faults = append(faults, "it became "+m[1]+", which is not in docs/adr")
	}
	return faults
}

// numberedPages reads the pages of a folder but its README.
func numberedPages(t *testing.T, dir string) []page {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	var all []page
	for _, name := range names { // Glob sorts
		if filepath.Base(name) == "README.md" {
			continue
		}
		p, err := read(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

func TestS26_DecisionsHaveARecordThatIsListed(t *testing.T) {
	index, seen := []string{}, map[string]string{}
	for _, p := range numberedPages(t, "adr") {
		name := filepath.Base(p.name)
		for _, fault := range checkRecord(name, p.lines) {
			t.Errorf("%s: %s", p.name, fault)
		}
		n, title, _ := number(name, p.lines)
		if other, taken := seen[n]; taken {
			t.Errorf("%s and %s have one number", p.name, other)
		}
		seen[n] = p.name
		index = append(index, fmt.Sprintf("- [%s. %s](%s)", strings.TrimLeft(n, "0"), title, name))
	}
	if len(index) == 0 {
		t.Fatal("docs/adr holds no record")
	}
	readme, err := read("adr/README.md")
	if err != nil {
		t.Fatal(err)
	}
	const mark = "## The records"
	head, _, ok := strings.Cut(strings.Join(readme.lines, "\n"), mark)
	if !ok {
		t.Fatalf("%s has no %q", readme.name, mark)
	}
	want := head + mark + "\n\n" + strings.Join(index, "\n") + "\n"
	if got := strings.Join(readme.lines, "\n"); got == want {
		return
	}
	if !*update {
		t.Fatalf("%s does not list the records as they are: run go test ./docs -update", readme.name)
	}
	if err := os.WriteFile("adr/README.md", []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestS26_AcceptedProposalsNameTheirRecord(t *testing.T) {
	for _, p := range numberedPages(t, "rfc") {
		exists := func(record string) bool {
			_, err := os.Stat(filepath.Join("adr", record))
			return err == nil
		}
		for _, fault := range checkProposal(filepath.Base(p.name), p.lines, exists) {
			t.Errorf("%s: %s", p.name, fault)
		}
	}
}

// The checks above pass on a repository in order; this shows that they find what is not.
func TestS26_FaultsAreFound(t *testing.T) {
	record := "# 7. Seven\n\n## Context\n\na\n\n## Decision\n\nb\n\n## Consequences\n\nc\n"
	proposal := func(status string) string { return "# 3. Three\n\nStatus: " + status + "\n" }
	exists := func(record string) bool { return record == "0007-seven.md" }
	tests := []struct {
		name, file, text, want string
		check                  func(name string, lines []string) []string
	}{
		{"a good record", "0007-seven.md", record, "", checkRecord},
		{"no number", "seven.md", record, "NNNN", checkRecord},
		{"another number", "0008-seven.md", record, "0008", checkRecord},
		{"no title", "0007-seven.md", "Seven\n" + record, "first line", checkRecord},
		{"no decision", "0007-seven.md", strings.Replace(record, "## Decision", "", 1), "## Decision", checkRecord},
		{"nothing said", "0007-seven.md", strings.Replace(record, "c\n", "", 1), "## Consequences", checkRecord},
		{"wrong order", "0007-seven.md", "# 7. Seven\n## Decision\nb\n## Context\na\n## Consequences\nc", "out of order", checkRecord},
		{"a draft", "0003-three.md", proposal("draft"), "", nil},
		{"rejected", "0003-three.md", proposal("rejected: too slow"), "", nil},
		{"rejected without a reason", "0003-three.md", proposal("rejected"), "rejected", nil},
		{"accepted", "0003-three.md", proposal("accepted, became [ADR 7](../adr/0007-seven.md)"), "", nil},
		{"accepted without a record", "0003-three.md", proposal("accepted"), "became", nil},
		{"accepted, record gone", "0003-three.md", proposal("accepted, became [ADR 9](../adr/0009-nine.md)"), "0009-nine.md", nil},
		{"no status", "0003-three.md", "# 3. Three\n", "status", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			check := test.check
			if check == nil {
				check = func(name string, lines []string) []string { return checkProposal(name, lines, exists) }
			}
			got := strings.Join(check(test.file, strings.Split(test.text, "\n")), "; ")
			if (test.want == "") != (got == "") || !strings.Contains(got, test.want) {
				t.Errorf("got %q, want it to name %q", got, test.want)
			}
		})
	}
}
