package hooks_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dsh-harness/dsh/internal/need"
	"github.com/dsh-harness/dsh/policy"
)

// mark is a hook file whose hook leaves a mark before each command.
func mark(name string) string {
	return `{"hooks":{"PreToolUse":[{"matcher":"Bash","hooks":[{"type":"command","command":"echo x >> ` + name + `"}]}]}}`
}

// TestTrust_C04_AChangedDefinitionIsNotRun: hooks of a folder run while it is trusted with exactly their content. Changed during a
// session they are not run, which is told once, until a person trusts what they are now.
func TestTrust_C04_AChangedDefinitionIsNotRun(t *testing.T) {
	for _, path := range []string{".dsh/hooks.json", ".claude/settings.json", ".claude/settings.local.json", ".codex/hooks.json"} {
		t.Run(path, func(t *testing.T) {
			w := newWorld(t)
			w.file(path, mark("never"))
			w.run("go", bash("true"), done)
			if w.exists("never") {
				t.Fatal("a hook that nobody trusts was run")
			}

			w.project(path, mark("old"))
			changed := mark("new")
			w.run("go", bash("true"), call("bash", `{"command":`+quoted("cat > "+path+" <<'EOF'\n"+changed+"\nEOF\n")+`}`), bash("true"), bash("true"), done)
			// It ran before the first two commands; what stands there since the second runs before none.
			if got := w.read("old"); got != "x\nx\n" || w.exists("new") {
				t.Errorf("the old hook left %q, new: %v\n%s", got, w.exists("new"), w.log.String())
			}
			if n := strings.Count(w.log.String(), "hooks are not run any more"); n != 1 {
				t.Errorf("it was told %d times", n)
			}

			w.trust.trust(path, changed+"\n")
			w.run("go", bash("true"), done)
			if w.read("new") != "x\n" {
				t.Errorf("the hook that is trusted by now did not run\n%s", w.log.String())
			}
		})
	}
}

// Trusted anew within the session, the changed hooks are run.
func TestHooksAreReadAgainWhenTheyAreTrustedAgain(t *testing.T) {
	w := newWorld(t)
	changed := mark("new")
	w.project(".dsh/hooks.json", mark("old"))
	looks := 0
	w.trust.onRead = func() {
		if looks++; looks == 3 { // one at the beginning, then one before each command
			w.trust.known[".dsh/hooks.json"] = changed + "\n"
		}
	}
	replace := bash("cat > .dsh/hooks.json <<'EOF'\n" + changed + "\nEOF\n")
	w.run("go", replace, bash("true"), bash("true"), done)
	if w.read("old") != "x\n" || w.read("new") != "x\n" {
		t.Errorf("the old one left %q, the new one %q\n%s", w.read("old"), w.read("new"), w.log.String())
	}
}

func TestProjectHooksCanBeSwitchedOff(t *testing.T) {
	w := newWorld(t)
	w.project(".dsh/hooks.json", mark("ran"))
	w.set = []string{"hooks.project=false"}
	w.run("go", bash("true"), done)
	if w.exists("ran") {
		t.Error("it ran")
	}
}

// A file that must hold and cannot be used keeps calls and prompts from passing.
func TestABrokenFile(t *testing.T) {
	for _, test := range []struct {
		onFailure string
		passes    bool
	}{{"allow", true}, {"block", false}} {
		t.Run(test.onFailure, func(t *testing.T) {
			w := newWorld(t)
			w.set = []string{"hooks.on_failure=" + test.onFailure}
			w.user(`{"PreToolUse":[{"matcher":"Bash(","hooks":[{"type":"command","command":"exit 0"}]}]}`)
			w.run("go", bash("touch ran"), done)
			if w.exists("ran") != test.passes || test.passes != (w.err == nil) || !strings.Contains(w.log.String(), "matcher") {
				t.Errorf("ran: %v, %v\n%s", w.exists("ran"), w.err, w.log.String())
			}
		})
	}
}

func TestAListedFileThatIsMissing(t *testing.T) {
	w := newWorld(t)
	w.set = []string{`hooks.files=[{"path":"` + w.config + `/missing.json","on_failure":"block"}]`}
	w.run("go", bash("touch ran"), done)
	if w.exists("ran") || !strings.Contains(w.blocked(), "missing.json") {
		t.Errorf("%v\n%s", w.err, w.log.String())
	}
}

// TestTrust_N07_HooksSeeNoSecrets: 40 secrets in the environment, none in that of a hook.
func TestTrust_N07_HooksSeeNoSecrets(t *testing.T) {
	w := newWorld(t)
	secrets := map[string]string{}
	for i := range 40 {
		name := fmt.Sprintf([]string{"SERVICE%d_API_KEY", "TOKEN_%d", "DB%d_PASSWORD", "AWS%d_SECRET_ACCESS_KEY", "DSH_CANARY_%d"}[i%5], i)
		secrets[name] = fmt.Sprintf("canary-%02d-%x", i, i*7919)
		t.Setenv(name, secrets[name])
	}
	t.Setenv("BASH_ENV", w.dir+"/profile")
	t.Setenv("ENV", w.dir+"/profile")
	w.file("profile", "touch profile-was-read\n")
	w.user(hook("PreToolUse", "", "env > seen; tr '\\0' '\\n' < /proc/self/environ >> seen; echo $CLAUDE_PROJECT_DIR > dir; pwd > cwd"))
	w.run("go", bash("true"), done)
	seen := w.read("seen")
	if !strings.Contains(seen, "PATH=") {
		t.Fatalf("the hook did not run\n%s", w.log.String())
	}
	for name, value := range secrets {
		if strings.Contains(seen, name) || strings.Contains(seen, value) {
			t.Errorf("%s is seen", name)
		}
	}
	if w.exists("profile-was-read") {
		t.Error("a profile was read")
	}
	if w.read("dir") != w.dir+"\n" || w.read("cwd") != w.dir+"\n" {
		t.Errorf("it ran in %q for %q", w.read("cwd"), w.read("dir"))
	}
}

// Hooks are held by the sandbox and mode of the session, unless the person's own file says otherwise.
func TestHooksRunInTheSandbox(t *testing.T) {
	for name, test := range map[string]struct {
		mode            policy.Mode
		own             bool
		more            string
		inside, outside bool
	}{
		"read-only":           {policy.ReadOnly, true, "", false, false},
		"workspace-write":     {policy.WorkspaceWrite, true, "", true, false},
		"unconfined":          {policy.ReadOnly, true, `,"unconfined":true`, true, true},
		"unconfined, project": {policy.WorkspaceWrite, false, `,"unconfined":true`, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.mode = test.mode
			file := hook("UserPromptSubmit", "", "touch inside; touch ../outside; exit 0", test.more)
			if test.own {
				w.user(file)
			} else {
				w.project(".dsh/hooks.json", file)
			}
			w.run("go", done)
			if len(w.outcomes()) != 1 {
				t.Fatalf("%v\n%s", w.err, w.log.String())
			}
			if strings.Contains(w.outcomes()[0].Error, "did not run") || w.exists("../outside") && !test.outside && !sandboxed(w) {
				need.Missing(t, "this machine confines no commands: %s", w.outcomes()[0].Error)
			}
			if w.exists("inside") != test.inside || w.exists("../outside") != test.outside {
				t.Errorf("inside: %v, outside: %v\n%s", w.exists("inside"), w.exists("../outside"), w.log.String())
			}
		})
	}
}

// sandboxed reports whether commands are confined on this machine, by what a tool says in a mode that confines.
func sandboxed(w *world) bool {
	probe := newWorld(w.t)
	probe.mode = policy.WorkspaceWrite
	probe.run("go", bash("touch ../probe"), done)
	return !probe.exists("../probe")
}

// TestCase_o_hk_01_ExitCode2WithoutText: the tool does not run, and the model is told why.
func TestCase_o_hk_01_ExitCode2WithoutText(t *testing.T) {
	w := newWorld(t)
	w.user(hook("PreToolUse", "Write", "exit 2"))
	w.run("go", call("write", `{"file_path":"a.txt","content":"x"}`), done)
	if w.exists("a.txt") || !strings.Contains(w.results()[0], "blocked by PreToolUse hook") {
		t.Errorf("%q", w.results())
	}
}

// TestCase_o_hk_02_NoiseAroundTheAnswer: nothing that stands around a block makes it pass.
func TestCase_o_hk_02_NoiseAroundTheAnswer(t *testing.T) {
	block := `{"decision":"block","reason":"not this"}`
	for name, output := range map[string]string{
		"a greeting":         "Shell ready\n" + block + "\n",
		"in one line":        "Shell ready " + block + "\n",
		"byte order mark":    "\ufeff" + block,
		"mark and greeting":  "\ufeffShell ready\n" + block,
		"trailing log":       block + "\ndone in 3 ms\n",
		"trailing, one line": block + " done in 3 ms\n",
		"two, block first":   block + "\n" + `{"decision":"approve"}` + "\n",
		"two, block last":    `{"decision":"approve"}` + "\n" + block + "\n",
		"a JSON log before":  `{"level":"debug","msg":"start"}` + "\n" + block + "\n",
		"a list":             "[" + block + "]\n",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.file("output", output)
			w.user(hook("PreToolUse", "", "cat output"))
			w.run("go", bash("touch ran"), done)
			if w.exists("ran") || !strings.Contains(w.results()[0], "not this") {
				t.Errorf("%q\n%s", w.results(), w.log.String())
			}
		})
	}
	// What is cut is a failure, which is told, and blocks where it is to.
	for onFailure, ran := range map[string]bool{"allow": true, "block": false} {
		w := newWorld(t)
		w.user(hook("PreToolUse", "", `echo '{"decision":"block"'`, `,"on_failure":"`+onFailure+`"`))
		w.run("go", bash("touch ran"), done)
		if w.exists("ran") != ran || w.outcomes()[0].Error == "" || !strings.Contains(w.log.String(), "a hook failed") {
			t.Errorf("%s: %q, %+v", onFailure, w.results(), w.outcomes())
		}
	}
}

// TestCase_o_hk_03_AHookThatHangs: it is ended, the log says so, and what it was asked about goes as configured. That nothing
// of it is left is seen on the binary, from outside of its namespace.
func TestCase_o_hk_03_AHookThatHangs(t *testing.T) {
	for onFailure, ran := range map[string]bool{"allow": true, "block": false} {
		t.Run(onFailure, func(t *testing.T) {
			w := newWorld(t)
			w.user(hook("PreToolUse", "", "sleep 60 & sleep 60", `,"timeout":2,"on_failure":"`+onFailure+`"`))
			began := time.Now()
			w.run("go", bash("touch ran"), done)
			if took := time.Since(began); took < 2*time.Second || took > 4*time.Second {
				t.Errorf("it took %v", took)
			}
			if w.err != nil || w.exists("ran") != ran {
				t.Errorf("ran: %v, %v", w.exists("ran"), w.err)
			}
			o := w.outcomes()
			if len(o) != 1 || !o[0].TimedOut || !strings.Contains(o[0].Error, "timeout") || o[0].OnFailure != onFailure || !strings.Contains(w.log.String(), "a hook failed") {
				t.Errorf("the log has %+v", o)
			}
		})
	}
}
