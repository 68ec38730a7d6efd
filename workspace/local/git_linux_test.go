package local_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dsh-harness/dsh/internal/need"
	"github.com/dsh-harness/dsh/workspace"
	"github.com/dsh-harness/dsh/workspace/local"
	"github.com/dsh-harness/dsh/workspace/workspacetest"
)

// repository makes a repository with one commit, outside of any sandbox.
func repository(t *testing.T, dir string) {
	t.Helper()
	need.Program(t, "git", "git")
	outside(t, dir, "git init -q -b main . && git config user.name a && git config user.email a@example.com && echo a > a && git add a && git commit -qm first")
}

func outside(t *testing.T, dir, script string) string {
	t.Helper()
	c := exec.Command("bash", "-ec", script)
	c.Dir = dir
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// hijacks are ways to make git run something later, in the folder of a repository.
const hijacks = `
echo x > "$(git rev-parse --git-path hooks)/pre-commit"
git config core.fsmonitor /tmp/evil
git config core.hooksPath /tmp/evil
d=$(git rev-parse --git-common-dir)
mv "$d/hooks" "$d/hooks2"; mkdir "$d/hooks" && echo x > "$d/hooks/post-checkout"
mv "$d/config" "$d/config2"; cp "$d/config2" "$d/config"; echo '[core] fsmonitor = /tmp/evil' >> "$d/config"
rm -f "$d/config"; ln -sf /tmp/evil "$d/config"
mv .git .git2 && mkdir -p .git/hooks && echo x > .git/hooks/pre-commit
true`

// wantUnchanged fails when git would run something that was planted.
func wantUnchanged(t *testing.T, gitDir, config string) {
	t.Helper()
	now, err := os.ReadFile(filepath.Join(gitDir, "config"))
	must(t, err)
	if string(now) != config || strings.Contains(string(now), "evil") {
		t.Errorf("the configuration became %q", now)
	}
	for _, hook := range []string{"pre-commit", "post-checkout"} {
		if _, err := os.Lstat(filepath.Join(gitDir, "hooks", hook)); err == nil {
			t.Errorf("there is a hook %s", hook)
		}
	}
}

func configOf(t *testing.T, gitDir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(gitDir, "config"))
	must(t, err)
	return string(text)
}

func TestTrust_C07_HooksAndConfigurationOfEachKindOfRepository(t *testing.T) {
	w, dir := confined(t, nil)
	repository(t, dir)
	config := configOf(t, filepath.Join(dir, ".git"))
	planted, _ := sh(t, w, hijacks, workspace.Command{})
	wantUnchanged(t, filepath.Join(dir, ".git"), config)
	if out, result := sh(t, w, "echo b > b && git add b && git commit -qm second && git checkout -qb other && git log --oneline | wc -l", workspace.Command{}); out != "2\n" || result.Code != 0 {
		t.Errorf("commits do not work: %q %+v; before: %s", out, result, planted)
	}

	t.Run("without hooks", func(t *testing.T) {
		w, dir := confined(t, nil)
		repository(t, dir)
		must(t, os.RemoveAll(filepath.Join(dir, ".git", "hooks")))
		config := configOf(t, filepath.Join(dir, ".git"))
		sh(t, w, hijacks, workspace.Command{})
		wantUnchanged(t, filepath.Join(dir, ".git"), config)
		if _, err := os.Lstat(filepath.Join(dir, ".git", "hooks")); err == nil {
			t.Error("the folder of hooks came into being")
		}
	})
	t.Run("bare", func(t *testing.T) {
		w, dir := confined(t, nil)
		need.Program(t, "git", "git")
		outside(t, dir, "git init -q --bare -b main .")
		config := configOf(t, dir)
		sh(t, w, "echo x > hooks/pre-commit; mv hooks h; mkdir hooks; echo x > hooks/pre-commit; echo '[core] fsmonitor = evil' >> config; mv config c; echo '[core] fsmonitor = evil' > config; true", workspace.Command{})
		wantUnchanged(t, dir, config)
	})
	t.Run("link", func(t *testing.T) {
		w, dir := confined(t, nil)
		repository(t, dir)
		outside(t, dir, "mv .git real && ln -s real .git")
		config := configOf(t, filepath.Join(dir, "real"))
		_, result := sh(t, w, hijacks+"; rm -f .git; mkdir -p .git/hooks; echo x > .git/hooks/pre-commit", workspace.Command{})
		wantUnchanged(t, filepath.Join(dir, "real"), config)
		if link, err := os.Readlink(filepath.Join(dir, ".git")); err != nil || link != "real" {
			t.Errorf("the link leads to %q, %v; %+v", link, err, result)
		}
	})
	t.Run("submodule", func(t *testing.T) {
		w, dir := confined(t, nil)
		repository(t, dir)
		outside(t, dir, "git -c protocol.file.allow=always submodule add -q ./ sub 2>&1 && git commit -qm sub")
		module := filepath.Join(dir, ".git", "modules", "sub")
		config := configOf(t, module)
		sh(t, w, "cd sub; "+hijacks, workspace.Command{})
		wantUnchanged(t, module, config)
	})
	t.Run("named hooks", func(t *testing.T) {
		w, dir := confined(t, nil)
		repository(t, dir)
		outside(t, dir, "mkdir -p ci/hooks && git config core.hooksPath ci/hooks")
		sh(t, w, "echo x > ci/hooks/pre-commit; mv ci/hooks h; mv ci c; mkdir -p ci/hooks; echo x > ci/hooks/pre-commit; true", workspace.Command{})
		if _, err := os.Lstat(filepath.Join(dir, "ci", "hooks", "pre-commit")); err == nil {
			t.Error("a hook was planted where the configuration says")
		}
	})
}

// A person who allows a call to write a hook lets it write that hook, and what is beside it stays.
func TestAHookThatWasGranted(t *testing.T) {
	var grant string
	w, dir := confined(t, func(c *workspace.Confinement) {
		if grant != "" {
			c.Write = append(c.Write, grant)
		}
	})
	repository(t, dir)
	hooks := filepath.Join(dir, ".git", "hooks")
	for _, there := range []bool{true, false} {
		if !there {
			must(t, os.RemoveAll(hooks))
		}
		grant = ""
		const script = "mkdir -p .git/hooks; echo x > .git/hooks/pre-commit"
		_, result := sh(t, w, script, workspace.Command{})
		if len(result.Refused) != 1 || result.Refused[0].Target != filepath.Join(hooks, "pre-commit") {
			t.Fatalf("%+v", result)
		}
		grant = result.Refused[0].Target
		if out, result := sh(t, w, script+" && echo y >> .git/hooks/pre-push.sample", workspace.Command{}); there == (result.Code == 0) {
			t.Errorf("what is beside it: %q %+v", out, result)
		}
		if text, err := os.ReadFile(grant); err != nil || string(text) != "x\n" {
			t.Errorf("the hook is %q, %v", text, err)
		}
		must(t, os.Remove(grant))
	}
}

func TestCase_o_sbx_01_CommitsInALinkedWorktree(t *testing.T) {
	if asOrdinaryUser(t) {
		return
	}
	confined(t, nil)
	base := realDirBeside(t) // a sandbox has a /tmp of its own
	main, tree := filepath.Join(base, "main"), filepath.Join(base, "wt")
	must(t, os.Mkdir(main, 0o755))
	repository(t, main)
	outside(t, main, "git worktree add -q ../wt -b wt")
	config := configOf(t, filepath.Join(main, ".git"))
	w := workspacetest.Open(t, with(func(*workspace.Confinement) {}), workspace.Options{Dir: tree})
	out, result := sh(t, w, "echo f > f && git add f && git commit -qm in-worktree && git status --short && git log --oneline | wc -l", workspace.Command{})
	if out != "2\n" || result.Code != 0 {
		t.Fatalf("%q %+v", out, result)
	}
	if log := outside(t, main, "git log --oneline wt"); !strings.Contains(log, "in-worktree") {
		t.Errorf("the commit is not in the repository: %s", log)
	}
	sh(t, w, hijacks+"; echo x > "+main+"/.git/hooks/x; echo x > "+main+"/new; echo evil > "+main+"/.git/info/exclude", workspace.Command{})
	wantUnchanged(t, filepath.Join(main, ".git"), config)
	for _, path := range []string{main + "/.git/hooks/x", main + "/new"} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s was made", path)
		}
	}

	// What is planted grants nothing.
	secret := filepath.Join(realDirBeside(t), "secret")
	must(t, os.MkdirAll(secret, 0o755))
	for name, plant := range map[string]string{
		"a system folder":       "rm -rf .git; echo 'gitdir: /etc' > .git",
		"another repository":    "mkdir -p $S/.git/worktrees/wt $S/.git/objects $S/.git/refs; touch $S/.git/HEAD $S/.git/config; echo ../.. > $S/.git/worktrees/wt/commondir; echo /elsewhere/.git > $S/.git/worktrees/wt/gitdir; echo \"gitdir: $S/.git/worktrees/wt\" > .git",
		"objects that link":     "mkdir -p r/.git/worktrees/wt r/.git/refs; ln -s $S r/.git/objects; touch r/.git/HEAD r/.git/config; echo ../.. > r/.git/worktrees/wt/commondir; echo $PWD/.git > r/.git/worktrees/wt/gitdir; echo \"gitdir: $PWD/r/.git/worktrees/wt\" > .git",
		"a worktree that links": "mkdir -p r2/.git/worktrees; ln -s $S r2/.git/worktrees/wt; echo \"gitdir: $PWD/r2/.git/worktrees/wt\" > .git",
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(base, strings.ReplaceAll(name, " ", "-"))
			must(t, os.Mkdir(dir, 0o755))
			outside(t, dir, "S="+secret+"; "+plant)
			w := workspacetest.Open(t, with(func(*workspace.Confinement) {}), workspace.Options{Dir: dir})
			out, _ := sh(t, w, "touch "+secret+"/x "+secret+"/.git/objects/x /etc/dsh-test-x 2>&1; true", workspace.Command{})
			for _, path := range []string{secret + "/x", secret + "/.git/objects/x", "/etc/dsh-test-x"} {
				if _, err := os.Lstat(path); err == nil {
					t.Errorf("%s was made: %s", path, out)
				}
			}
		})
	}
}

func TestTrust_C06_NoRepositoryThatRunsSomethingComesIntoBeing(t *testing.T) {
	need.Program(t, "git", "git")
	for name, plant := range map[string]string{
		"a hook":             "mkdir -p .git/hooks; echo x > .git/hooks/pre-commit",
		"a hook, later":      "git init -q; echo x > .git/hooks/post-checkout",
		"a hook of a link":   "git init -q; ln -s /bin/true .git/hooks/pre-commit",
		"hooks that link":    "git init -q; rm -rf .git/hooks; mkdir h; ln -s ../h .git/hooks",
		"configuration":      "git init -q; git config core.fsmonitor ./x",
		"in one line":        "git init -q; echo '[core] hooksPath = h' >> .git/config",
		"over lines":         "git init -q; printf '[core]\\nfsmoni\\\\\\ntor = x\\n' >> .git/config",
		"an alias":           "git init -q; git config alias.st '!x'",
		"an include":         "git init -q; git config include.path ../x",
		"a filter":           "git init -q; git config filter.x.clean x",
		"a file":             "mkdir e; git init -q --bare e/r; echo x > e/r/hooks/pre-commit; echo 'gitdir: e/r' > .git",
		"a link":             "git init -q e; echo x > e/.git/hooks/pre-commit; ln -s e/.git .git",
		"a common folder":    "git init -q; echo ../e > .git/commondir",
		"a bare repository":  "git init -q --bare .; echo x > hooks/pre-receive",
		"a bare one, config": "git init -q --bare .; git config core.fsmonitor x",
	} {
		t.Run(name, func(t *testing.T) {
			w, dir := confined(t, nil)
			out, result := sh(t, w, plant, workspace.Command{})
			if len(local.Planted(dir)) > 0 || len(result.Refused) == 0 {
				t.Errorf("%v is left; %+v\n%s", local.Planted(dir), result.Refused, out)
			}
		})
	}
	w, dir := confined(t, nil)
	out, result := sh(t, w, "git init -q -b main && git config user.name a && git config user.email a@example.com && echo a > a && git add a && git commit -qm x && git remote add origin https://example.com/x && git log --oneline | wc -l", workspace.Command{})
	if out != "1\n" || len(result.Refused) > 0 {
		t.Errorf("an ordinary repository: %q %+v", out, result)
	}
	if _, err := os.Stat(filepath.Join(dir, ".git", "HEAD")); err != nil {
		t.Error(err)
	}
}
