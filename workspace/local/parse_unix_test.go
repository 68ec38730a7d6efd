//go:build unix

package local

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestMessagesNamePaths(t *testing.T) {
	for line, want := range map[string]string{
		"bash: line 1: /srv/x: Read-only file system":                               "/srv/x",
		"touch: cannot touch '/srv/with blank': Read-only file system":              "/srv/with blank",
		"OSError: [Errno 30] Read-only file system: '/srv/x'":                       "/srv/x",
		"mkdir: cannot create directory ‘/srv/x’: Permission denied":                "/srv/x",
		"open /srv/x: permission denied":                                            "/srv/x",
		"Error: EROFS: read-only file system, open '/srv/x'":                        "/srv/x",
		"cp: cannot create regular file '../up/x': Read-only file system":           "/work/up/x",
		"error: unable to write file .git/hooks/pre-commit: Read-only file system.": "/work/here/.git/hooks/pre-commit",
	} {
		var m messages
		m.write([]byte("noise /etc/passwd\n" + line + "\n"))
		if got := m.paths("/work/here"); !slices.Contains(got, want) || slices.Contains(got, "/etc/passwd") {
			t.Errorf("%s: %q, want %s in it", line, got, want)
		}
	}
}

// How the output is cut into writes changes nothing, and what is kept is bounded.
func FuzzMessages(f *testing.F) {
	f.Add([]byte("touch: '/a b': Read-only file system\nx: Permission denied"), 3)
	f.Add([]byte(strings.Repeat("/x: Permission denied\n", 50)), 7)
	f.Add([]byte(strings.Repeat("x", 3000)+"Permission denied\n'/"), 999)
	f.Fuzz(func(t *testing.T, text []byte, at int) {
		var whole, cut messages
		whole.write(text)
		at = min(max(at, 0), len(text))
		cut.write(text[:at])
		cut.write(text[at:])
		a, b := whole.paths("/dir"), cut.paths("/dir")
		if !slices.Equal(a, b) {
			t.Fatalf("%q in one, %q in two", a, b)
		}
		if len(whole.lines) > maxMessages || len(whole.line) > maxMessage {
			t.Fatalf("%d lines are kept, the last of %d bytes", len(whole.lines), len(whole.line))
		}
		for _, p := range a {
			if !filepath.IsAbs(p) {
				t.Fatalf("%q is not absolute", p)
			}
		}
	})
}

// What a configuration names is protected below the root only, and never the root.
func FuzzConfigurationOfGit(f *testing.F) {
	f.Add("[core]\n\thooksPath = ci/hooks\n[include]\n\tpath = ../shared.config\n")
	f.Add("[core]\nhookspath=\"/elsewhere\"\nattributesfile=.\n")
	f.Fuzz(func(t *testing.T, text string) {
		root := t.TempDir()
		config := filepath.Join(root, "config")
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, p := range named(config, root) {
			if p == root || !within(root, p) || p != filepath.Clean(p) {
				t.Fatalf("%q of %q", p, text)
			}
		}
	})
}

func FuzzPointerOfGit(f *testing.F) {
	f.Add("gitdir: ../main/.git/worktrees/x\n")
	f.Add("gitdir: /etc\nmore")
	f.Add("gitdir: \x00")
	f.Fuzz(func(t *testing.T, text string) {
		file := filepath.Join(t.TempDir(), ".git")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if path, ok := pointer(file, "gitdir: "); ok && (!filepath.IsAbs(path) || path != filepath.Clean(path) || strings.ContainsAny(path, "\n\x00")) {
			t.Fatalf("%q of %q", path, text)
		}
	})
}
