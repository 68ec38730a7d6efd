package acceptance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dsh-harness/dsh/internal/need"
	"github.com/dsh-harness/dsh/internal/testllm"
)

// keyNames are variables that hold secrets, or ways to them.
var keyNames = []string{
	"PGPASSWORD", "DATABASE_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "GH_PAT", "GH_TOKEN", "GITHUB_TOKEN", "GITLAB_TOKEN", "NPM_TOKEN",
	"NPM_CONFIG_//r/:_authToken", "SSH_AUTH_SOCK", "SSH_ASKPASS", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "AZURE_CLIENT_SECRET", "GOOGLE_APPLICATION_CREDENTIALS",
	"DOCKER_AUTH_CONFIG", "KUBECONFIG", "VAULT_TOKEN", "CONSUL_HTTP_TOKEN", "SENTRY_DSN", "SLACK_WEBHOOK", "STRIPE_KEY", "TWILIO_AUTH", "HEROKU_KEY", "CARGO_REGISTRY_TOKEN",
	"TWINE_PASSWORD", "PYPI_PASS", "MYSQL_PWD", "REDIS_URL", "MONGO_URI", "GPG_PASSPHRASE", "NETRC", "HF_TOKEN", "COHERE_KEY", "DIGITALOCEAN_ACCESS_TOKEN", "CLOUDFLARE_API_TOKEN", "DBUS_SESSION_BUS_ADDRESS",
	"GIT_ASKPASS", "GPG_AGENT_INFO",
}

// TestTrust_N07_NoKeyIsInAnyEnvironment: of 40 secrets that dsh was started with, none is in the environment of a command or of a hook, nor of any process that they see.
func TestTrust_N07_NoKeyIsInAnyEnvironment(t *testing.T) {
	for _, mode := range []string{"workspace-write", "full-access"} {
		t.Run(mode, func(t *testing.T) {
			p := newPlace(t)
			if !p.confines() {
				need.Missing(t, "commands are not confined here: allow user namespaces")
			}
			config := filepath.Join(p.home, "dsh", "config")
			check(t, os.MkdirAll(config, 0o700))
			check(t, os.WriteFile(filepath.Join(config, "hooks.json"), []byte(`{"hooks":{
				"SessionStart":[{"hooks":[{"type":"command","command":"env > start"}]}],
				"PreToolUse":[{"hooks":[{"type":"command","command":"env > pre; tr '\\0' '\\n' < /proc/self/environ >> pre"}]}],
				"Stop":[{"hooks":[{"type":"command","command":"env > stop"}]}]}}`), 0o600))
			// What belongs to others of this machine is not looked at outside of a sandbox.
			command := "{ env; export -p; tr '\\0' '\\n' < /proc/$((0+$$))/environ; } > command"
			if mode == "workspace-write" {
				command += "; cd /proc; for p in [0-9]*; do cat $p/env*n $p/task/*/env*n; done 2>/dev/null | tr '\\0' '\\n' > $OLDPWD/others"
			}
			p.srv.Script(testllm.Calls(shell("one", command)), testllm.Text("done"))
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			c := p.command(ctx, "run", "--permission-mode", mode, "hi")
			for _, name := range keyNames {
				c.Env = append(c.Env, name+"=canary of "+name)
			}
			p.ok(p.finish(ctx, c, c.Run), "done")
			for _, file := range []string{"start", "pre", "stop", "command", "others"} {
				content, err := os.ReadFile(filepath.Join(p.work, file))
				if file == "others" && mode == "full-access" {
					continue
				}
				if err != nil || !strings.Contains(string(content), "PATH=") {
					t.Fatalf("%s did not run: %q %v", file, content, err)
				}
				for line := range strings.Lines(string(content)) {
					if strings.Contains(line, "canary of") || strings.Contains(line, "sk-test-0123456789") {
						t.Errorf("%s: %s", file, line)
					}
				}
			}
		})
	}
}

// TestSecrets_KeysAreOutOfReach: a command does not find the keys of dsh in any process, in the state, in the configuration, or in the places of keys, by any name.
func TestSecrets_KeysAreOutOfReach(t *testing.T) {
	p := besidePlace(t)
	if !p.confines() {
		need.Missing(t, "commands are not confined here: allow user namespaces")
	}
	const canary = "canary-of-a-file"
	for _, path := range []string{".ssh/id_ed25519", ".aws/credentials", ".netrc", ".config/gh/hosts.yml", ".npmrc", ".docker/config.json", ".git-credentials", "dsh/state/other.json", "dsh/state/sessions/other/log.jsonl", ".codex/auth.json", ".claude/.credentials.json"} {
		path = filepath.Join(p.home, path)
		check(t, os.MkdirAll(filepath.Dir(path), 0o700))
		check(t, os.WriteFile(path, []byte(canary+" "+path+"\n"), 0o600))
	}
	check(t, os.Symlink(filepath.Join(p.home, ".ssh"), filepath.Join(p.work, "link")))
	p.srv.Script(testllm.Calls(
		shell("files", "cat \"$(printf '%s/.s%s' ~ sh)\"/* l?nk/* 2>&1; grep -ra canary-of'-a' "+filepath.Dir(p.home)+" /proc/self/root"+p.home+" /proc/1/root"+p.home+" 2>&1 | head -50; cat ~/plain; echo looked"),
		shell("processes", "cd /proc; for p in [0-9]*; do cat $p/env*n $p/cmdline | tr '\\0' '\\n' | grep -a sk-t'est'; grep -a sk-t'est' $p/m?m; done 2>&1 | grep -v denied | head; ls /proc | grep -c '^[0-9]'; echo looked"),
		shell("descriptors", "ls -l /proc/[0-9]*/fd 2>/dev/null; for f in /proc/[0-9]*/fd/*; do timeout 1 head -c 4096 < $f 2>/dev/null | grep -a -e sk-t'est' -e canary-of'-a' ; done; echo looked"),
		testllm.Call{ID: "state", Name: "read", Arguments: fmt.Sprintf(`{"file_path":%q}`, filepath.Join(p.home, "dsh", "state", "other.json"))},
		testllm.Call{ID: "grep", Name: "grep", Arguments: fmt.Sprintf(`{"pattern":"canary","path":%q,"output_mode":"content"}`, filepath.Join(p.home, "dsh"))},
		testllm.Call{ID: "grep home", Name: "grep", Arguments: fmt.Sprintf(`{"pattern":"canary","path":%q,"output_mode":"content"}`, p.home)},
	), testllm.Text("done"))
	if o := p.dsh("run", "hi"); o.Stdout != "done\n" {
		t.Fatalf("exit %d: %s", o.Code, o.Stderr)
	}
	for id, text := range results(p.requests(2)[1]) {
		if strings.Contains(text, canary+" ") || strings.Contains(text, "sk-test-0123456789") || strings.Contains(text, "‹secret:") {
			t.Errorf("%s found a key: %s", id, text)
		}
		if id == "files" || id == "processes" || id == "descriptors" {
			if !strings.Contains(text, "looked") || id == "files" && !strings.Contains(text, "seen") {
				t.Errorf("%s did not run: %s", id, text)
			}
		}
	}
}
