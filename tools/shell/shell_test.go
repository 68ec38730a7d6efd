//go:build unix

package shell_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/tools/shell"
	"github.com/dsh-harness/dsh/workspace"
	"github.com/dsh-harness/dsh/workspace/local"
	"github.com/dsh-harness/dsh/workspace/workspacetest"
)

func TestMain(m *testing.M) {
	local.Guard()
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// bash is the tool in a workspace.
type bash struct {
	t    testing.TB
	w    workspace.Workspace
	tool tool.Definition
}

func newBash(t testing.TB, change ...func(*shell.Config)) *bash {
	t.Helper()
	tree := plugin.New(slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		if err := tree.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	p := shell.Plugin
	config := p.Default()
	for _, f := range change {
		f(&config)
	}
	p.Default = func() shell.Config { return config }
	def := p.Definition()
	prepared, err := def.Bind(def.NewConfig())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tree.Root().MountAll(prepared.Child("shell")); err != nil {
		t.Fatal(err)
	}
	if err := tree.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	d, ok := tool.Tools.Get(tree.Root(), "bash")
	if !ok {
		t.Fatal("there is no tool bash")
	}
	return &bash{t, workspacetest.Open(t, local.Plugin.Definition(), workspace.Options{}), d}
}

// free lets b run its commands outside of any sandbox, which has a /tmp of its own and keeps the folder
// of the session from being removed.
func (b *bash) free() *bash {
	b.t.Helper()
	p := local.Plugin
	p.Start = func(ctx context.Context, s *plugin.Scope, c local.Config) error {
		_, err := workspace.Confining.On(s, func(ctx context.Context, c *workspace.Confinement, next plugin.Next[*workspace.Confinement, *workspace.Confinement]) (*workspace.Confinement, error) {
			c.Unconfined = "a test"
			return next(ctx, c)
		})
		return errors.Join(err, local.Plugin.Start(ctx, s, c))
	}
	b.w = workspacetest.Open(b.t, p.Definition(), workspace.Options{})
	return b
}

type args map[string]any

func (b *bash) call(ctx context.Context, a args, progress func(string)) tool.Result {
	b.t.Helper()
	raw, err := json.Marshal(a)
	if err != nil {
		b.t.Fatal(err)
	}
	checked, err := b.tool.Check(string(raw))
	if err != nil {
		b.t.Fatal(err)
	}
	body, err := b.tool.Bind(&tool.Call{ID: "c1_1_0", Name: "bash", Arguments: checked, Workspace: b.w, Progress: progress})
	if err != nil {
		b.t.Fatal(err)
	}
	result, err := body(ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	return result
}

// run runs a command that is no error, and returns its text and outcome.
func (b *bash) run(command string, more ...args) (string, shell.Outcome) {
	b.t.Helper()
	a := args{"command": command}
	for _, m := range more {
		for k, v := range m {
			a[k] = v
		}
	}
	result := b.call(b.t.Context(), a, func(string) {})
	if result.IsError {
		b.t.Fatalf("%s: %s", command, llm.PlainText(result.Content))
	}
	return llm.PlainText(result.Content), result.Meta.(shell.Outcome)
}

func want(t testing.TB, got, want string) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	b := newBash(t)
	if err := os.Mkdir(filepath.Join(b.w.Dir(), "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		command string
		more    args
		text    string
		outcome shell.Outcome
	}{
		{"echo hi", nil, "hi\n[exit code 0]", shell.Outcome{Bytes: 3}},
		{"true 3", args{"description": "noop"}, "(no output)\n[exit code 0]", shell.Outcome{}},
		{"printf hi", nil, "hi\n[exit code 0]", shell.Outcome{Bytes: 2}},
		{"echo 1; echo 2 >&2; echo 3", nil, "1\n2\n3\n[exit code 0]", shell.Outcome{Bytes: 6}},
		{"echo no >&2; exit 3", nil, "no\n[exit code 3]", shell.Outcome{ExitCode: 3, Bytes: 3}},
		{"kill -9 $$", nil, "(no output)\n[ended by SIGKILL, as exit code 137]", shell.Outcome{ExitCode: -1, Signal: "SIGKILL"}},
		{"basename $PWD", args{"workdir": "sub"}, "sub\n[exit code 0]", shell.Outcome{Bytes: 4}},
		{"cd sub; Z=1", nil, "(no output)\n[exit code 0]", shell.Outcome{}},
		{"basename $PWD; echo [$Z]", nil, filepath.Base(b.w.Dir()) + "\n[]\n[exit code 0]", shell.Outcome{Bytes: int64(len(filepath.Base(b.w.Dir()))) + 4}},
		{"[[ a == a ]] && echo bash", nil, "bash\n[exit code 0]", shell.Outcome{Bytes: 5}},
		{"sleep 300 & sleep 300 & echo done", nil, "done\n[2 of its processes still ran at its end and were ended]\n[exit code 0]", shell.Outcome{Leftover: 2, Bytes: 5}},
	} {
		text, outcome := b.run(c.command, c.more)
		want(t, text, c.text)
		if d := cmp.Diff(c.outcome, outcome, cmpopts.IgnoreFields(shell.Outcome{}, "DurationMS", "Sandbox")); d != "" {
			t.Errorf("%s: %s", c.command, d)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	b := newBash(t)
	for _, c := range []struct {
		args       args
		code, text string
	}{
		{args{"command": " \n"}, "invalid-arguments", "Error: command is empty"},
		{args{"command": "true", "timeout": 60}, "invalid-arguments", "Error: timeout is in milliseconds: 60 is less than the least, 1000"},
		{args{"command": "true", "workdir": "gone"}, "no-folder", "Error: run bash: the folder does not exist: gone; run in another folder, or make it again from there"},
		{args{"command": ": " + strings.Repeat("x", 200_000)}, "failed", "Error: run bash: the command line or the environment is too long for the system (about 128 kB for one argument); put the text into a file"},
	} {
		result := b.call(t.Context(), c.args, func(string) {})
		if !result.IsError || result.Error.Code != c.code {
			t.Errorf("%v: %+v", c.args["workdir"], result.Error)
		}
		want(t, llm.PlainText(result.Content), c.text)
	}
}

func TestCanceled(t *testing.T) {
	t.Parallel()
	b := newBash(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result := b.call(ctx, args{"command": "echo begun; sleep 300"}, func(string) { cancel() })
	if !result.IsError || result.Error.Code != tool.CodeAborted || !result.Meta.(shell.Outcome).Canceled {
		t.Errorf("%+v, %+v", result.Error, result.Meta)
	}
	want(t, llm.PlainText(result.Content), "begun\n[canceled, and ended with everything that it started]\n[ended by SIGTERM, as exit code 143]")
}

func TestProgress(t *testing.T) {
	t.Parallel()
	b := newBash(t)
	var mu sync.Mutex
	var got []string
	b.call(t.Context(), args{"command": "echo one; until [ -e go ]; do sleep 0.02; done; seq 100000"}, func(text string) {
		mu.Lock()
		defer mu.Unlock()
		if got = append(got, text); len(got) == 1 { // it came while the command was running
			if err := os.WriteFile(filepath.Join(b.w.Dir(), "go"), nil, 0o644); err != nil {
				t.Error(err)
			}
		}
	})
	want(t, got[0], "one\n")
	total := 0
	for _, text := range got {
		total += len(text)
	}
	if last := got[len(got)-1]; !strings.HasSuffix(last, "100000\n") || total > 100_000 {
		t.Errorf("%d bytes in %d pieces, the last ends with %q", total, len(got), last[max(len(last)-20, 0):])
	}
}

func TestAccess(t *testing.T) {
	t.Parallel()
	b := newBash(t)
	got := b.tool.Access(&tool.Call{Arguments: json.RawMessage(`{"command":"rm -rf x"}`)})
	if d := cmp.Diff([]tool.Access{{Kind: tool.AccessExecute, Target: "rm -rf x"}}, got); d != "" {
		t.Error(d)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	good := shell.Plugin.Default()
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for _, change := range []func(*shell.Config){
		func(c *shell.Config) { c.TimeoutMS = 60 },
		func(c *shell.Config) { c.MaxTimeoutMS = 2000 },
		func(c *shell.Config) { c.GraceMS = 0 },
		func(c *shell.Config) { c.OutputBytes = 10 },
		func(c *shell.Config) { c.SpillBytes = -1 },
	} {
		bad := good
		change(&bad)
		if err := bad.Validate(); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

func TestCase_o_sh_01_BackgroundProcessHoldsThePipe(t *testing.T) {
	t.Parallel()
	b := newBash(t)
	for _, command := range []string{
		"sleep 300 & echo done",
		"(sleep 300) & disown; echo done",
		"nohup sleep 300 & echo done",
	} {
		text, outcome := b.run(command)
		if !strings.Contains(text, "done\n") || !strings.Contains(text, "still ran at its end and were ended") || outcome.ExitCode != 0 || outcome.DurationMS > 3000 {
			t.Errorf("%s: %q, %+v", command, text, outcome)
		}
		if text, _ := b.run("echo next"); text != "next\n[exit code 0]" {
			t.Errorf("the next command: %q", text)
		}
	}
}

func TestCase_o_sh_02_TimeoutEndsChildren(t *testing.T) {
	t.Parallel()
	b := newBash(t)
	text, outcome := b.run("mkfifo p.$$; (while true; do echo tick; sleep 1; done) > p.$$ & echo $$ > pid; cat p.$$", args{"timeout": 1500})
	if !strings.HasPrefix(text, "tick\n") || !outcome.TimedOut || outcome.DurationMS > 6000 || !strings.Contains(text, "[timed out after 1.5 s and was ended") {
		t.Errorf("%q, %+v", text, outcome)
	}
	if text, _ := b.run("pgrep -g $(cat pid)"); text != "(no output)\n[exit code 1]" {
		t.Errorf("left in the process group: %q", text)
	}
}

func TestCase_o_sh_03_ReadingInput(t *testing.T) {
	t.Parallel()
	b := newBash(t)
	for command, has := range map[string]string{
		"cat":                                "(no output)\n[exit code 0]",
		`read -p "ok? " x; echo got:$x`:      "got:\n[exit code 0]",
		"cat </dev/stdin":                    "(no output)\n[exit code 0]",
		"head -c1 /dev/tty 2>&1 | tail -c20": "[exit code 0]",
	} {
		if text, outcome := b.run(command); !strings.Contains(text, has) || outcome.DurationMS > 5000 {
			t.Errorf("%s: %q, %+v", command, text, outcome)
		}
	}
}

// peakMemory returns the most memory that this process has used since the last call, in bytes.
func peakMemory(t *testing.T) int64 {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip("there is no /proc: ", err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		t.Skip("the peak cannot be reset: ", err)
	}
	return kb << 10
}

func TestTrust_T05_OutputWithoutEnd(t *testing.T) {
	b := newBash(t, func(c *shell.Config) { c.SpillBytes = 4 << 20 })
	size := int64(30 << 20)
	if os.Getenv("DSH_TEST_FULL") == "1" {
		size = 10 << 30
	}
	b.run("true")
	peakMemory(t)
	before := peakMemory(t)
	for _, command := range []string{
		fmt.Sprintf("yes | head -c %d", size),
		fmt.Sprintf("yes | head -c %d >&2", size),
		fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x", size/2),
		fmt.Sprintf("head -c %d /dev/urandom", size/5),
	} {
		text, outcome := b.run(command, args{"timeout": 600_000})
		grown := peakMemory(t) - before
		t.Logf("%s: %d bytes in %d ms, %d kB more memory", command, outcome.Bytes, outcome.DurationMS, grown>>10)
		if grown > memoryFactor*32<<20 {
			t.Errorf("%s: memory grew by %d bytes", command, grown)
		}
		if !utf8.ValidString(text) || len(text) > 31_000 || !strings.Contains(text, "bytes are left out here; the first 4194304 bytes of raw output are in "+outcome.Spill) {
			t.Errorf("%s: %d bytes of text, which end with %q", command, len(text), text[max(0, len(text)-100):])
		}
		info, err := os.Stat(outcome.Spill)
		if err != nil || info.Size() != 4<<20 || info.Mode() != 0o600 {
			t.Errorf("%s: the file: %v, %v", command, info, err)
		}
	}
}

func TestSpill(t *testing.T) {
	t.Parallel()
	b := newBash(t)
	// Not too long: nothing is kept.
	if _, outcome := b.run("seq 5000"); outcome.Spill != "" {
		t.Errorf("kept %s", outcome.Spill)
	}
	// Progress that overwrites itself is much to write and little to say.
	text, outcome := b.run(`for i in $(seq 20000); do printf "%d of 20000\r" $i; done; echo done`)
	if text != "done\n[exit code 0]" || outcome.Spill != "" || outcome.Bytes < 200_000 {
		t.Errorf("%q, %+v", text, outcome)
	}
	if left, err := os.ReadDir(b.w.Temp()); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	// Too long, whether or not a file was begun by then.
	for _, n := range []int{7_000, 100_000} {
		text, outcome = b.run(fmt.Sprintf("seq %d; printf '\\033[1mend\\n'", n))
		whole, err := os.ReadFile(outcome.Spill)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(whole, []byte("1\n2\n")) || !bytes.HasSuffix(whole, fmt.Appendf(nil, "\n%d\n\x1b[1mend\n", n)) {
			t.Errorf("the file is not what was written: %d bytes", len(whole))
		}
		if !strings.HasPrefix(text, "1\n2\n") || !strings.HasSuffix(text, fmt.Sprintf("\n%d\nend\n[exit code 0]", n)) || !strings.Contains(text, "the raw output is in "+outcome.Spill) {
			t.Errorf("%q … %q", text[:20], text[len(text)-40:])
		}
	}
	none := newBash(t, func(c *shell.Config) { c.SpillBytes = 0 })
	if text, outcome := none.run("seq 100000"); outcome.Spill != "" || !strings.Contains(text, "it was not kept") {
		t.Errorf("kept %s", outcome.Spill)
	}
}

func TestTrust_T07_TheFolderIsGone(t *testing.T) {
	t.Parallel()
	b := newBash(t).free()
	b.run("mkdir -p sub; rm -rf sub")
	if result := b.call(t.Context(), args{"command": "true", "workdir": "sub"}, func(string) {}); !result.IsError || result.Error.Code != "no-folder" {
		t.Errorf("%+v", result)
	}
	text, _ := b.run("echo hi")
	want(t, text, "hi\n[exit code 0]")
	b.run(`rm -rf "$PWD"`)
	if result := b.call(t.Context(), args{"command": "true"}, func(string) {}); !result.IsError || result.Error.Code != "no-folder" {
		t.Errorf("%+v", result)
	}
	text, _ = b.run("mkdir -p "+b.w.Dir()+" && echo made", args{"workdir": filepath.Dir(b.w.Dir())})
	want(t, text, "made\n[exit code 0]")
	text, _ = b.run("echo hi")
	want(t, text, "hi\n[exit code 0]")
}

func TestCase_o_sh_05_FolderDeletedUnderTheShell(t *testing.T) {
	t.Parallel()
	b := newBash(t)
	b.run("mkdir t && cd t")
	b.run("rm -rf ../t")
	text, _ := b.run("echo hi")
	want(t, text, "hi\n[exit code 0]")
	b.run("cd .. && pwd")
}

func TestCase_o_sh_06_FailuresAreNotHidden(t *testing.T) {
	t.Parallel()
	b := newBash(t)
	for command, has := range map[string]string{
		`sh -c "echo 2 failed; exit 1" 2>&1 | tail -15`: "2 failed\n[exit code 0]",
		"false; echo done": "done\n[exit code 0]",
		"exit 3":           "(no output)\n[exit code 3]",
		"kill -9 $$":       "(no output)\n[ended by SIGKILL, as exit code 137]",
	} {
		text, _ := b.run(command)
		want(t, text, has)
	}
}

func TestCase_o_sh_07_ProgressAndColours(t *testing.T) {
	t.Parallel()
	b := newBash(t)
	text, _ := b.run(`printf "10%%\r50%%\r100%%\n\033[31mred\033[0m \033[?25l\033]0;title\007x\033(B\n"`)
	want(t, text, "100%\nred x\n[exit code 0]")
	text, _ = b.run(`printf "\033[3"; sleep 0.05; printf "1mred\033"; sleep 0.05; printf "[0m\n"`)
	want(t, text, "red\n[exit code 0]")
}

func TestCase_o_sh_08_WholeCharacters(t *testing.T) {
	t.Parallel()
	b := newBash(t)
	text, _ := b.run(`for i in $(seq 20000); do printf 渐; done`)
	if strings.ContainsRune(text, utf8.RuneError) || !utf8.ValidString(text) || !strings.Contains(text, "bytes are left out") {
		t.Errorf("%d bytes", len(text))
	}
	text, _ = b.run(`printf "a\xff\xfeb"`)
	want(t, text, "a\ufffd\ufffdb\n[exit code 0]")
}

func TestCase_o_sh_09_SilentCommands(t *testing.T) {
	t.Parallel()
	b := newBash(t)
	for command, code := range map[string]int{"false": 1, "true": 0, ": > /dev/null": 0, "(exit 1) 2>/dev/null": 1} {
		text, outcome := b.run(command)
		want(t, text, fmt.Sprintf("(no output)\n[exit code %d]", code))
		if outcome.DurationMS > 3000 {
			t.Errorf("%s took %d ms", command, outcome.DurationMS)
		}
	}
}

func TestCase_o_edt_11_TildeIsHome(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	b := newBash(t).free()
	if err := os.Mkdir(filepath.Join(home, "w"), 0o755); err != nil {
		t.Fatal(err)
	}
	text, _ := b.run("basename $PWD", args{"workdir": "~/w"})
	want(t, text, "w\n[exit code 0]")
}

// Where there is no bash, sh has to do.
func TestWithoutBash(t *testing.T) {
	dir := t.TempDir()
	sh, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(sh, filepath.Join(dir, "sh")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	b := newBash(t).free()
	for range 2 {
		text, _ := b.run("echo hi")
		want(t, text, "hi\n[exit code 0]")
	}
}

func TestTimeoutIsClamped(t *testing.T) {
	t.Parallel()
	b := newBash(t, func(c *shell.Config) { c.TimeoutMS, c.MaxTimeoutMS = 1000, 1000 })
	began := time.Now()
	text, outcome := b.run("sleep 300", args{"timeout": 500_000})
	if !outcome.TimedOut || time.Since(began) > 20*time.Second || !strings.Contains(text, "[timed out after 1 s") {
		t.Errorf("%q, %+v", text, outcome)
	}
}
