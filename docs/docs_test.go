// Package docs holds what people read, and tests that it is true: records and proposals have their
// form, links lead somewhere, and the commands that a page shows print what it says.
package docs

import (
	"flag"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the index of decision records and the picture of a run")

// page is one Markdown file of the repository.
type page struct {
	name  string // with slashes, relative to the repository
	lines []string
}

// pages reads all Markdown files but test data and what git ignores.
func pages(t *testing.T) map[string]page {
	t.Helper()
	found := map[string]page{}
	err := filepath.WalkDir("..", func(full string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			hidden := strings.HasPrefix(d.Name(), ".") && d.Name() != ".."
			if hidden || slices.Contains([]string{"bin", "dist", "testdata", "project"}, d.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(full) != ".md" {
			return nil
		}
		p, err := read(full)
		found[p.name] = p
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := found["README.md"]; !ok {
		t.Fatal("no README.md above this folder: is this the repository?")
	}
	return found
}

// read returns the page at a path that is relative to this folder.
func read(full string) (page, error) {
	text, err := os.ReadFile(full)
	return page{path.Clean(path.Join("docs", filepath.ToSlash(full))), strings.Split(string(text), "\n")}, err
}

// fence is a block of code in a page.
type fence struct {
	line int    // of its first line of text, counted from 1
	info string // what follows the opening ```
	text []string
}

// fences returns the blocks of code of a page, and its other lines with those of blocks left empty.
func (p page) fences() (blocks []fence, prose []string) {
	open := false
	for i, line := range p.lines {
		info, mark := strings.CutPrefix(strings.TrimLeft(line, " "), "```")
		switch {
		case mark && !open:
			blocks = append(blocks, fence{line: i + 2, info: info})
		case !mark && open:
			last := &blocks[len(blocks)-1]
			last.text = append(last.text, line)
		case !mark:
			prose = append(prose, line)
			continue
		}
		if mark {
			open = !open
		}
		prose = append(prose, "")
	}
	return blocks, prose
}

var (
	code     = regexp.MustCompile("`[^`]*`")
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`^#{1,6} +(.*)$`)
	notASlug = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors returns what a link into the page may name after #.
func (p page) anchors() []string {
	_, prose := p.fences()
	var all []string
	for _, line := range prose {
		if m := heading.FindStringSubmatch(line); m != nil {
			slug := notASlug.ReplaceAllString(strings.ToLower(m[1]), "")
			all = append(all, strings.ReplaceAll(slug, " ", "-"))
		}
	}
	return all
}

func TestLinksLeadSomewhere(t *testing.T) {
	all, checked := pages(t), 0
	for _, p := range all {
		_, prose := p.fences()
		for i, line := range prose {
			for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(line, ""), -1) {
				target, anchor, _ := strings.Cut(m[1], "#")
				if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
					continue
				}
				checked++
				name := p.name
				if target != "" {
					name = path.Join(path.Dir(p.name), target)
				}
				if _, err := os.Stat(filepath.Join("..", filepath.FromSlash(name))); err != nil {
					t.Errorf("%s:%d: the link to %s leads nowhere", p.name, i+1, m[1])
				} else if anchor != "" && !slices.Contains(all[name].anchors(), anchor) {
					t.Errorf("%s:%d: %s has no heading for #%s", p.name, i+1, name, anchor)
				}
			}
		}
	}
	if checked == 0 {
		t.Error("no page has a link to another: is the pattern wrong?")
	}
}

// TestTheMapNamesEveryPackage finds folders of code that ARCHITECTURE.md does not know; what is internal it need not.
func TestTheMapNamesEveryPackage(t *testing.T) {
	p, err := read("../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, m := range code.FindAllString(strings.Join(p.lines, "\n"), -1) {
		named[strings.Trim(m, "`")] = true
	}
	err = filepath.WalkDir("..", func(full string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || d.Name() == ".." {
			return err
		}
		name := path.Clean(path.Join("docs", filepath.ToSlash(full)))
		if strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"internal", "testdata", "bin", "dist", "docs", "examples"}, d.Name()) {
			return fs.SkipDir
		}
		files, err := filepath.Glob(filepath.Join(full, "*.go"))
		if err == nil && len(files) > 0 && !named[name] && !named[d.Name()] {
			t.Errorf("ARCHITECTURE.md does not name the package %s", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
