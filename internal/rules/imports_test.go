package rules

import (
	"path"
	"slices"
	"strings"
	"testing"
)

// seams, lowest first. A seam imports only lower ones; those of one rank do not import one another,
// but for what may says.
var seams = map[string]int{
	"plugin": 0, "protocol": 0,
	"llm":       1,
	"session":   2,
	"workspace": 3, "prompt": 3, "tool": 3,
	"policy": 4, "agent": 4, "view": 4,
}

// may lists the imports between seams of one rank: calls and prompts carry the workspace.
var may = map[string][]string{
	"tool":   {"workspace"},
	"prompt": {"workspace"},
}

// roots put implementations together, so they may import any.
var roots = []string{".", "std", "internal/rules", "docs/reference", "internal/demo"}

func isRoot(dir string) bool {
	return slices.Contains(roots, dir) || under(dir, "cmd") || under(dir, "examples") || under(dir, "surface") || under(dir, "bench")
}

func under(dir, top string) bool { return dir == top || strings.HasPrefix(dir, top+"/") }

// isShared says whether any implementation may import dir: a seam, or something with one private job.
func isShared(dir string) bool {
	_, seam := seams[dir]
	return seam || strings.Contains("/"+dir+"/", "/internal/") || dir == "config" || dir == "workspace/sandbox"
}

func TestSeamsImportOnlyLowerOnes(t *testing.T) {
	for _, p := range sources(t).pkgs {
		rank, seam := seams[p.dir]
		if !seam {
			continue
		}
		for _, f := range p.files {
			for _, imp := range f.imports() {
				other, isSeam := seams[imp]
				switch {
				case isSeam && (other < rank || slices.Contains(may[p.dir], imp)):
				case !isSeam && strings.Contains("/"+imp+"/", "/internal/"):
				default:
					t.Errorf("%s: the seam %s imports %s; a seam imports only lower seams and internal packages", f.name, p.dir, imp)
				}
			}
		}
	}
}

func TestImplementationsDoNotImportOneAnother(t *testing.T) {
	for _, p := range sources(t).pkgs {
		if isRoot(p.dir) {
			continue
		}
		if _, seam := seams[p.dir]; seam {
			continue
		}
		for _, f := range p.files {
			for _, imp := range f.imports() {
				// A folder may use its own parts, and a part the folder that it belongs to.
				if isShared(imp) || under(imp, p.dir) || (under(p.dir, imp) && imp != ".") {
					continue
				}
				// What helps to test a seam is written for whoever implements it.
				if strings.HasSuffix(path.Base(imp), "test") {
					continue
				}
				t.Errorf("%s imports %s; an implementation imports seams and internal packages, never another implementation", f.name, imp)
			}
		}
	}
}

// TestS01_OnlyTheCompositionRootImportsTheLoop proves that everything else reaches the loop through an interface.
func TestS01_OnlyTheCompositionRootImportsTheLoop(t *testing.T) {
	const loop = "agent/loop"
	found := false
	for _, p := range sources(t).pkgs {
		for _, f := range p.files {
			if !slices.Contains(f.imports(), loop) {
				continue
			}
			if p.dir != "std" {
				t.Errorf("%s imports %s: only std and tests may", f.name, loop)
			}
			found = true
		}
	}
	if !found {
		t.Errorf("nobody imports %s: did it move?", loop)
	}
}
