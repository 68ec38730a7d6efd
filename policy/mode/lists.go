package mode

// masked lists what nobody reads or writes for a model: keys, tokens, and what
// browsers and mail programs keep.
func masked() []string {
	return []string{
		"~/.ssh", "~/.gnupg", "~/.age", "~/.password-store", "~/.local/share/keyrings", "~/.local/share/kwalletd",
		"~/.config/op", "~/.config/Bitwarden", "~/.config/keepassxc", "~/.pki", "~/.vault-token",
		"~/Library/Keychains", "~/AppData/Roaming/Microsoft/Credentials", "~/AppData/Roaming/Microsoft/Protect",

		"~/.aws", "~/.azure", "~/.config/gcloud", "~/.oci", "~/.aliyun", "~/.tccli", "~/.config/doctl", "~/.config/hcloud",
		"~/.fly", "~/.heroku", "~/.kube", "~/.docker", "~/.config/containers/auth.json", "~/.terraform.d",
		"~/.config/rclone", "~/.s3cfg", "~/.boto", "~/.config/wrangler", "~/.wrangler", "~/.config/netlify", "~/.config/vercel",

		"~/.netrc", "~/_netrc", "~/.git-credentials", "~/.config/git/credentials", "~/.config/gh", "~/.config/glab-cli", "~/.config/hub",
		"~/.npmrc", "~/.yarnrc", "~/.yarnrc.yml", "~/.pypirc", "~/.gem/credentials", "~/.cargo/credentials", "~/.cargo/credentials.toml",
		"~/.m2/settings.xml", "~/.gradle/gradle.properties", "~/.composer/auth.json", "~/.config/composer/auth.json", "~/.nuget/NuGet",
		"~/.pgpass", "~/.my.cnf", "~/.mylogin.cnf", "~/.config/filezilla", "~/.config/remmina",
		"~/.codex/auth.json", "~/.claude/.credentials.json", "~/.gemini/oauth_creds.json", "~/.config/github-copilot",

		"~/.mozilla", "~/.thunderbird", "~/.config/google-chrome*", "~/.config/chromium", "~/.config/BraveSoftware",
		"~/.config/microsoft-edge*", "~/.config/vivaldi", "~/.config/opera", "~/snap/firefox", "~/snap/chromium",
		"~/.var/app/org.mozilla.firefox", "~/.var/app/com.google.Chrome", "~/.var/app/org.chromium.Chromium",
		"~/Library/Application Support/Google/Chrome", "~/Library/Application Support/Chromium", "~/Library/Application Support/Firefox",
		"~/Library/Application Support/BraveSoftware", "~/Library/Application Support/Microsoft Edge", "~/Library/Application Support/Arc",
		"~/Library/Safari", "~/Library/Cookies", "~/Library/Mail", "~/Library/Messages",
		"~/AppData/Local/Google/Chrome", "~/AppData/Local/Chromium", "~/AppData/Local/BraveSoftware", "~/AppData/Local/Microsoft/Edge",
		"~/AppData/Roaming/Mozilla", "~/AppData/Roaming/Thunderbird",

		"/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/sudoers.d", "/etc/ssh/ssh_host_*",
		"/proc/*/environ", "/proc/*/mem", "/proc/*/task/*/environ", "/proc/*/task/*/mem",
	}
}

// otherHomes lists the homes of other people; the user's own is no part of it.
func otherHomes() []string { return []string{"/home/*", "/Users/*", "/root", "C:/Users/*"} }

// control lists what is executed or obeyed later: by the harness, by git, by editors,
// by shells, by build servers, and by agents that read instructions.
func control() []string {
	return []string{
		".dsh", "cordis.yml", ".mcp.json",
		".git", ".gitmodules", ".gitattributes", ".githooks", ".husky", ".pre-commit-config.yaml", "lefthook.yml",

		".vscode", "*.code-workspace", ".idea", ".zed", ".fleet", ".devcontainer", ".devcontainer.json",
		".vim", ".vimrc", ".exrc", ".nvimrc", ".nvim.lua", ".dir-locals.el", ".emacs", ".emacs.d",

		".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout",
		".kshrc", ".cshrc", ".tcshrc", ".login", ".logout", ".inputrc", ".config/fish", ".envrc", ".pam_environment",
		".xprofile", ".xinitrc", ".xsession", ".xsessionrc", ".config/autostart", ".config/systemd", "Library/LaunchAgents", ".gitconfig", ".config/git",

		".github/workflows", ".github/actions", ".gitlab-ci.yml", ".circleci", ".travis.yml", ".buildkite", ".drone.yml", ".woodpecker", ".woodpecker.yml",
		".forgejo/workflows", ".gitea/workflows", ".cirrus.yml", ".appveyor.yml", "appveyor.yml", "azure-pipelines.yml", "bitbucket-pipelines.yml", "Jenkinsfile",

		"AGENTS.md", "AGENTS.override.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md", ".claude", ".codex", ".gemini", ".cursor", ".cursorrules",
		".windsurfrules", ".clinerules", ".roo", ".rules", ".aider.conf.yml", ".github/copilot-instructions.md", ".github/instructions",
	}
}
