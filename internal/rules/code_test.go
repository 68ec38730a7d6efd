package rules

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	for _, p := range sources(t).pkgs {
		documented := len(p.files) == 0
		for _, f := range p.files {
			documented = documented || len(strings.TrimSpace(f.ast.Doc.Text())) > 30
		}
		if !documented {
			t.Errorf("package %s has no doc comment that says what it is for", p.dir)
		}
	}
}

func TestEveryExportedNameIsDocumented(t *testing.T) {
	s := sources(t)
	for _, p := range s.pkgs {
		if p.name == "main" {
			continue
		}
		for _, f := range p.files {
			for _, d := range f.ast.Decls {
				for _, name := range undocumented(d) {
					t.Errorf("%s: %s has no doc comment", s.at(name), name.Name)
				}
			}
		}
	}
}

// undocumented lists the exported names that a declaration leaves without a comment.
func undocumented(d ast.Decl) []*ast.Ident {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Doc == nil && d.Name.IsExported() && exportedReceiver(d) && !conventional(d) {
			return []*ast.Ident{d.Name}
		}
	case *ast.GenDecl:
		var bare []*ast.Ident
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if d.Doc == nil && spec.Doc == nil && spec.Comment == nil && spec.Name.IsExported() {
					bare = append(bare, spec.Name)
				}
			case *ast.ValueSpec:
				// One comment may speak for a group of constants or variables.
				if d.Doc == nil && spec.Doc == nil && spec.Comment == nil && spec.Names[0].IsExported() && !groupIsDocumented(d) {
					bare = append(bare, spec.Names[0])
				}
			}
		}
		return bare
	}
	return nil
}

// groupIsDocumented says whether the first entry of a group carries a comment, as in an enumeration.
func groupIsDocumented(d *ast.GenDecl) bool {
	first, ok := d.Specs[0].(*ast.ValueSpec)
	return ok && (first.Doc != nil || first.Comment != nil || first.Type != nil)
}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	typ := d.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	switch generic := typ.(type) {
	case *ast.IndexExpr:
		typ = generic.X
	case *ast.IndexListExpr:
		typ = generic.X
	}
	name, ok := typ.(*ast.Ident)
	return ok && name.IsExported()
}

// conventional methods say by their name what they do.
func conventional(d *ast.FuncDecl) bool {
	switch d.Name.Name {
	case "Error", "Unwrap", "String", "Is", "MarshalJSON", "UnmarshalJSON", "MarshalText", "UnmarshalText":
		return d.Recv != nil
	}
	return false
}

func TestNothingHappensBeforeMain(t *testing.T) {
	s := sources(t)
	for _, p := range s.pkgs {
		for _, f := range p.files {
			for _, d := range f.ast.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					if d.Recv == nil && d.Name.Name == "init" {
						t.Errorf("%s: func init: let who needs it call it", s.at(d))
					}
				case *ast.GenDecl:
					if d.Tok == token.VAR {
						ast.Inspect(d, func(n ast.Node) bool {
							if _, isFunc := n.(*ast.FuncLit); isFunc {
								return false
							}
							if call, ok := n.(*ast.CallExpr); ok && calls(call, "regexp", "MustCompile", "Compile") {
								t.Errorf("%s: a regular expression is compiled before main; use sync.OnceValue", s.at(call))
							}
							return true
						})
					}
				}
			}
		}
	}
}

func calls(call *ast.CallExpr, pkg string, names ...string) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	if !ok || x.Name != pkg {
		return false
	}
	for _, name := range names {
		if sel.Sel.Name == name {
			return true
		}
	}
	return false
}

func TestGoroutinesHaveAnOwner(t *testing.T) {
	s := sources(t)
	for _, p := range s.pkgs {
		// The kernel has Scope.Go and moves the nodes of a tree; what helps tests is part of them.
		if p.dir == "plugin" || strings.HasSuffix(p.name, "test") {
			continue
		}
		for _, f := range p.files {
			ast.Inspect(f.ast, func(n ast.Node) bool {
				if g, ok := n.(*ast.GoStmt); ok {
					t.Errorf("%s: go statement: use plugin.Scope.Go, or sync.WaitGroup.Go and Wait in one function", s.at(g))
				}
				return true
			})
		}
	}
}

// states are the package variables that are there to be changed, each with what no value could do instead.
func states() map[string]string {
	return map[string]string{
		"workspace/local.guarded": "whether this process would become a guardian when it is started once more",
	}
}

// TestPackagesHoldNoState finds package variables that are changed, or that are of a kind that is only there to be changed.
func TestPackagesHoldNoState(t *testing.T) {
	s := sources(t)
	for _, p := range s.pkgs {
		vars := map[string]bool{}
		for _, f := range p.files {
			for _, d := range f.ast.Decls {
				gen, ok := d.(*ast.GenDecl)
				if !ok || gen.Tok != token.VAR {
					continue
				}
				for _, spec := range gen.Specs {
					v := spec.(*ast.ValueSpec)
					for _, name := range v.Names {
						vars[name.Name] = name.Name != "_"
					}
					if sel, ok := v.Type.(*ast.SelectorExpr); ok {
						x, ok := sel.X.(*ast.Ident)
						if ok && (x.Name == "sync" || x.Name == "atomic") && states()[p.dir+"."+v.Names[0].Name] == "" {
							t.Errorf("%s: %s is mutable state of a package", s.at(v), v.Names[0].Name)
						}
					}
				}
			}
		}
		for _, f := range p.files {
			for _, d := range f.ast.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok || fn.Body == nil {
					continue
				}
				ast.Inspect(fn.Body, func(n ast.Node) bool {
					switch n := n.(type) {
					case *ast.AssignStmt:
						if n.Tok != token.DEFINE {
							for _, lhs := range n.Lhs {
								changed(t, s, f, vars, lhs)
							}
						}
					case *ast.IncDecStmt:
						changed(t, s, f, vars, n.X)
					}
					return true
				})
			}
		}
	}
}

// changed reports an assignment to a package variable, or to a part of one.
func changed(t *testing.T, s *source, f *file, vars map[string]bool, lhs ast.Expr) {
	for {
		switch x := lhs.(type) {
		case *ast.IndexExpr:
			lhs = x.X
		case *ast.SelectorExpr:
			lhs = x.X
		case *ast.StarExpr:
			lhs = x.X
		case *ast.ParenExpr:
			lhs = x.X
		case *ast.Ident:
			// Without an object it is declared in another file of the package.
			global := x.Obj == nil || x.Obj == f.ast.Scope.Lookup(x.Name)
			if vars[x.Name] && global {
				t.Errorf("%s: the package variable %s is changed", s.at(x), x.Name)
			}
			return
		default:
			return
		}
	}
}
