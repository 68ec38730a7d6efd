package permission

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dsh-harness/dsh/tool"
)

// The laws are about rules and lines over few words, so that they meet.
func drawRule(t *rapid.T, effect tool.Decision) *rule {
	command := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "-x", "c"}), 1, 3).Draw(t, "words"), " ")
	text := "Bash(" + command + rapid.SampledFrom([]string{"", ":*", " *"}).Draw(t, "wildcard") + ")"
	if rapid.IntRange(0, 15).Draw(t, "bare") == 0 {
		text = "Bash"
	}
	r, err := parseRule(text, effect)
	if err != nil {
		t.Fatal(err)
	}
	if effect == tool.Allow && rapid.Bool().Draw(t, "bound") {
		r.dir = rapid.SampledFrom([]string{"/work", "/elsewhere"}).Draw(t, "dir")
	}
	return r
}

func drawRules(t *rapid.T) ruleset {
	var set ruleset
	for range rapid.IntRange(0, 6).Draw(t, "rules") {
		set.add(drawRule(t, rapid.SampledFrom([]tool.Decision{tool.Allow, tool.Allow, tool.Ask, tool.Deny}).Draw(t, "effect")))
	}
	return set
}

func drawCommand(t *rapid.T) string {
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "-x", "c", "/bin/a", "'b'", "cat", "$X", "*"}), 1, 4).Draw(t, "command"), " ")
}

// line is a subject that runs a line in /work.
func lineIn(text string) *subject {
	s := newSubject(&tool.Call{Name: "bash"}, []tool.Access{{Kind: tool.AccessExecute, Target: text}}, "/home/me")
	s.around.dir, s.workdir = "/work", "/work"
	return s
}

// strictness orders what rules may say: permitted, nothing, ask, deny.
func strictness(f finding) int {
	switch {
	case f.decision == tool.Allow && f.by != "":
		return 0
	case f.decision == tool.Allow:
		return 1
	case f.decision == tool.Ask:
		return 2
	}
	return 3
}

// A rule that denies or asks never makes a decision laxer, one that allows never lifts those.
func TestLawOfMoreRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := drawRules(t)
		s := lineIn(drawCommand(t) + rapid.SampledFrom([]string{"", " && ", "; ", " | "}).Draw(t, "operator") + drawCommand(t))
		before := strictness(s.judge(set))
		effect := rapid.SampledFrom([]tool.Decision{tool.Deny, tool.Ask, tool.Allow}).Draw(t, "more")
		set.add(drawRule(t, effect))
		after := strictness(s.judge(set))
		if effect != tool.Allow && after < before || effect == tool.Allow && before >= 2 && after != before {
			t.Fatalf("%d becomes %d with one more rule that %ss", before, after, effect)
		}
	})
}

// A chain is denied or asked about when a part is, and permitted when each part is permitted or
// proven to only read.
func TestLawOfChains(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := drawRules(t)
		parts := []string{drawCommand(t), drawCommand(t), drawCommand(t)}
		operator := rapid.SampledFrom([]string{" && ", " || ", "; ", " | ", "\n"}).Draw(t, "operator")
		chain := lineIn(strings.Join(parts, operator))
		strictest, permitted, reads := 0, 0, 0
		for _, part := range parts {
			s := lineIn(part)
			found := strictness(s.judge(set))
			if proven, _ := s.touches[0].line.ReadOnly(); proven && found == 1 {
				reads++
				found = 0
			} else if found == 0 {
				permitted++
			}
			strictest = max(strictest, found)
		}
		if strictest == 0 && permitted == 0 {
			strictest = 1 // nothing needs a rule, so none permits
		}
		// One word that is not known in the folder's place unbinds the rules of the whole line.
		got := strictness(chain.judge(set))
		unbound := chain.wanders && strictest == 0 && got == 1
		// What is not understood is searched as a text, which finds more.
		unclear := chain.touches[0].line.Unclear != "" && got > strictest
		if got != strictest && !unbound && !unclear {
			t.Fatalf("the parts of %q make %d (%d permitted, %d read), the chain %d", parts, strictest, permitted, reads, got)
		}
	})
}

func BenchmarkDecision(b *testing.B) {
	var rules []string
	for i := range 50 {
		rules = append(rules, fmt.Sprintf("Bash(tool%d run:*)", i))
	}
	w := newWorld(b, Config{Allow: append(rules, "Bash(git:*)", "Bash(go test:*)", "Bash(true)"), Deny: []string{"Bash(curl)", "Bash(git push)", "Read(.env)"}})
	for name, line := range map[string]string{
		"ordinary":          "git add a && go test ./... 2>&1 | tail -5",
		"denied/10000parts": strings.Repeat("true&&", 10_000) + "curl x",
		"64KiB/words":       "git add " + strings.Repeat("aaaaaaa ", 8191),
		"64KiB/parts":       strings.Repeat("true;", 13_000),
		"64KiB/a":           strings.Repeat("a", 64<<10),
		"64KiB/nested":      strings.Repeat("$(", 32<<10),
		"64KiB/quotes":      strings.Repeat(`"`, 64<<10),
		"1MiB/a":            strings.Repeat("a", 1<<20),
	} {
		c := w.call("bash", "command", line)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				w.pending(c)
			}
		})
	}
}

// A pattern costs no more than the product of the lengths.
func BenchmarkHostilePatterns(b *testing.B) {
	w := newWorld(b, Config{Deny: []string{"Bash(" + strings.Repeat("a*", 100) + "b)", "Read(" + strings.Repeat("**/a*", 6) + "/b)"}})
	c := w.call("bash", "command", strings.Repeat("a", 60<<10))
	r := w.call("read", "file_path", strings.Repeat("a/", 1500))
	b.Run("word", func(b *testing.B) {
		for b.Loop() {
			w.pending(c)
		}
	})
	b.Run("path", func(b *testing.B) {
		for b.Loop() {
			w.pending(r)
		}
	})
}
