package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dsh-harness/dsh/workspace"
)

// places is what a random confinement says of a tree of folders.
type places struct{ write, protect, mask []string }

func below(path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return path == d || strings.HasPrefix(path, d+"/") })
}

func (p places) readable(path string) bool { return !below(path, p.mask) }
func (p places) writable(path string) bool {
	return below(path, p.write) && !below(path, p.protect) && !below(path, p.mask)
}

// probe prints for each folder whether its file can be read, and whether it and the folder can be written. Then it tries to
// get around by moving every folder away, and to put others in their place.
const probe = `
while read -r d; do
	r=-; w=-; n=-
	[ "$(cat "$d/file" 2>/dev/null)" = content ] && r=r
	(echo more >> "$d/file") 2>/dev/null && w=w
	(echo new > "$d/new") 2>/dev/null && n=n
	echo "$d $r$w$n"
done < "$LIST" | cat
exec 2>/dev/null
tac "$LIST" | while read -r d; do mv "$d" "$d.moved" && mkdir "$d" && echo planted > "$d/file"; ln -sfn /etc "$d"; done
while read -r d; do mv "$d" "$d.gone" && mkdir -p "$d" && echo planted > "$d/file"; rm -rf "$d/file"; done < "$LIST"
true`

func TestTrust_S10_TheKernelDoesWhatTheModelSays(t *testing.T) {
	if asOrdinaryUser(t) {
		return
	}
	var now places
	w, dir := confined(t, func(c *workspace.Confinement) {
		c.Write = append(c.Write, now.write...)
		c.Protect, c.Mask = now.protect, now.mask
	})
	list := filepath.Join(dir, "list")
	base := realDirBeside(t)
	for n := range times(25, 1000) {
		root := filepath.Join(base, fmt.Sprint(n))
		made := rapid.Custom(func(t *rapid.T) (tree struct {
			dirs []string
			places
		}) {
			for range rapid.IntRange(3, 12).Draw(t, "folders") {
				parent := root
				if len(tree.dirs) > 0 && rapid.SampledFrom([]bool{true, true, true, false}).Draw(t, "deeper") {
					parent = rapid.SampledFrom(tree.dirs).Draw(t, "parent")
				}
				tree.dirs = append(tree.dirs, filepath.Join(parent, fmt.Sprintf("d%d", len(tree.dirs))))
			}
			for _, d := range tree.dirs {
				switch rapid.SampledFrom([]string{"as above", "write", "as above", "protect", "as above", "write", "mask"}).Draw(t, "kind") {
				case "write":
					tree.write = append(tree.write, d)
				case "protect":
					tree.protect = append(tree.protect, d)
				case "mask":
					tree.mask = append(tree.mask, d)
				}
			}
			return tree
		}).Example(n)
		for _, d := range made.dirs {
			must(t, os.MkdirAll(d, 0o755))
			must(t, os.WriteFile(filepath.Join(d, "file"), []byte("content"), 0o644))
		}
		must(t, os.WriteFile(list, []byte(strings.Join(made.dirs, "\n")+"\n"), 0o644))
		now = made.places
		out, result := sh(t, w, probe, workspace.Command{Env: []string{"LIST=" + list}})
		for i, line := range strings.Split(strings.TrimSpace(out), "\n") {
			d := made.dirs[i]
			want := []byte("---")
			if now.readable(d) {
				want[0] = 'r'
			}
			if now.writable(d) {
				want[1], want[2] = 'w', 'n'
			}
			if line != d+" "+string(want) {
				t.Fatalf("tree %d: %q, want %s; %+v; %+v", n, line, want, now, result)
			}
		}
		for _, d := range made.dirs {
			if now.writable(d) {
				continue
			}
			entries, err := os.ReadDir(d)
			content, err2 := os.ReadFile(filepath.Join(d, "file"))
			names := ""
			for _, e := range entries {
				if !e.IsDir() {
					names += e.Name() + " "
				}
			}
			if err != nil || err2 != nil || string(content) != "content" || names != "file " {
				t.Fatalf("tree %d: %s has %q with %q, %v %v; %+v", n, d, names, content, err, err2, now)
			}
		}
	}
}
