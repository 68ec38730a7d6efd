package cli_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dsh-harness/dsh/internal/testllm"
	"github.com/dsh-harness/dsh/session"
)

// listed reads "dsh sessions list --json".
func (b *box) listed(args ...string) (ids []string) {
	b.t.Helper()
	out := b.run(append([]string{"sessions", "list", "--json"}, args...)...)
	var all []struct{ ID string }
	if err := json.Unmarshal([]byte(out.stdout), &all); err != nil || out.code != 0 {
		b.t.Fatalf("%v: %+v", err, out)
	}
	for _, s := range all {
		ids = append(ids, s.ID)
	}
	return ids
}

// prompts are the user messages of the last request.
func (b *box) prompts() (texts []string) {
	b.t.Helper()
	requests := b.llm.Requests()
	for _, m := range requests[len(requests)-1].Chat.Messages {
		if m.Role == "user" {
			texts = append(texts, m.Text())
		}
	}
	return texts
}

func (b *box) log(id string) string {
	return filepath.Join(b.home, "state", "sessions", id, "log.jsonl")
}

func (b *box) read(path string) []byte {
	b.t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		b.t.Fatal(err)
	}
	return text
}

// in is the box in another of its folders.
func (b *box) in(name string) *box {
	b.t.Helper()
	other := *b
	other.dir = filepath.Join(filepath.Dir(b.dir), name)
	if err := os.MkdirAll(other.dir, 0o755); err != nil {
		b.t.Fatal(err)
	}
	return &other
}

func (b *box) answers(n int) {
	for range n {
		b.llm.Script(testllm.Text("ok"))
	}
}

func TestCase_o_ses_04_FoldersWithNonLatinNamesDoNotMix(t *testing.T) {
	b := newBox(t)
	one, two := b.in("the work folder/项目甲"), b.in("the work folder/测试乙")
	long := b.in(strings.Repeat("名", 80) + "/" + strings.Repeat("x", 240))
	b.answers(4)
	one.run("run", "--session-id", "one", "1").want(t, 0, "ok\n")
	two.run("run", "--session-id", "two", "2").want(t, 0, "ok\n")
	long.run("run", "--session-id", "long", "3").want(t, 0, "ok\n")
	if got := two.listed(); len(got) != 1 || got[0] != "two" {
		t.Errorf("the second folder lists %v", got)
	}
	if got := long.listed(); len(got) != 1 || got[0] != "long" {
		t.Errorf("the folder with the long name lists %v", got)
	}
	two.run("-c", "2 again").want(t, 0, "ok\n")
	if diff := cmp.Diff([]string{"2", "2 again"}, b.prompts()); diff != "" {
		t.Error(diff)
	}
	two.run("sessions", "delete", "--all-here").want(t, 0, "deleted two\n")
	if got := one.listed(); len(got) != 1 || got[0] != "one" {
		t.Errorf("after the purge of the second folder the first lists %v", got)
	}
}

func TestCase_o_ses_05_AFolderReachedThroughALink(t *testing.T) {
	b := newBox(t)
	real := b.in("real/p")
	if err := os.Symlink("real", filepath.Join(filepath.Dir(b.dir), "link")); err != nil {
		t.Fatal(err)
	}
	link := b.in("link/p")
	b.answers(6)
	link.env["PWD"] = link.dir // as a shell leaves it
	link.run("run", "--session-id", "s", "first").want(t, 0, "ok\n")
	delete(link.env, "PWD")
	for _, at := range []*box{real, link} {
		if got := at.listed(); len(got) != 1 || got[0] != "s" {
			t.Errorf("%s lists %v", at.dir, got)
		}
		at.run("-c", "more").want(t, 0, "ok\n")
		at.run("-r", "s", "more").want(t, 0, "ok\n")
	}
	if got := b.prompts(); len(got) != 5 {
		t.Errorf("the last request has the prompts %v", got)
	}
}

func TestCase_o_ses_07_ResumeGoesOnInTheSameSession(t *testing.T) {
	b := newBox(t)
	b.answers(3)
	b.run("run", "one").want(t, 0, "ok\n")
	id := b.listed()[0]
	before := b.read(b.log(id))
	b.run("resume", id, "two").want(t, 0, "ok\n")
	if after := b.read(b.log(id)); !bytes.HasPrefix(after, before) || len(after) == len(before) {
		t.Error("the log did not grow")
	}
	b.run("resume", id[:13], "three").want(t, 0, "ok\n")
	if got := b.listed(); len(got) != 1 || got[0] != id {
		t.Errorf("listed: %v", got)
	}
	if diff := cmp.Diff([]string{"one", "two", "three"}, b.prompts()); diff != "" {
		t.Error(diff)
	}
}

func TestForkLeavesTheSessionAsItIs(t *testing.T) {
	b := newBox(t)
	b.answers(3)
	b.run("run", "--session-id", "a", "one").want(t, 0, "ok\n")
	before := sha256.Sum256(b.read(b.log("a")))
	b.run("-c", "--fork", "--session-id", "b", "two").want(t, 0, "ok\n")
	if diff := cmp.Diff([]string{"one", "two"}, b.prompts()); diff != "" {
		t.Error(diff)
	}
	b.run("sessions", "fork", "a", "--session-id", "c").want(t, 0, "c\n")
	b.run("-r", "c", "three").want(t, 0, "ok\n")
	if diff := cmp.Diff([]string{"one", "three"}, b.prompts()); diff != "" {
		t.Error(diff)
	}
	if sha256.Sum256(b.read(b.log("a"))) != before {
		t.Error("the source has changed")
	}
	b.run("sessions", "fork", "a", "--at", "3").want(t, 2, "", "turn")
	b.run("sessions", "verify").want(t, 0, b.run("sessions", "verify").stdout)
}

func TestNoSessionLeavesNothing(t *testing.T) {
	b := newBox(t)
	b.answers(1)
	b.run("run", "--no-session", "x").want(t, 0, "ok\n")
	if got := b.listed("--all"); len(got) != 0 {
		t.Errorf("listed: %v", got)
	}
	if entries, err := os.ReadDir(filepath.Join(b.home, "state", "sessions")); err == nil && len(entries) > 0 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestATakenIDIsRefused(t *testing.T) {
	b := newBox(t)
	b.answers(1)
	b.run("run", "--session-id", "Mine", "x").want(t, 0, "ok\n")
	b.run("run", "--session-id", "mine", "x").want(t, 2, "", "session mine exists already", "dsh -r mine")
	b.sent(1)
}

func TestALockedSessionNamesItsOwner(t *testing.T) {
	b := newBox(t)
	b.llm.Script(testllm.Turn{Status: 200, End: testllm.Hold})
	holder, cancel := b.command("run", "--session-id", "s", "x")
	defer cancel()
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	b.await(1)
	o := b.run("-r", "s", "y")
	o.want(t, 2, "", "session s is in use by process", "fork")
	if strings.Count(o.stderr, "\n") != 1 {
		t.Errorf("stderr has more than a line:\n%s", o.stderr)
	}
	b.run("sessions", "delete", "s").want(t, 2, "", "in use by process")
	if o := b.run("sessions", "show", "s"); o.code != 0 || !strings.Contains(o.stdout, "user\nx") {
		t.Errorf("reading needs no lock: %+v", o)
	}
	cancel()
	_ = holder.Wait() // it was killed
	b.sent(1)
}

// damaged makes a session of two turns whose first turn has lost a line, and returns its number.
func (b *box) damaged(id string) (line int) {
	b.t.Helper()
	b.answers(2)
	b.run("run", "--session-id", id, "one").want(b.t, 0, "ok\n")
	b.run("-r", id, "two").want(b.t, 0, "ok\n")
	lines := bytes.SplitAfter(b.read(b.log(id)), []byte("\n"))
	i := slices.IndexFunc(lines, func(l []byte) bool { return bytes.Contains(l, []byte(`"type":"request/context"`)) })
	if err := os.WriteFile(b.log(id), bytes.Join(slices.Delete(lines, i, i+1), nil), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return i + 1
}

func TestADamagedSessionSaysWhatToDo(t *testing.T) {
	b := newBox(t)
	line := b.damaged("s")
	before := sha256.Sum256(b.read(b.log("s")))
	o := b.run("-r", "s", "three")
	o.want(t, 2, "", fmt.Sprintf("log.jsonl:%d", line), "damaged (gap", fmt.Sprintf("the events %d to %d are missing", line-2, line-2), "dsh sessions show s", "dsh sessions repair s")
	if strings.Count(o.stderr, "\n") != 1 {
		t.Errorf("stderr has more than a line:\n%s", o.stderr)
	}
	b.sent(2)
	if o := b.run("sessions", "show", "s"); o.code != 1 || !strings.Contains(o.stdout, "one") || !strings.Contains(o.stderr, "damaged") {
		t.Errorf("show: %+v", o)
	}
	rest := b.run("sessions", "show", "s").stdout
	for _, part := range []string{" 2 turns,", "user\none\n", fmt.Sprintf("log.jsonl:%d: the log is damaged (gap", line), "user\ntwo\n"} {
		var found bool
		if _, rest, found = strings.Cut(rest, part); !found {
			t.Fatalf("show lacks %q, or has it elsewhere", part)
		}
	}
	if strings.Contains(rest, "the log is damaged") {
		t.Error("the gap is shown twice")
	}
	var object struct {
		Messages []struct{ Role string }
		Gaps     []struct{ Before int }
	}
	if o := b.run("sessions", "show", "--json", "s"); json.Unmarshal([]byte(o.stdout), &object) != nil || len(object.Messages) != 4 || len(object.Gaps) != 1 || object.Gaps[0].Before != 1 {
		t.Errorf("show --json: %+v", o)
	}
	if got := b.listed(); len(got) != 1 {
		t.Errorf("listed: %v", got)
	}
	if o := b.run("sessions", "verify"); o.code != 1 || !strings.Contains(o.stdout, "s: not sound") || !strings.Contains(o.stdout, "gap") {
		t.Errorf("verify: %+v", o)
	}
	repaired := b.run("sessions", "repair", "s")
	if repaired.code != 0 {
		t.Fatalf("repair: %+v", repaired)
	}
	b.answers(1)
	b.run("-r", strings.TrimSpace(repaired.stdout), "three").want(t, 0, "ok\n")
	if sha256.Sum256(b.read(b.log("s"))) != before {
		t.Error("the damaged log has changed")
	}
}

func TestATornTailIsCutAndTheSessionGoesOn(t *testing.T) {
	b := newBox(t)
	b.answers(2)
	b.run("run", "--session-id", "s", "one").want(t, 0, "ok\n")
	f, err := os.OpenFile(b.log("s"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"seq":99,"ti`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	o := b.run("-r", "s", "two")
	o.want(t, 0, "ok\n", "13 bytes", "cut off")
	if diff := cmp.Diff([]string{"one", "two"}, b.prompts()); diff != "" {
		t.Error(diff)
	}
}

func TestSessionCommands(t *testing.T) {
	b := newBox(t)
	b.write("a.txt", "the text of a\n")
	b.llm.Script(testllm.Answer{Text: "Let me see.", Calls: []testllm.Call{{Name: "read", Arguments: `{"file_path":"a.txt"}`}}}.Turn(), testllm.Text("It says so."))
	b.run("run", "--session-id", "s", "What does a.txt say?").want(t, 0, "It says so.\n")

	shown := b.run("sessions", "show", "s")
	for _, part := range []string{"What does a.txt say?\n", "s in ", "user\nWhat does a.txt say?", "Let me see.", "→ read a.txt", "the text of a", "It says so."} {
		if !strings.Contains(shown.stdout, part) {
			t.Errorf("show lacks %q:\n%s", part, shown.stdout)
		}
	}
	var object struct {
		ID       string
		Title    string
		Turns    int
		Messages []struct{ Role string }
	}
	if out := b.run("sessions", "show", "--json", "s"); json.Unmarshal([]byte(out.stdout), &object) != nil || object.ID != "s" || object.Turns != 1 || len(object.Messages) != 4 {
		t.Errorf("show --json: %+v", object)
	}

	log := string(b.read(b.log("s")))
	_, events, _ := strings.Cut(log, "\n")
	b.run("sessions", "show", "--events", "s").want(t, 0, events)
	b.run("sessions", "export", "s").want(t, 0, log)
	file := filepath.Join(b.dir, "out.jsonl")
	b.run("sessions", "export", "s", "-o", file).want(t, 0, "")
	if string(b.read(file)) != log {
		t.Error("the exported file is not the log")
	}
	b.run("sessions", "export", "s", "-o", file).want(t, 2, "", "exists")
	b.run("sessions", "repair", "s").want(t, 1, "", "nothing to repair")
	if o := b.run("sessions", "verify", "--json", "s"); o.code != 0 || !strings.Contains(o.stdout, `"problems": []`) {
		t.Errorf("verify --json: %+v", o)
	}

	b.run("sessions", "rename", "s", "Another name").want(t, 0, "")
	if out := b.run("sessions", "list"); !strings.Contains(out.stdout, "Another name") {
		t.Error(out.stdout)
	}
	b.run("sessions", "archive", "s").want(t, 0, "")
	if got := b.listed(); len(got) != 0 {
		t.Errorf("an archived session is listed: %v", got)
	}
	b.run("sessions", "list").want(t, 0, "", "archived", "dsh sessions list --archived")
	b.run("sessions", "list", "--all").want(t, 0, "", "archived", "dsh sessions list --all --archived")
	if got := b.listed("--archived"); len(got) != 1 {
		t.Errorf("--archived lists %v", got)
	}
	b.run("sessions", "archive", "--undo", "s").want(t, 0, "")
	if got := b.listed(); len(got) != 1 {
		t.Errorf("after --undo: %v", got)
	}
	b.run("sessions", "delete", "s").want(t, 0, "deleted s\n")
	if got := b.listed("--all", "--archived"); len(got) != 0 {
		t.Errorf("after delete: %v", got)
	}
	b.run("sessions", "list").want(t, 0, "", "no session was started here")
	b.run("sessions", "list", "--all").want(t, 0, "", "no session yet")
}

// An agent's own log is readable for whoever has only the session package's rules.
func TestEveryLineOfALogIsWhatItSays(t *testing.T) {
	b := newBox(t)
	b.answers(1)
	b.run("run", "--session-id", "s", "x").want(t, 0, "ok\n")
	lines := bytes.Split(bytes.TrimSuffix(b.read(b.log("s")), []byte("\n")), []byte("\n"))
	if _, err := session.ParseHeader(lines[0]); err != nil {
		t.Error(err)
	}
	for i, line := range lines[1:] {
		if e, err := session.ParseLine(line); err != nil || e.Seq != int64(i) {
			t.Errorf("line %d: %v, event %d", i+2, err, e.Seq)
		}
	}
}

// A killed run is taken up where its log ends.
func TestAKilledRunIsResumed(t *testing.T) {
	b := newBox(t)
	b.write("a.txt", "text\n")
	b.llm.Script(
		testllm.Calls(testllm.Call{Name: "read", Arguments: `{"file_path":"a.txt"}`}),
		testllm.Turn{Status: 200, End: testllm.Hold},
		testllm.Text("ok"),
	)
	cmd, cancel := b.command("run", "--session-id", "s", "one")
	defer cancel()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b.await(2)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || err.(*exec.ExitError).ExitCode() != -1 {
		t.Error(err)
	}
	b.run("-c", "go on").want(t, 0, "ok\n", "turn 1 had been cut off and was closed; 0 calls")
	if diff := cmp.Diff([]string{"one", "go on"}, b.prompts()); diff != "" {
		t.Error(diff)
	}
	b.run("sessions", "verify", "s").want(t, 0, b.run("sessions", "verify", "s").stdout)
}

func TestSessionsAreFoundByWords(t *testing.T) {
	b := newBox(t)
	for _, prompt := range []string{"mend the Parser", "write a test", "mend the lexer"} {
		b.llm.Script(testllm.Text("done"))
		b.run("run", prompt).want(t, 0, "done\n")
	}
	for words, want := range map[string]int{"mend": 2, "parser mend": 1, "parser test": 0} {
		var all []struct{ ID string }
		o := b.run(append([]string{"sessions", "search", "--json"}, strings.Fields(words)...)...)
		if err := json.Unmarshal([]byte(o.stdout), &all); err != nil || len(all) != want {
			t.Errorf("%s: %d sessions, want %d\n%s%s", words, len(all), want, o.stdout, o.stderr)
		}
	}
	b.run("sessions", "search", "nothing").want(t, 0, "", "no session here has these words")
	b.run("sessions", "search").want(t, 2, "", "search")
}
