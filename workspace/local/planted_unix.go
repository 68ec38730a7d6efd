//go:build unix

package local

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// planted returns what a command made of a repository where there was none, if git would run something of its own accord
// in it: the files to put aside. A repository as git makes one is none of that.
func planted(root string) (paths []string) {
	dot := filepath.Join(root, ".git")
	info, err := os.Lstat(dot)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if !isRepository(root) {
			return nil
		}
		if !runsNothing(root) { // a bare one
			return []string{filepath.Join(root, "HEAD"), filepath.Join(root, "config"), filepath.Join(root, "hooks")}
		}
	case err != nil || !info.IsDir() || !runsNothing(dot):
		return []string{dot}
	}
	return nil
}

// runsNothing reports whether git runs nothing of a repository's own: no hooks but samples, and only
// such keys in its configurations, and in those of its submodules, as are known to run nothing.
func runsNothing(dir string) bool {
	for _, extra := range []string{"commondir", "config.worktree"} {
		if _, err := os.Lstat(filepath.Join(dir, extra)); err == nil {
			return false
		}
	}
	repositories := []string{dir}
	modules, err := filepath.Glob(filepath.Join(dir, "modules", "*"))
	if err == nil {
		repositories = append(repositories, modules...)
	}
	for _, r := range repositories {
		if !samplesOnly(filepath.Join(r, "hooks")) || !plainConfig(filepath.Join(r, "config")) {
			return false
		}
	}
	return true
}

func samplesOnly(hooks string) bool {
	info, err := os.Lstat(hooks)
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	if err != nil || !info.IsDir() {
		return false
	}
	entries, err := os.ReadDir(hooks)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".sample") {
			return false
		}
	}
	return true
}

// plainConfig reports whether all keys of a configuration are known to run nothing.
func plainConfig(path string) bool {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // it was only read
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "[") {
			_, rest, ok := strings.Cut(line, "]")
			if !ok {
				return false
			}
			line = strings.TrimSpace(rest)
		}
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		key, _, _ := strings.Cut(line, "=")
		if strings.HasSuffix(line, `\`) || !plainKey(strings.ToLower(strings.TrimSpace(key))) {
			return false
		}
	}
	return lines.Err() == nil
}

// plainKey lists what git itself writes when it makes, clones or follows a repository, and names of people.
func plainKey(key string) bool {
	switch key {
	case "repositoryformatversion", "filemode", "bare", "logallrefupdates", "ignorecase", "precomposeunicode", "symlinks", "worktree", "objectformat", "refstorage",
		"name", "email", "signingkey", "url", "pushurl", "fetch", "push", "remote", "merge", "rebase", "tagopt", "prune", "promisor", "partialclone", "partialclonefilter",
		"active", "autocrlf", "eol", "safecrlf", "defaultbranch", "default", "ff", "autosetuprebase", "autosetupmerge", "compression", "quotepath", "abbrev", "depth", "shallow":
		return true
	}
	return false
}
