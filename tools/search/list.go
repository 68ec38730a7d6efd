package search

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dsh-harness/dsh/workspace"
)

const (
	// maxListed bounds the names that one search holds, in bytes.
	maxListed = 20 << 20
	// maxFile is up to which size files are searched that nobody named.
	maxFile = 64 << 20
	// maxIgnoreFile is up to which size a .gitignore is believed to be one.
	maxIgnoreFile = 1 << 20
)

// versionControl are folders that are left out unless a pattern names them.
func versionControl() []string { return []string{".git", ".svn", ".hg", ".bzr", ".jj", ".sl"} }

// query says which files below a folder come into question.
type query struct {
	w    workspace.Workspace
	root string // absolute, without links
	// named are folders of version control that are not left out.
	named []string
	// all takes ignored files, too.
	all bool
	// content is what a file must hold, for a search that can find that out sooner; "" for any.
	content string
}

// listing is a list of files.
type listing struct {
	files []string // below the root, with slashes, sorted
	// partial tells that time or memory did not last for all.
	partial bool
}

// list returns the files of a query that nobody hides.
func (t *tools) list(ctx context.Context, q query) (listing, error) {
	l, err := t.listAll(ctx, q)
	if hides := workspace.Hidden(ctx); hides != nil {
		l.files = slices.DeleteFunc(l.files, func(name string) bool { return hides(join(q.root, name)) })
	}
	return l, err
}

func (t *tools) listAll(ctx context.Context, q query) (listing, error) {
	if !t.noRipgrep.Load() {
		l, err := ripgrep(ctx, q)
		if err == nil {
			return l, nil
		}
		if errors.Is(err, exec.ErrNotFound) {
			t.noRipgrep.Store(true)
		}
	}
	return walk(ctx, q)
}

// errRipgrep tells that rg could not do it.
var errRipgrep = errors.New("rg failed")

// ripgrep lets rg list the files. Of its rules only those are on that walk knows, too.
func ripgrep(ctx context.Context, q query) (listing, error) {
	args := []string{"rg", "--no-config", "--no-messages", "--null", "--color=never", "--hidden"}
	if q.all {
		args = append(args, "--no-ignore")
	} else {
		args = append(args, "--no-require-git", "--no-ignore-dot", "--no-ignore-exclude", "--no-ignore-global")
	}
	for _, name := range versionControl() {
		if !slices.Contains(q.named, name) {
			args = append(args, "--glob=!"+name)
		}
	}
	if q.content == "" {
		args = append(args, "--files")
	} else {
		args = append(args, "--files-with-matches", "--text", "--encoding=none",
			"--max-filesize="+strconv.Itoa(maxFile), "--regexp="+q.content)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var names []byte
	result, err := q.w.Exec().Run(ctx, workspace.Command{
		Args: append(args, "./"),
		Dir:  q.root,
		Output: func(p []byte, stderr bool) {
			if stderr {
				return
			}
			if len(names)+len(p) > maxListed {
				cancel()
				return
			}
			names = append(names, p...)
		},
	})
	switch {
	case err != nil:
		return listing{}, err
	case result.Code > 1 && len(names) == 0:
		return listing{}, errRipgrep
	}
	l := listing{partial: result.Canceled}
	for name := range bytes.SplitSeq(names, []byte{0}) {
		if len(name) > 0 {
			l.files = append(l.files, strings.TrimPrefix(filepath.ToSlash(string(name)), "./"))
		}
	}
	if l.partial && len(l.files) > 0 {
		l.files = l.files[:len(l.files)-1] // it may be half a name
	}
	slices.Sort(l.files)
	return l, nil
}

// walk lists the files ourselves.
func walk(ctx context.Context, q query) (listing, error) {
	wk := &walker{ctx: ctx, query: q, skipped: slices.DeleteFunc(versionControl(), func(name string) bool { return slices.Contains(q.named, name) })}
	var above *ignores
	if !q.all {
		above = q.above()
	}
	err := wk.folder("", above)
	slices.Sort(wk.files)
	if errors.Is(err, errEnough) || wk.ctx.Err() != nil {
		wk.partial, err = true, nil
	}
	return wk.listing, err
}

var errEnough = errors.New("enough")

type walker struct {
	query
	listing
	ctx     context.Context
	skipped []string
	held    int
}

// folder walks one folder; above are the ignore files that apply to what is in it.
func (w *walker) folder(rel string, above *ignores) error {
	entries, err := w.w.FS().ReadDir(join(w.root, rel))
	if err != nil {
		if rel == "" {
			return err
		}
		return nil // like rg, we show what can be seen
	}
	if !w.all {
		if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == ".git" }) {
			above = nil // a repository has rules of its own
		}
		if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == ".gitignore" }) {
			above = &ignores{rules: ignoreFile(w.w, join(w.root, rel)), cut: prefix(rel), up: above}
		}
	}
	for _, e := range entries {
		if w.ctx.Err() != nil {
			return nil
		}
		name := path.Join(rel, e.Name())
		switch {
		case slices.Contains(w.skipped, e.Name()):
		case e.IsDir():
			if !above.ignored(name, true) {
				if err := w.folder(name, above); err != nil {
					return err
				}
			}
		case e.Type().IsRegular():
			if above.ignored(name, false) {
				continue
			}
			if w.held += len(name) + 1; w.held > maxListed {
				return errEnough
			}
			w.files = append(w.files, name)
		}
	}
	return nil
}

func join(root, rel string) string {
	if rel == "" {
		return root
	}
	return strings.TrimRight(root, string(filepath.Separator)) + string(filepath.Separator) + filepath.FromSlash(rel)
}

func prefix(rel string) string {
	if rel == "" {
		return ""
	}
	return rel + "/"
}

// above returns the ignore files above the root, up to the repository's top.
func (q query) above() *ignores {
	var nearestFirst []*ignores
	add := ""
	for dir := q.root; !exists(q.w, join(dir, ".git")); {
		up := filepath.Dir(dir)
		if up == dir {
			break
		}
		add = filepath.Base(dir) + "/" + add
		dir = up
		if exists(q.w, join(dir, ".gitignore")) {
			nearestFirst = append(nearestFirst, &ignores{rules: ignoreFile(q.w, dir), add: add})
		}
	}
	var chain *ignores
	for _, further := range slices.Backward(nearestFirst) {
		further.up = chain
		chain = further
	}
	return chain
}

func exists(w workspace.Workspace, name string) bool {
	_, err := w.FS().Lstat(name)
	return err == nil
}

// ignoreFile reads the .gitignore of a folder; one that cannot be read has no rules.
func ignoreFile(w workspace.Workspace, dir string) rules {
	file, err := w.FS().Open(join(dir, ".gitignore"))
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }() // it was only read
	content, err := io.ReadAll(io.LimitReader(file, maxIgnoreFile))
	if err != nil {
		return nil
	}
	return parseIgnore(string(content))
}
