package docs

import (
	"fmt"
	"html"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// TestPictureShowsTheDemo draws what dsh demo prints and holds it against the picture in the README; -update draws it anew.
func TestPictureShowsTheDemo(t *testing.T) {
	s := shell{build(t), t.TempDir(), t.TempDir()}
	output := s.run(t, "dsh demo")
	// What comes before and behind the run names folders and times, which differ.
	begin, end := strings.Index(output, "\n> "), strings.Index(output, "\nWhat you saw")
	if begin < 0 || end < begin {
		t.Fatalf("dsh demo prints no run:\n%s", output)
	}
	lines := strings.Split(strings.TrimSpace(output[begin:end]), "\n")
	lines = slices.DeleteFunc(lines, slow.MatchString)
	got := draw("dsh demo", lines)
	if *update {
		if err := os.WriteFile("demo.svg", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile("demo.svg")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(shown(string(want)), shown(got)); diff != "" {
		t.Errorf("dsh demo prints something else than demo.svg shows; run go test ./docs -update and look at it\n%s", diff)
	}
}

var (
	// slow is how long a call took, which is told only of those that took long.
	slow  = regexp.MustCompile(`^    [0-9.]+m?s$`)
	drawn = regexp.MustCompile(`class="([a-z]+)"[^>]*>([^<]*)</text>`)
)

// shown returns the lines of a picture, sorted: a tool lists the newest file first, and all of the demo's are new.
func shown(svg string) (lines []string) {
	for _, m := range drawn.FindAllStringSubmatch(svg, -1) {
		lines = append(lines, m[1]+" "+m[2])
	}
	slices.Sort(lines)
	return lines
}

// draw returns lines of text in a window, as SVG.
func draw(title string, lines []string) string {
	const margin, lineHeight, charWidth, top = 20, 19, 7.83, 44 // of a font of 13 px
	widest := 0
	for _, l := range lines {
		widest = max(widest, utf8.RuneCountInString(expand(l)))
	}
	width, height := int(2*margin+charWidth*float64(widest)), top+lineHeight*len(lines)+margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d">`+"\n", width, height)
	b.WriteString(`<style>
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; white-space: pre; fill: #d7dce2 }
.dim { fill: #8b949e } .prompt { fill: #7ee787; font-weight: bold } .call { fill: #79c0ff } .bad { fill: #ff7b72 } .good { fill: #7ee787 }
</style>
`)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" rx="8" fill="#161b22"/>`+"\n", width, height)
	for i, colour := range []string{"#ff5f57", "#febc2e", "#28c840"} {
		fmt.Fprintf(&b, `<circle cx="%d" cy="18" r="5.5" fill="%s"/>`+"\n", margin+4+18*i, colour)
	}
	fmt.Fprintf(&b, `<text class="dim" x="%d" y="22" text-anchor="middle">%s</text>`+"\n", width/2, html.EscapeString(title))
	for i, l := range lines {
		if l = expand(l); l != "" {
			fmt.Fprintf(&b, `<text xml:space="preserve" class="%s" x="%d" y="%d">%s</text>`+"\n", class(l), margin, top+lineHeight*i+13, html.EscapeString(l))
		}
	}
	return b.String() + "</svg>\n"
}

// expand replaces tabs, which a picture has not.
func expand(line string) string { return strings.ReplaceAll(line, "\t", "  ") }

// class says what a line is, to give it about the colour that it has on a terminal.
func class(line string) string {
	indented := strings.HasPrefix(line, "  ")
	switch text := strings.TrimSpace(line); {
	case strings.HasPrefix(line, "> "):
		return "prompt"
	case strings.HasPrefix(line, "→ "):
		return "call"
	case indented && (strings.HasPrefix(text, "✗") || strings.HasPrefix(text, "FAILED")):
		return "bad"
	case indented && (strings.HasPrefix(text, "ok ") || text == "all passed"):
		return "good"
	case indented:
		return "dim"
	}
	return "text"
}
