package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/dsh-harness/dsh"

// pkg is one folder of Go files.
type pkg struct {
	dir   string // with slashes, relative to the module; "." is the root
	name  string
	files []*file // without tests
	tests []*file
}

type file struct {
	name string // with slashes, relative to the module
	ast  *ast.File
}

// imports lists what a file imports from this module, relative to it.
func (f *file) imports() []string {
	var inner []string
	for _, spec := range f.ast.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the parser accepted it, so it is a string
		}
		if p == module {
			inner = append(inner, ".")
		} else if rest, ok := strings.CutPrefix(p, module+"/"); ok {
			inner = append(inner, rest)
		}
	}
	return inner
}

// source is the parsed module; it is read once for all tests of this package.
type source struct {
	root string
	fset *token.FileSet
	pkgs []*pkg
}

var load = sync.OnceValues(func() (*source, error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return nil, err
	}
	s, byDir := &source{root: root, fset: token.NewFileSet()}, map[string]*pkg{}
	err = walk(root, func(name string) error {
		if path.Ext(name) != ".go" {
			return nil
		}
		tree, err := parser.ParseFile(s.fset, filepath.Join(root, name), nil, parser.ParseComments)
		if err != nil {
			return err
		}
		dir := path.Dir(name)
		p := byDir[dir]
		if p == nil {
			p = &pkg{dir: dir, name: strings.TrimSuffix(tree.Name.Name, "_test")}
			byDir[dir], s.pkgs = p, append(s.pkgs, p)
		}
		if strings.HasSuffix(name, "_test.go") {
			p.tests = append(p.tests, &file{name, tree})
		} else {
			p.files = append(p.files, &file{name, tree})
		}
		return nil
	})
	return s, err
})

// walk calls visit with each file of the module, but for what git ignores, test data, and other modules.
func walk(root string, visit func(name string) error) error {
	return filepath.WalkDir(root, func(full string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, full)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if !d.IsDir() {
			return visit(name)
		}
		if name == "." {
			return nil
		}
		if slices.Contains([]string{"bin", "dist", "testdata", "node_modules"}, d.Name()) || strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		if _, err := os.Stat(filepath.Join(full, "go.mod")); err == nil {
			return fs.SkipDir
		}
		return nil
	})
}

func sources(t *testing.T) *source {
	t.Helper()
	s, err := load()
	if err != nil {
		t.Fatal(err)
	}
	if len(s.pkgs) < 10 {
		t.Fatalf("found %d packages below %s: is this the repository?", len(s.pkgs), s.root)
	}
	return s
}

// at is where a node stands, for messages.
func (s *source) at(n ast.Node) string {
	p := s.fset.Position(n.Pos())
	name, err := filepath.Rel(s.root, p.Filename)
	if err != nil {
		name = p.Filename
	}
	return filepath.ToSlash(name) + ":" + strconv.Itoa(p.Line)
}
