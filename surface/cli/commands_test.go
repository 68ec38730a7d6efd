package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/dsh-harness/dsh/internal/testllm"
)

func TestHelpIsThereForEveryCommand(t *testing.T) {
	b := newBox(t)
	for _, args := range [][]string{
		{"help"}, {"--help"}, {"run", "--help"}, {"help", "run"}, {"resume", "-h"}, {"demo", "-h"}, {"sessions", "-h"}, {"sessions"},
		{"help", "sessions", "show"}, {"config", "-h"}, {"plugins"}, {"tools", "-h"}, {"models", "-h"}, {"doctor", "-h"}, {"version", "-h"},
		{"help", "environment"}, {"completion", "bash"}, {"completion", "zsh"}, {"completion", "fish"}, {"completion", "powershell"},
	} {
		if o := b.run(args...); o.code != 0 || o.stdout == "" || o.stderr != "" {
			t.Errorf("%v: %+v", args, o)
		}
	}
	if o := b.run("help", "environment"); !strings.Contains(o.stdout, "DEEPSEEK_API_KEY") || !strings.Contains(o.stdout, "DSH_HOME") || !strings.Contains(o.stdout, "DSH_PERMISSION_MODE") {
		t.Error(o.stdout)
	}
	if o := b.run("__complete", "sessions", "sh"); !strings.Contains(o.stdout, "show") {
		t.Error(o.stdout)
	}
}

func TestVersion(t *testing.T) {
	b := newBox(t)
	for _, args := range [][]string{{"version"}, {"--version"}} {
		if o := b.run(args...); o.code != 0 || !strings.HasPrefix(o.stdout, "dsh ") || !strings.Contains(o.stdout, runtime.Version()) {
			t.Errorf("%+v", o)
		}
	}
	var v map[string]any
	if err := json.Unmarshal([]byte(b.run("version", "--json").stdout), &v); err != nil || v["go"] != runtime.Version() {
		t.Error(v, err)
	}
}

// The layers are those of the design, later ones on top: profile, user, patch, --set.
func TestLayersOfTheConfiguration(t *testing.T) {
	b := newBox(t)
	user := filepath.Join(b.home, "config", "cordis.yml")
	if err := os.MkdirAll(filepath.Dir(user), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(user, []byte("\ufeff- id: repetition-guard\n  config: {limit: 7}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	patch := b.write("p.yml", "- id: repetition-guard\n  config: {limit: 8}\n")
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "limit: 7 # user"},
		{[]string{"--patch", patch}, "limit: 8 # patch " + patch},
		{[]string{"--patch", patch, "--set", "repetition-guard.limit=9"}, "limit: 9 # --set"},
	} {
		if o := b.run(append([]string{"config", "show"}, test.args...)...); o.code != 0 || !strings.Contains(o.stdout, test.want) {
			t.Errorf("%v: %+v\nwant %s", test.args, o, test.want)
		}
	}
	b.run("config", "check").want(t, 0, b.run("config", "check").stdout)
	if o := b.run("config", "show"); strings.Contains(o.stdout, "sk-test") || strings.Contains(o.stdout, b.llm.URL) {
		t.Error("show tells what a reference stands for")
	}
}

func TestTheFileOfAProjectIsIgnoredAndSaid(t *testing.T) {
	b := newBox(t)
	b.answers(2)
	file := b.write(".dsh/cordis.yml", "- id: deepseek\n  disabled: true\n")
	o := b.run("run", "x")
	o.want(t, 0, "ok\n", "ignored, as nobody trusts it: .dsh/cordis.yml (new); look with dsh trust, then use it with --trust ")
	if strings.Count(o.stderr, "\n") != 1 {
		t.Errorf("stderr has more than a line:\n%s", o.stderr)
	}
	o = b.run("run", "--patch", file, "x")
	if o.code != 2 || strings.Contains(o.stderr, "ignored") {
		t.Errorf("%+v", o)
	}
}

func TestConfigCommands(t *testing.T) {
	b := newBox(t)
	var schema map[string]any
	if err := json.Unmarshal([]byte(b.run("config", "schema").stdout), &schema); err != nil || schema["title"] != "cordis.yml" {
		t.Error(err, schema["title"])
	}
	var paths map[string]string
	if err := json.Unmarshal([]byte(b.run("config", "path", "--json").stdout), &paths); err != nil || paths["state"] != filepath.Join(b.home, "state") {
		t.Error(err, paths)
	}
	bad := b.write("bad.yml", "- id: deepseek\n  config: {nam: x, exact: 3}\n")
	o := b.run("config", "check", "--json", "--patch", bad)
	var answer struct{ Problems []struct{ At, Detail string } }
	if err := json.Unmarshal([]byte(o.stdout), &answer); err != nil || len(answer.Problems) != 2 || answer.Problems[0].At != bad+":2:12" || o.code != 2 {
		t.Errorf("%v: %+v", err, o)
	}
	b.run("config", "check", "--patch", bad).want(t, 2, "", bad+":2:12", bad+":2:27")
}

func TestWhatIsMountedIsListed(t *testing.T) {
	b := newBox(t)
	var rows []struct{ ID, State, Layer string }
	if err := json.Unmarshal([]byte(b.run("plugins", "list", "--json").stdout), &rows); err != nil || len(rows) < 15 {
		t.Fatal(err, rows)
	}
	for _, r := range rows {
		if r.State != "active" || !strings.HasPrefix(r.Layer, "profile ") {
			t.Errorf("%+v", r)
		}
	}
	// A row that fails is reported, and the rest runs.
	o := b.run("plugins", "list", "--set", "extra={plugin: llm-replay, config: {file: nope.yml}}")
	if o.code != 0 || !strings.Contains(o.stderr, "extra failed") || !strings.Contains(o.stdout, "extra ") || !strings.Contains(o.stderr, "the rest runs") {
		t.Errorf("%+v", o)
	}
	// One that is required ends the program.
	o = b.run("run", "--set", "llm.disabled=true", "x")
	if o.code != 2 || strings.Count(o.stderr, "\n") != 1 || !strings.Contains(o.stderr, "llm") {
		t.Errorf("%+v", o)
	}
	var tools []struct{ Name, Description string }
	if err := json.Unmarshal([]byte(b.run("tools", "--json").stdout), &tools); err != nil || len(tools) < 4 || tools[0].Name != "read" || tools[0].Description == "" {
		t.Error(err, tools)
	}
	var models []struct {
		Provider, ID, Missing string
		Default               bool
	}
	b.env["DEEPSEEK_API_KEY"] = ""
	if err := json.Unmarshal([]byte(b.run("models", "--json").stdout), &models); err != nil || len(models) == 0 || !models[0].Default || !strings.Contains(models[0].Missing, "DEEPSEEK_API_KEY") {
		t.Error(err, models)
	}
	if o := b.run("plugins", "show", "llm-openai"); o.code != 0 || !strings.Contains(o.stdout, "`baseURL`") {
		t.Errorf("%+v", o)
	}
}

func TestDoctorSaysWhatToDo(t *testing.T) {
	b := newBox(t)
	b.answers(1)
	o := b.run("doctor")
	if o.code != 0 || !strings.Contains(o.stdout, "deepseek/deepseek-v4-flash answered") || strings.Contains(o.stdout, "BAD") {
		t.Errorf("%+v", o)
	}
	confined := strings.Contains(o.stdout, "ok   commands       commands run in a sandbox")
	if !confined && (!strings.Contains(o.stdout, "note commands       ") || !strings.Contains(o.stdout, "is asked about at a terminal")) {
		t.Errorf("doctor does not tell how commands are confined: %s", o.stdout)
	}
	b.run("doctor", "--offline")
	b.sent(1)

	b.llm.Script(testllm.Fail(401, "no such key"))
	o = b.run("doctor", "--json")
	var findings []struct {
		Check, Detail, Advice string
		OK                    bool
	}
	if err := json.Unmarshal([]byte(o.stdout), &findings); err != nil || o.code != 1 {
		t.Fatalf("%v: %+v", err, o)
	}
	for _, f := range findings {
		if f.OK != (f.Check != "model") || f.Detail == "" {
			t.Errorf("%+v", f)
		}
	}
	b.env["DEEPSEEK_API_KEY"] = ""
	if o = b.run("doctor"); o.code != 1 || !strings.Contains(o.stdout, "BAD  key") || !strings.Contains(o.stdout, "set the environment variable DEEPSEEK_API_KEY") {
		t.Errorf("%+v", o)
	}
	b.sent(2)
}

func TestDemoNeedsNothing(t *testing.T) {
	b := newBox(t)
	b.env = map[string]string{"PATH": "/usr/bin:/bin", "HOME": filepath.Join(b.home, "not there yet")}
	o := b.run("demo", "here")
	if o.code != 0 || o.stderr != "" {
		t.Fatalf("%+v", o)
	}
	for _, part := range []string{
		"A scripted model answers", "→ bash sh test.sh", "FAILED  4 is IV, but roman.sh says IIII", "→ edit roman.sh", "all passed",
		"4=IV", "sessions show ", "DEEPSEEK_API_KEY",
	} {
		if !strings.Contains(o.stdout, part) {
			t.Errorf("the demo lacks %q:\n%s", part, o.stdout)
		}
	}
	if strings.Contains(o.stdout, "✗") {
		t.Errorf("a call failed:\n%s", o.stdout)
	}
	if text := string(b.read(filepath.Join(b.dir, "here", "roman.sh"))); !strings.Contains(text, "4=IV") {
		t.Error("roman.sh was not mended")
	}
	// What it says to type works, word for word.
	typed := func(stdout string) string {
		before, _, _ := strings.Cut(stdout, " sessions show ")
		return strings.TrimSpace(before[strings.LastIndex(before, "\n")+1:])
	}
	if got := typed(o.stdout); got != binary {
		t.Errorf("it says to type %q and is %s, which is not on the path", got, binary)
	}
	b.env["PATH"] += string(filepath.ListSeparator) + filepath.Dir(binary)
	if got := typed(b.run("demo", "there").stdout); got != filepath.Base(binary) {
		t.Errorf("on the path it says to type %q", got)
	}
	_, rest, _ := strings.Cut(o.stdout, "sessions show ")
	id, _, _ := strings.Cut(rest, " ")
	if o := b.run("sessions", "show", id); o.code != 0 || !strings.Contains(o.stdout, "The tests fail") {
		t.Errorf("%+v", o)
	}
	b.run("demo", "here").want(t, 2, "", "the folder is not empty")
	b.sent(0)
}

// Everything before main is paid by every command, so it has a budget: 2 ms of package initialisation.
func TestInitialisationIsShort(t *testing.T) {
	b := newBox(t)
	b.env["GODEBUG"] = "inittrace=1"
	best := 1e9
	var worst string
	for range 20 { // the machine may be busy with something else
		total, slowest := 0.0, 0.0
		for line := range strings.Lines(b.run("version").stderr) {
			// init internal/bytealg @0.008 ms, 0 ms clock, 0 bytes, 0 allocs
			fields := strings.Fields(line)
			if len(fields) < 5 || fields[0] != "init" {
				continue
			}
			var ms float64
			if err := json.Unmarshal([]byte(fields[4]), &ms); err != nil {
				t.Fatalf("%v in %q", err, line)
			}
			total += ms
			if ms > slowest {
				slowest, worst = ms, line
			}
		}
		if best = min(best, total); best <= 2 {
			break
		}
	}
	if best == 0 || best > 2 {
		t.Errorf("package initialisation takes %.2f ms, more than 2; the longest: %s", best, worst)
	}
}
