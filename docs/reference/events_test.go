package reference

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// declaration is a package variable that the kernel's constructors make.
type declaration struct {
	kind    string // Emit, Parallel, Serial, Waterfall, Key or Set
	name    string // of the event, service or set
	goName  string // tool.PreExecute
	types   string
	stages  []string
	meaning string
}

// events writes the page of everything that plugins share, as it is declared in the source.
func events(t *testing.T) string {
	all := declarations(t)
	var b strings.Builder
	b.WriteString("# Events, services and sets\n\nGenerated from their declarations; do not edit. What a plugin may listen to, ask for, and add to.\n")
	section := func(title string, columns []string, row func(d declaration) []string, kinds ...string) {
		fmt.Fprintf(&b, "\n## %s\n\n| %s |\n|%s\n", title, strings.Join(columns, " | "), strings.Repeat(" --- |", len(columns)))
		for _, d := range all {
			if slices.Contains(kinds, d.kind) {
				fmt.Fprintf(&b, "| %s |\n", strings.Join(row(d), " | "))
			}
		}
	}
	section("Events", []string{"event", "mode", "in Go", "types", "stages", "meaning"}, func(d declaration) []string {
		return []string{"`" + d.name + "`", strings.ToLower(d.kind), "`" + d.goName + "`", "`" + d.types + "`", strings.Join(d.stages, ", "), d.meaning}
	}, "Emit", "Parallel", "Serial", "Waterfall")
	section("Services", []string{"service", "in Go", "type", "meaning"}, func(d declaration) []string {
		return []string{"`" + d.name + "`", "`" + d.goName + "`", "`" + d.types + "`", d.meaning}
	}, "Key")
	section("Sets", []string{"set", "in Go", "type", "meaning"}, func(d declaration) []string {
		return []string{"`" + d.name + "`", "`" + d.goName + "`", "`" + d.types + "`", d.meaning}
	}, "Set")
	return b.String()
}

func declarations(t *testing.T) []declaration {
	const root = "../.."
	fset := token.NewFileSet()
	var all []declaration
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != root && (d.Name() == "testdata" || d.Name() == "examples" || strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		stages := stagesOf(file)
		for _, decl := range file.Decls {
			if gen, ok := decl.(*ast.GenDecl); ok && gen.Tok == token.VAR {
				for _, spec := range gen.Specs {
					if d, ok := read(fset, file, gen, spec.(*ast.ValueSpec), stages); ok {
						all = append(all, d)
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 20 {
		t.Fatalf("found only %d declarations", len(all))
	}
	slices.SortStableFunc(all, func(a, b declaration) int { return strings.Compare(a.name, b.name) })
	return all
}

// read reads a declaration such as: var Created = plugin.NewEmit[*Session]("session/created").
func read(fset *token.FileSet, file *ast.File, gen *ast.GenDecl, spec *ast.ValueSpec, stages map[string]string) (d declaration, ok bool) {
	if len(spec.Values) != 1 || !spec.Names[0].IsExported() {
		return d, false
	}
	call, ok := spec.Values[0].(*ast.CallExpr)
	if !ok {
		return d, false
	}
	var types []ast.Expr
	fun := call.Fun
	switch generic := fun.(type) {
	case *ast.IndexExpr:
		fun, types = generic.X, []ast.Expr{generic.Index}
	case *ast.IndexListExpr:
		fun, types = generic.X, generic.Indices
	}
	sel, ok := fun.(*ast.SelectorExpr)
	if !ok {
		return d, false
	}
	if pkg, ok := sel.X.(*ast.Ident); !ok || pkg.Name != "plugin" {
		return d, false
	}
	kind, ok := strings.CutPrefix(sel.Sel.Name, "New")
	if !ok || !slices.Contains([]string{"Emit", "Parallel", "Serial", "Waterfall", "Key", "Set"}, kind) {
		return d, false
	}
	name, ok := call.Args[0].(*ast.BasicLit)
	if !ok {
		return d, false
	}
	d.kind, d.goName = kind, file.Name.Name+"."+spec.Names[0].Name
	d.name, _ = strconv.Unquote(name.Value) // the parser accepted it
	var printed []string
	for _, t := range types {
		var b bytes.Buffer
		if err := printer.Fprint(&b, fset, t); err != nil {
			return d, false
		}
		printed = append(printed, b.String())
	}
	d.types = strings.Join(printed, " → ")
	for _, arg := range call.Args[1:] {
		if stage, ok := arg.(*ast.Ident); ok {
			d.stages = append(d.stages, stages[stage.Name])
		}
	}
	doc := spec.Doc.Text() + spec.Comment.Text()
	if doc == "" && len(gen.Specs) == 1 {
		doc = gen.Doc.Text()
	}
	if doc == "" && len(types) > 0 {
		doc = typeDoc(file, types[0]) // what it carries says what it is
	}
	d.meaning = strings.ReplaceAll(strings.Join(strings.Fields(doc), " "), "|", `\|`)
	return d, true
}

// typeDoc is the comment of a type that the file declares.
func typeDoc(file *ast.File, t ast.Expr) string {
	name, ok := t.(*ast.Ident)
	if !ok {
		return ""
	}
	for _, decl := range file.Decls {
		if gen, ok := decl.(*ast.GenDecl); ok && gen.Tok == token.TYPE {
			for _, spec := range gen.Specs {
				if s := spec.(*ast.TypeSpec); s.Name.Name == name.Name {
					return s.Doc.Text()
				}
			}
		}
	}
	return ""
}

// stagesOf maps the constants of a file that name stages to their values.
func stagesOf(file *ast.File) map[string]string {
	stages := map[string]string{}
	for _, decl := range file.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.CONST {
			continue
		}
		for _, spec := range gen.Specs {
			v := spec.(*ast.ValueSpec)
			if len(v.Values) != 1 {
				continue
			}
			if lit, ok := v.Values[0].(*ast.BasicLit); ok {
				stages[v.Names[0].Name], _ = strconv.Unquote(lit.Value)
			}
		}
	}
	return stages
}
