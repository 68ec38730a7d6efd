package mode

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dsh-harness/dsh/internal/home"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
)

func (w *world) confinement(t *testing.T, m policy.Mode, g workspace.Grant, more ...string) *workspace.Confinement {
	t.Helper()
	p := newPipeline(t, Config{Mode: m, Masked: Places{Add: more}}, nil)
	c, err := workspace.Confining.Run(workspace.WithGrant(t.Context(), g), p.scope, &workspace.Confinement{Write: w.workspace.Roots()}, same)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestWhatACommandMayTouch(t *testing.T) {
	w := newWorld(t)
	roots := w.workspace.Roots()
	for _, dir := range []string{".claude", ".vscode", "deep/.vscode"} {
		if err := os.MkdirAll(filepath.Join(w.project, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	has := func(list []string, path string) bool { return slices.Contains(list, path) }
	for _, m := range policy.Modes() {
		c := w.confinement(t, m, workspace.Grant{})
		if m == policy.FullAccess {
			if c.Unconfined != "mode full-access" {
				t.Errorf("%s: %+v", m, c)
			}
			continue
		}
		// What changes nothing has its folders, and all of them protected.
		protected := m == policy.ReadOnly || m == policy.Plan
		if !slices.Equal(c.Write, roots) || has(c.Protect, roots[0]) != protected || c.Unconfined != "" {
			t.Errorf("%s writes %q but for %q; unconfined: %q", m, c.Write, c.Protect, c.Unconfined)
		}
		for path, masked := range map[string]bool{w.home + "/.ssh": true, w.dirs.State: true, w.home + "/.gnupg": false, w.project: false, w.home: false} {
			if has(c.Mask, path) != masked {
				t.Errorf("%s masks %s: %v; it masks %q", m, path, !masked, c.Mask)
			}
		}
		if writes := m == policy.AskFirst || m == policy.WorkspaceWrite; writes {
			for _, name := range []string{"AGENTS.md", ".github/workflows", ".envrc"} {
				if !has(c.Protect, filepath.Join(w.project, name)) {
					t.Errorf("%s does not protect %s", m, name)
				}
			}
			for _, name := range []string{".dsh", ".mcp.json", ".claude", ".vscode"} {
				if !has(c.Reserve, filepath.Join(w.project, name)) {
					t.Errorf("%s does not reserve %s", m, name)
				}
			}
		}
		for _, path := range slices.Concat(c.Protect, c.Reserve) {
			if isWithin(w.workspace.Temp(), path) || !filepath.IsAbs(path) || strings.ContainsAny(path, "*?") {
				t.Errorf("%s protects %s", m, path)
			}
		}
	}
}

func TestPlacesOfTheConfigurationAreMasked(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{".env", "src/.env"} {
		if err := os.WriteFile(filepath.Join(w.project, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := w.confinement(t, policy.WorkspaceWrite, workspace.Grant{}, ".env", "~/notes.*", "src/.env")
	for _, path := range []string{w.project + "/.env", w.home + "/notes.txt", w.project + "/src/.env"} {
		if !slices.Contains(c.Mask, path) {
			t.Errorf("%s is not masked: %q", path, c.Mask)
		}
	}
}

// Whoever works in somebody else's home sees the folder, and nothing else in there.
func TestSomebodyElsesHomeIsMaskedBesideTheFolder(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"home/me/x", "home/her/project/src", "home/her/private", "home/them"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	me := filepath.Join(base, "home", "me")
	r := newRules(me, home.Dirs{State: base + "/state", Config: base + "/config"}, Config{})
	r.masked, r.otherHomes = nil, newPlaces(resolver{}, me, []string{filepath.ToSlash(base) + "/home/*"})
	got := r.masks([]string{filepath.Join(base, "home", "her", "project")})
	slices.Sort(got)
	if want := []string{filepath.Join(base, "home", "her", "private"), filepath.Join(base, "home", "them")}; !slices.Equal(got, want) {
		t.Errorf("masked %q, want %q", got, want)
	}
}

// What a person granted may be written, also where it is protected, and never where it is masked.
func TestGrantsGoBeforeProtectionAndBehindMasks(t *testing.T) {
	w := newWorld(t)
	workflows := filepath.Join(w.project, ".github", "workflows")
	for _, name := range []string{"ci.yml", "release.yml"} {
		if err := os.MkdirAll(workflows, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(workflows, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ssh, granted := filepath.Join(w.home, ".ssh"), []string{
		w.outside, filepath.Join(w.project, ".mcp.json"), filepath.Join(workflows, "ci.yml"),
	}
	c := w.confinement(t, policy.WorkspaceWrite, workspace.Grant{Write: append([]string{ssh, ssh + "/config", w.dirs.State + "/sessions"}, granted...)})
	if got := c.Write[2:]; !slices.Equal(got, granted) {
		t.Errorf("writes %q beyond the roots, want %q", got, granted)
	}
	kept := slices.Concat(c.Protect, c.Reserve)
	for path, want := range map[string]bool{
		filepath.Join(w.project, ".mcp.json"): false, filepath.Join(w.project, ".claude"): true,
		workflows: false, filepath.Join(workflows, "ci.yml"): false, filepath.Join(workflows, "release.yml"): true,
	} {
		if slices.Contains(kept, path) != want {
			t.Errorf("%s is kept: %v, want %v", path, !want, want)
		}
	}
	if !slices.Contains(c.Mask, ssh) {
		t.Errorf("%s is not masked any more", ssh)
	}
}

// Whatever is granted, nothing masked is written.
func TestNoGrantReachesAMaskedPlace(t *testing.T) {
	w := newWorld(t)
	r := newRules(w.home, w.dirs, Config{})
	call := w.call(workspace.SandboxFull)
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.SampledFrom([]string{w.home, w.home + "/.ssh", w.dirs.State, w.project, w.outside, "/", "/etc", "/proc/1"}).Draw(t, "base")
		rest := rapid.SampledFrom([]string{"", "/.ssh", "/../.ssh/x", "/id", "/environ", "/shadow", "/../../x", "/sessions/s1"}).Draw(t, "rest")
		grant, refused := r.grant(call, []workspace.Refusal{{Kind: workspace.RefusedWrite, Target: base + rest}}, workspace.Grant{})
		for _, path := range grant.Write {
			if r.masked.match(newSpot(workspace.Place{Path: path}, path)) != "" || isWithin(w.dirs.State, path) || isWithin(path, w.home) || isWithin(path, w.project) && path != w.project {
				t.Fatalf("%s%s would be granted as %s", base, rest, path)
			}
		}
		if len(grant.Write) != len(refused) {
			t.Fatalf("%d grants for %d refusals", len(grant.Write), len(refused))
		}
	})
}

// What was decided about a call reaches its body: the places that it may write beyond the mode, and no others.
func TestApprovedPlacesCanBeWritten(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		name      string
		mode      policy.Mode
		arguments string
		granted   []string
		writes    string // to this file outside
		written   bool
	}{
		{"a command and a control file", policy.WorkspaceWrite, `{"run":"touch AGENTS.md"}`, []string{w.project + "/AGENTS.md"}, "", false},
		{"a command", policy.WorkspaceWrite, `{"run":"make"}`, nil, "", false},
		{"a file outside", policy.AskFirst, `{"write":"../new.txt"}`, nil, "../new.txt", true},
		{"a file outside, with full access", policy.FullAccess, `{"write":"../new.txt"}`, nil, "../new.txt", true},
		{"a file beside what was approved", policy.AskFirst, `{"write":"../new.txt"}`, nil, "../notes.txt", false},
		{"a file inside", policy.WorkspaceWrite, `{"write":"a.go"}`, nil, "../new.txt", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPipeline(t, Config{Mode: c.mode}, &person{answer: policy.Answer{Allow: true}})
			call := w.call(workspace.SandboxFull)
			p.body = func(ctx context.Context) (tool.Result, error) {
				if got := workspace.GrantOf(ctx).Write; !slices.Equal(got, c.granted) {
					t.Errorf("granted %q, want %q", got, c.granted)
				}
				if c.writes == "" {
					return tool.Result{}, nil
				}
				err := call.Workspace.FS().WriteFile(c.writes, []byte("x"), workspace.WriteOptions{})
				if (err == nil) != c.written {
					t.Errorf("writing %s: %v", c.writes, err)
				}
				return tool.Result{}, nil
			}
			p.Execute(t.Context(), p.scope, p.Prepare(t.Context(), p.scope, call, c.arguments))
			if p.ran != 1 {
				t.Errorf("it ran %d times", p.ran)
			}
			if err := call.Workspace.FS().WriteFile("../new.txt", []byte("y"), workspace.WriteOptions{}); err == nil {
				t.Error("the place can be written after the call")
			}
		})
	}
}

// A host that a person allowed can be reached by the call, on the ports of the web where none is named.
func TestApprovedHostsCanBeReached(t *testing.T) {
	w := newWorld(t)
	for target, want := range map[string]string{"example.org": "example.org:443 example.org:80", "example.org:8080": "example.org:8080", "::1": "[::1]:443 [::1]:80"} {
		for allow, want := range map[bool]string{true: want, false: ""} {
			p := newPipeline(t, Config{Mode: policy.WorkspaceWrite}, &person{answer: policy.Answer{Allow: allow}})
			got := ""
			p.body = func(ctx context.Context) (tool.Result, error) {
				got = strings.Join(workspace.GrantOf(ctx).Hosts, " ")
				return tool.Result{}, nil
			}
			p.Execute(t.Context(), p.scope, p.Prepare(t.Context(), p.scope, w.call(workspace.SandboxFull), `{"fetch":"`+target+`"}`))
			if got != want {
				t.Errorf("%s, allowed: %v: got %q, want %q", target, allow, got, want)
			}
		}
	}
}

// A link that leads elsewhere by the time the call runs takes nothing along.
func TestWhatIsWidenedIsWhatWasDecidedOn(t *testing.T) {
	w := newWorld(t)
	p := newPipeline(t, Config{Mode: policy.AskFirst}, &person{answer: policy.Answer{Allow: true}})
	call := w.call(workspace.SandboxFull)
	prepared := p.Prepare(t.Context(), p.scope, call, `{"write":"away/new"}`)
	if err := os.Remove(filepath.Join(w.project, "away")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(w.home, filepath.Join(w.project, "away")); err != nil {
		t.Fatal(err)
	}
	p.body = func(context.Context) (tool.Result, error) {
		if err := call.Workspace.FS().WriteFile("away/new", []byte("x"), workspace.WriteOptions{}); err == nil {
			t.Error("it wrote in a folder that nobody was asked about")
		}
		return tool.Result{}, nil
	}
	p.Execute(t.Context(), p.scope, prepared)
}

func BenchmarkConfine(b *testing.B) {
	base := b.TempDir()
	r := newRules(base, home.Dirs{State: base + "/s", Config: base + "/c"}, Config{})
	roots := []string{filepath.Join(base, "project"), filepath.Join(base, "temp")}
	for b.Loop() {
		r.masks(roots)
		r.controls(roots)
	}
}
