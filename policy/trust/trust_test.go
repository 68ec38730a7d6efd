package trust

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/policy"
)

// place is a folder and a store, in a home of its own.
type place struct {
	t     *testing.T
	dir   string
	store *Store
}

func newPlace(t *testing.T) *place {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("DSH_HOME", filepath.Join(root, "home"))
	p := &place{t, filepath.Join(root, "work"), NewStore(filepath.Join(root, "home", "state"))}
	if err := os.Mkdir(p.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *place) write(name, text string) {
	p.t.Helper()
	path := filepath.Join(p.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) scan() Folder {
	p.t.Helper()
	f, err := Scan(p.t.Context(), p.dir)
	if err != nil {
		p.t.Fatal(err)
	}
	return f
}

func (p *place) trust() {
	p.t.Helper()
	if err := p.store.Add(p.t.Context(), p.scan(), "test"); err != nil {
		p.t.Fatal(err)
	}
}

// truster is the service that the plugin provides.
func (p *place) truster(accept ...string) policy.Truster {
	p.t.Helper()
	tree := plugin.New(nil)
	p.t.Cleanup(func() {
		if err := tree.Close(context.Background()); err != nil {
			p.t.Error(err)
		}
	})
	var service policy.Truster
	_, err := tree.Root().MountAll(
		plugin.Child{Name: "trust", Start: func(ctx context.Context, s *plugin.Scope) error {
			return Plugin.Start(ctx, s, Config{Accept: accept})
		}},
		plugin.Child{Name: "test", Needs: []plugin.Need{policy.Trust.Required()}, Start: func(_ context.Context, s *plugin.Scope) error {
			service = policy.Trust.From(s)
			return nil
		}},
	)
	if err == nil {
		err = tree.Settle(context.Background())
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return service
}

// gives returns which files the truster gives out.
func (p *place) gives(t policy.Truster) (all []string) {
	p.t.Helper()
	for _, k := range kinds() {
		content, err := t.Trusted(p.t.Context(), p.dir, k.path)
		if err != nil {
			p.t.Fatal(err)
		}
		if content != nil {
			all = append(all, k.path)
		}
	}
	return all
}

func TestOnlyWhatSaysSomethingCounts(t *testing.T) {
	for _, c := range []struct {
		path, text string
		counts     bool
	}{
		{".dsh/cordis.yml", "# nothing\n---\n[]\n", false},
		{".dsh/cordis.yml", "- {id: a}", true},
		{".dsh/cordis.yml", "\x00", true},
		{".dsh/permissions.yml", "", false},
		{".dsh/permissions.yml", "allow: [Bash(make)]", true},
		{".dsh/hooks.json", "", false},
		{".dsh/hooks.json", "\ufeff{}", false},
		{".dsh/hooks.json", `{"description":"none","hooks":{ }}`, false},
		{".dsh/hooks.json", `{"hooks":{"Stop":[{}]}}`, true},
		{".codex/hooks.json", `{"Stop":[{}]}`, true},
		{".codex/hooks.json", `{not json`, true},
		{".claude/settings.json", `{"model":"x","env":{"PATH":"."},"hooks":{},"permissions":{"allow":[],"defaultMode":"x"}}`, false},
		{".claude/settings.json", `{"HOOKS":{"Stop":[{}]}}`, true},
		{".claude/settings.local.json", `{"permissions":{"deny":["Bash"]}}`, true},
		{".claude/settings.json", `{"permissions":"?"}`, true},
		{".env", "HOME=x", false},
		{".mcp.json", `{"mcpServers":{"a":{"command":"x"}}}`, false}, // nothing starts them
		{"AGENTS.md", "text", false},
	} {
		p := newPlace(t)
		p.write(c.path, c.text)
		f := p.scan()
		if counts := len(f.Definitions) == 1; counts != c.counts || counts != (f.Hash != "") {
			t.Errorf("%s %q: %+v", c.path, c.text, f)
		}
	}
}

func TestWhatCannotBeTrusted(t *testing.T) {
	p := newPlace(t)
	outer := filepath.Join(filepath.Dir(p.dir), "outer.yml")
	if err := os.WriteFile(outer, []byte("- {id: a}"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.write(".dsh/permissions.yml", "allow: ['"+strings.Repeat("x", maxDefinition)+"']")
	if err := os.Symlink(outer, filepath.Join(p.dir, ".dsh", "cordis.yml")); err != nil {
		t.Skip("no links here: " + err.Error())
	}
	p.write(".claude", "a file")
	p.write("secret/x", "")
	if err := os.Symlink(outer, filepath.Join(p.dir, "script")); err != nil {
		t.Fatal(err)
	}
	p.write(".dsh/hooks.json", `{"Stop":[{"hooks":[{"type":"command","command":"./script"}]}]}`)
	f := p.scan()
	if len(f.Definitions) != 3 || f.Hash != "" {
		t.Fatalf("%+v", f)
	}
	for _, d := range f.Definitions {
		if d.Problem == "" || d.Hash != "" {
			t.Errorf("%s: %q, hash %q", d.Path, d.Problem, d.Hash)
		}
	}
	if err := p.store.Add(t.Context(), f, "test"); err == nil {
		t.Error("it was trusted")
	}
	if got := p.gives(p.truster(strings.Repeat("0", 64))); got != nil {
		t.Errorf("given out: %q", got)
	}
}

const hooksFile = `{"hooks":{"PreToolUse":[{"matcher":"Bash","hooks":[{"type":"command","command":"\"$CLAUDE_PROJECT_DIR\"/tools/check.sh --strict; python3 other.py"}]}]}}`

// TestTrust_C04_AChangedDefinitionIsNotTrusted: what a person trusted is its bytes and those of the scripts that it names. Another byte of one
// of them takes the trust from this definition and from no other.
func TestTrust_C04_AChangedDefinitionIsNotTrusted(t *testing.T) {
	const hooks, rules, settings = ".dsh/hooks.json", ".dsh/permissions.yml", ".claude/settings.json"
	set := func(t *testing.T) (*place, policy.Truster) {
		p := newPlace(t)
		p.write(hooks, hooksFile)
		p.write(rules, "deny: [Bash(curl)]")
		p.write(settings, `{"permissions":{"allow":["Bash(make)"]}}`)
		p.write("tools/check.sh", "exit 0")
		truster := p.truster()
		if got := p.gives(truster); got != nil {
			t.Fatalf("before anybody trusted: %q", got)
		}
		p.trust()
		if got := p.gives(truster); !slices.Equal(got, []string{rules, hooks, settings}) {
			t.Fatalf("trusted: %q", got)
		}
		return p, truster
	}
	for name, c := range map[string]struct {
		change func(p *place)
		stay   []string
	}{
		"command":          {func(p *place) { p.write(hooks, strings.Replace(hooksFile, "strict", "lax", 1)) }, []string{rules, settings}},
		"blank":            {func(p *place) { p.write(hooks, hooksFile+" ") }, []string{rules, settings}},
		"script":           {func(p *place) { p.write("tools/check.sh", "exit 1") }, []string{rules, settings}},
		"script appears":   {func(p *place) { p.write("other.py", "") }, []string{rules, settings}},
		"script goes":      {func(p *place) { _ = os.Remove(filepath.Join(p.dir, "tools", "check.sh")) }, []string{rules, settings}},
		"rule":             {func(p *place) { p.write(rules, "deny: [Bash(curl )]") }, []string{hooks, settings}},
		"nothing it names": {func(p *place) { p.write("main.go", "x") }, []string{rules, hooks, settings}},
		"new definition":   {func(p *place) { p.write(".dsh/cordis.yml", "- {id: x}") }, []string{rules, hooks, settings}},
		"removed": {func(p *place) {
			if removed, err := p.store.Remove(t.Context(), p.dir); err != nil || !removed {
				t.Errorf("removed %v, %v", removed, err)
			}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p, truster := set(t)
			c.change(p)
			if got := p.gives(truster); !slices.Equal(got, c.stay) {
				t.Errorf("still trusted: %q, want %q", got, c.stay)
			}
			states, err := p.store.States(p.scan())
			if err != nil || name == "command" && !slices.Contains(states, Changed) {
				t.Errorf("%q, %v", states, err)
			}
			if name != "removed" {
				p.trust()
				if got := p.gives(truster); len(got) < 3 {
					t.Errorf("asked again and trusted: %q", got)
				}
			}
		})
	}
}

// TestTrust_C04_ASetForOneRunIsExact: what was accepted for a run is the set as it was.
func TestTrust_C04_ASetForOneRunIsExact(t *testing.T) {
	p := newPlace(t)
	p.write(".dsh/permissions.yml", "deny: [Bash(curl)]")
	hash := p.scan().Hash
	truster := p.truster(hash)
	if got := p.gives(truster); len(got) != 1 {
		t.Fatalf("accepted: %q", got)
	}
	p.write(".dsh/cordis.yml", "- {id: x}")
	if got := p.gives(truster); got != nil {
		t.Errorf("another set: %q", got)
	}
	if list, err := p.store.List(); err != nil || len(list) != 0 {
		t.Errorf("kept: %v, %v", list, err)
	}
	for _, wrong := range []string{"", "x", hash[1:], strings.ToUpper("a" + hash[1:]), hash + "00"} {
		if (&Config{Accept: []string{wrong}}).Validate() == nil {
			t.Errorf("%q is a hash", wrong)
		}
	}
}

// The files that a hook runs belong to it. Others that it names, such as what it writes, do not.
func TestTheFilesThatHooksRun(t *testing.T) {
	for _, c := range []struct{ hook, want string }{
		{`"command":"./x"`, "x"},
		{`"command":"sh log"`, "log"},
		{`"command":"python3 -u $CLAUDE_PROJECT_DIR/log"`, "log"},
		{`"command":"\"$CLAUDE_PROJECT_DIR\"/in/a.sh >> log 2>&1; touch log"`, "in/a.sh"},
		{`"command":"true && . log"`, "log"},
		{`"command":"node","args":["log","-x"]`, "log"},
		{`"command":"HERE/x","args":["with blank.py"]`, "with blank.py x"},
		{`"command":"cat log in missing.sh; echo x.y"`, ""},
	} {
		p := newPlace(t)
		for name, mode := range map[string]os.FileMode{"x": 0o700, "log": 0o600, "in/a.sh": 0o600, "with blank.py": 0o600} {
			p.write(name, "text")
			if err := os.Chmod(filepath.Join(p.dir, filepath.FromSlash(name)), mode); err != nil {
				t.Fatal(err)
			}
		}
		p.write(".dsh/hooks.json", `{"hooks":{"Stop":[{"hooks":[{`+strings.ReplaceAll(c.hook, "HERE", filepath.ToSlash(p.dir))+`}]}]}}`)
		if f := p.scan(); len(f.Definitions) != 1 || strings.Join(f.Definitions[0].Scripts, " ") != c.want {
			t.Errorf("%s: %+v, want %q", c.hook, f, c.want)
		}
	}
}

func TestTrustIsOfOneFolder(t *testing.T) {
	p := newPlace(t)
	p.write(".dsh/permissions.yml", "deny: [Bash(curl)]")
	p.write("in/.dsh/permissions.yml", "deny: [Bash(curl)]")
	p.trust()
	truster := p.truster()
	content, err := truster.Trusted(t.Context(), filepath.Join(p.dir, "in"), ".dsh/permissions.yml")
	if content != nil || err != nil {
		t.Errorf("the inner folder: %q, %v", content, err)
	}
	for _, path := range []string{"in/.dsh/permissions.yml", "../work/.dsh/permissions.yml", ".dsh/./permissions.yml", ".env"} {
		if content, err := truster.Trusted(t.Context(), p.dir, path); content != nil || err != nil {
			t.Errorf("%s: %q, %v", path, content, err)
		}
	}
	link := filepath.Join(filepath.Dir(p.dir), "link")
	if err := os.Symlink(p.dir, link); err != nil {
		t.Skip("no links here: " + err.Error())
	}
	if content, err := truster.Trusted(t.Context(), link, ".dsh/permissions.yml"); content == nil || err != nil {
		t.Errorf("by another name: %q, %v", content, err)
	}
}

func TestTheStoreFailsClosed(t *testing.T) {
	p := newPlace(t)
	p.write(".dsh/permissions.yml", "deny: [Bash(curl)]")
	p.trust()
	info, err := os.Stat(p.store.file.Path())
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info.Mode(), err)
	}
	good, err := os.ReadFile(p.store.file.Path())
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "{", `{"version":2}`, `{"version":1,"more":1}`, string(good) + "{}"} {
		if err := os.WriteFile(p.store.file.Path(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		content, err := p.truster().Trusted(t.Context(), p.dir, ".dsh/permissions.yml")
		if content != nil || err == nil {
			t.Errorf("%q: %q, %v", text, content, err)
		}
		if err := p.store.Add(t.Context(), p.scan(), "test"); err == nil {
			t.Errorf("%q was written over", text)
		}
	}
}

// Processes that add folders at once lose none.
func TestAddsAtOnceAreAllKept(t *testing.T) {
	p := newPlace(t)
	p.write(".dsh/permissions.yml", "deny: [Bash(curl)]")
	f := p.scan()
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			one := f
			one.Dir = fmt.Sprintf("%s-%d", f.Dir, n)
			if err := NewStore(filepath.Dir(p.store.file.Path())).Add(t.Context(), one, "test"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if list, err := p.store.List(); err != nil || len(list) != 8 {
		t.Errorf("%d folders, %v", len(list), err)
	}
}

// Whatever a hook file says, scanning it names only files of the folder.
func TestScriptsAreInTheFolder(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOf(rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"../x", "/etc/passwd", dir + "/a", dir + "2/a", "$CLAUDE_PROJECT_DIR/../x", "a/../../x", "~/.ssh/id"}))).Draw(t, "texts")
		text, err := json.Marshal(map[string]any{"hooks": texts})
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range words(dir, text) {
			if !filepath.IsLocal(filepath.FromSlash(w.name)) {
				t.Fatalf("%q leads out", w.name)
			}
		}
	})
}

// FuzzParse reads any trust.json: it is understood whole or refused.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "{}", `{"version":1,"folders":{"/a":{".dsh/cordis.yml":{"hash":"00","time":"2026-01-01T00:00:00Z","by":"x"}}}}`, `{"version":1,"folders":null}`, `{"version":1}x`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		content, err := parse([]byte(text))
		if err != nil {
			return
		}
		again, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parse(again); err != nil || content.Version != storeVersion {
			t.Fatalf("%q became %q: %v", text, again, err)
		}
	})
}

// FuzzScan decides about any hook file or settings without a failure, the same way twice.
func FuzzScan(f *testing.F) {
	for _, seed := range []string{"", "{}", hooksFile, `{"hooks":{"a":["x"]}}`, "[]", "\ufeff{}", "null", `{"permissions":{"allow":["x"]}}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, ".claude"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, ".claude", "settings.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		one, err := Scan(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		two, err := Scan(t.Context(), dir)
		if err != nil || one.Hash != two.Hash || len(one.Definitions) == 1 && string(one.Definitions[0].Content) != text && len(text) <= maxDefinition {
			t.Fatalf("%+v, then %+v, %v", one, two, err)
		}
	})
}
