//go:build unix

package local

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// git is what of repositories a command may write, and what it must not, since git executes or obeys it.
type git struct {
	write, protect, reserve []string
	none                    []string // roots without a repository
}

// findGit looks at the top of each root.
func findGit(roots []string) git {
	var g git
	for _, root := range roots {
		g.look(root)
	}
	return g
}

func (g *git) look(root string) {
	dot := filepath.Join(root, ".git")
	info, err := os.Lstat(dot)
	switch {
	case err != nil:
		if isRepository(root) { // a bare one
			g.repository(root, root)
			return
		}
		g.none = append(g.none, root)
	case info.IsDir():
		g.repository(dot, root)
	case info.Mode().IsRegular():
		g.protect = append(g.protect, dot)
		g.worktree(root, dot)
	default: // a link
		g.protect = append(g.protect, dot)
		if real, err := filepath.EvalSymlinks(dot); err == nil {
			g.repository(real, root)
		}
	}
}

func isRepository(dir string) bool {
	for _, name := range []string{"HEAD", "objects", "refs", "config"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// repository protects what of a repository makes git run programs.
func (g *git) repository(dir, root string) {
	g.reserve = append(g.reserve, filepath.Join(dir, "hooks"))
	for _, name := range []string{"config", "config.worktree", "commondir", "gitdir"} {
		g.protect = append(g.protect, filepath.Join(dir, name))
	}
	for _, pattern := range []string{
		"modules/*/hooks", "modules/*/config", "modules/*/modules/*/hooks", "modules/*/modules/*/config",
		"worktrees/*/config.worktree", "worktrees/*/commondir", "worktrees/*/gitdir",
	} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err == nil {
			g.protect = append(g.protect, found...)
		}
	}
	g.protect = append(g.protect, named(filepath.Join(dir, "config"), root)...)
}

// named lists the files below root that a configuration of git names: other configurations, and the folder of hooks.
func named(config, root string) (paths []string) {
	f, err := os.Open(config)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }() // it was only read
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		key, value, ok := strings.Cut(lines.Text(), "=")
		if !ok {
			continue
		}
		value = strings.Trim(strings.TrimSpace(value), `"`)
		switch strings.ToLower(strings.TrimSpace(key)) {
		case "path": // of an include
			if !filepath.IsAbs(value) {
				value = filepath.Join(filepath.Dir(config), value)
			}
		case "hookspath", "attributesfile":
			if !filepath.IsAbs(value) {
				value = filepath.Join(root, value)
			}
		default:
			continue
		}
		if value = filepath.Clean(value); value != root && within(root, value) {
			paths = append(paths, value)
		}
	}
	return paths
}

// worktree lets a linked worktree write what a commit needs in its repository: objects, references and their
// logs, and its own part. The repository must know the worktree, and nothing on the way may be a link.
func (g *git) worktree(root, dot string) {
	own, ok := pointer(dot, "gitdir: ")
	if !ok || !isPlainDir(own) || filepath.Base(filepath.Dir(own)) != "worktrees" {
		return
	}
	if back, ok := pointer(filepath.Join(own, "gitdir"), ""); !ok || back != dot {
		return
	}
	common, ok := pointer(filepath.Join(own, "commondir"), "")
	if !ok || common != filepath.Dir(filepath.Dir(own)) || !isRepository(common) {
		return
	}
	shared := []string{filepath.Join(common, "objects"), filepath.Join(common, "refs"), filepath.Join(common, "logs")}
	if slices.ContainsFunc(shared[:2], func(dir string) bool { return !isPlainDir(dir) }) || !owned(common) {
		return
	}
	if !isPlainDir(shared[2]) {
		shared = shared[:2]
	}
	g.write = append(append(g.write, own), shared...)
	for _, name := range []string{"config.worktree", "commondir", "gitdir"} {
		g.protect = append(g.protect, filepath.Join(own, name))
	}
	g.protect = append(g.protect, named(filepath.Join(common, "config"), root)...)
}

// pointer reads a file that holds a path, relative to its folder.
func pointer(file, prefix string) (path string, ok bool) {
	info, err := os.Lstat(file)
	if err != nil || !info.Mode().IsRegular() || info.Size() > 4096 {
		return "", false
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", false
	}
	path, ok = strings.CutPrefix(strings.TrimSpace(string(text)), prefix)
	if !ok || path == "" || strings.ContainsAny(path, "\n\x00") {
		return "", false
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(file), path)
	}
	return filepath.Clean(path), true
}

// isPlainDir reports whether path is a folder and no part of it is a link.
func isPlainDir(path string) bool {
	real, err := filepath.EvalSymlinks(path)
	if err != nil || real != path {
		return false
	}
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}
