package screen_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/charmbracelet/x/vt"
	"pgregory.net/rapid"

	"github.com/dsh-harness/dsh/internal/cells"
	"github.com/dsh-harness/dsh/internal/screen"
)

// shown is everything that a terminal has shown and shows, without blank lines at the end.
func shown(e *vt.Emulator) []string {
	var all []string
	for y := range e.ScrollbackLen() {
		var b strings.Builder
		for x := 0; x < e.Width(); x++ {
			c := e.ScrollbackCellAt(x, y)
			switch {
			case c == nil || c.Content == "":
				b.WriteByte(' ')
			default:
				b.WriteString(c.Content)
				x += max(c.Width, 1) - 1
			}
		}
		all = append(all, strings.TrimRight(b.String(), " "))
	}
	for line := range strings.SplitSeq(e.String(), "\n") {
		all = append(all, strings.TrimRight(line, " \r"))
	}
	for len(all) > 0 && all[len(all)-1] == "" {
		all = all[:len(all)-1]
	}
	return all
}

func plain(lines ...string) []cells.Line {
	var all []cells.Line
	for _, l := range lines {
		all = append(all, cells.Plain(l))
	}
	return all
}

// TestTheTerminalShowsWhatWasDrawn is the law: everything that was finished, once and in order, and below it the region.
func TestTheTerminalShowsWhatWasDrawn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width, height := rapid.IntRange(5, 40).Draw(t, "width"), rapid.IntRange(2, 12).Draw(t, "height")
		e := vt.NewEmulator(width, height)
		s := screen.New(e, screen.Options{Width: width, Height: height, Color: true})
		line := rapid.Custom(func(t *rapid.T) cells.Line {
			text := rapid.SampledFrom([]string{"", "a", "some words of text", "你好，世界", "exactly", strings.Repeat("x", width), strings.Repeat("y", width+3), "z "}).Draw(t, "text")
			return cells.Styled(text, cells.Style{Bold: rapid.Bool().Draw(t, "bold")})
		})
		var want []string
		for range rapid.IntRange(1, 12).Draw(t, "frames") {
			finished := rapid.SliceOfN(line, 0, 4).Draw(t, "finished")
			region := rapid.SliceOfN(line, 0, 14).Draw(t, "region")
			var cursor *screen.Position
			if len(region) > 0 && rapid.Bool().Draw(t, "cursor") {
				cursor = &screen.Position{Row: rapid.IntRange(0, len(region)-1).Draw(t, "row"), Column: rapid.IntRange(0, width-1).Draw(t, "column")}
			}
			if err := s.Draw(finished, region, cursor); err != nil {
				t.Fatal(err)
			}
			for _, l := range finished {
				for _, part := range cells.Wrap(l, width, 0) {
					want = append(want, strings.TrimRight(part.Text(), " "))
				}
			}
			below := region[max(0, len(region)-max(height-1, 1)):]
			full := append([]string(nil), want...)
			for _, l := range below {
				full = append(full, strings.TrimRight(l.Fit(width).Text(), " "))
			}
			for len(full) > 0 && full[len(full)-1] == "" {
				full = full[:len(full)-1]
			}
			if got := shown(e); strings.Join(got, "\n") != strings.Join(full, "\n") {
				t.Fatalf("%dx%d shows\n%s\nwant\n%s", width, height, strings.Join(got, "\n"), strings.Join(full, "\n"))
			}
			if cursor != nil && e.CursorPosition().X != cursor.Column {
				t.Fatalf("the cursor is in column %d, not %d", e.CursorPosition().X, cursor.Column)
			}
		}
	})
}

// TestOnlyWhatChangedIsWritten: a token at the end of one line costs about that line, however large the region is.
func TestOnlyWhatChangedIsWritten(t *testing.T) {
	var out bytes.Buffer
	s := screen.New(&out, screen.Options{Width: 80, Height: 60})
	region := plain()
	for i := range 50 {
		region = append(region, cells.Plain(fmt.Sprint("line ", i, " of the answer, with some words")))
	}
	if err := s.Draw(nil, region, nil); err != nil {
		t.Fatal(err)
	}
	out.Reset()
	region[49] = region[49].Add(" more", cells.Style{})
	if err := s.Draw(nil, region, nil); err != nil {
		t.Fatal(err)
	}
	if n := out.Len(); n > 120 {
		t.Errorf("one more word is %d bytes: %q", n, out.String())
	}
	out.Reset()
	if err := s.Draw(nil, region, nil); err != nil {
		t.Fatal(err)
	}
	if n := out.Len(); n > 20 {
		t.Errorf("nothing new is %d bytes: %q", n, out.String())
	}
}

func TestTheTerminalIsGivenBack(t *testing.T) {
	var out bytes.Buffer
	s := screen.New(&out, screen.Options{Width: 20, Height: 5})
	if err := s.Draw(plain("kept"), plain("gone", "gone too"), nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Leave(); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{"2004", "1004"} {
		if strings.Count(out.String(), "\x1b[?"+mode+"h") != strings.Count(out.String(), "\x1b[?"+mode+"l") {
			t.Errorf("mode %s is left on: %q", mode, out.String())
		}
	}
	if strings.LastIndex(out.String(), "\x1b[?25h") < strings.LastIndex(out.String(), "\x1b[?25l") || !strings.Contains(out.String(), "\x1b[<u") {
		t.Errorf("the cursor or the keys are left as they were drawn with: %q", out.String())
	}
	e := vt.NewEmulator(20, 5)
	if _, err := e.Write(out.Bytes()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(shown(e), "|"); got != "kept" {
		t.Errorf("it shows %q", got)
	}
}

func BenchmarkToken(b *testing.B) {
	var out bytes.Buffer
	s := screen.New(&out, screen.Options{Width: 100, Height: 60, Color: true})
	region := plain()
	for i := range 50 {
		region = append(region, cells.Plain(fmt.Sprint("line ", i, " of the answer, with some words")))
	}
	bytesOut := 0
	for b.Loop() {
		out.Reset()
		region[49] = cells.Plain(strings.Repeat("word ", 1+bytesOut%12))
		if err := s.Draw(nil, region, nil); err != nil {
			b.Fatal(err)
		}
		bytesOut += out.Len()
	}
	b.ReportMetric(float64(bytesOut)/float64(b.N), "B-out/op")
}

// TestAFullScreenShowsTheEndOrWhatIsScrolledTo is the law of the other way to draw: the screen is the rows before, and the region below them.
func TestAFullScreenShowsTheEndOrWhatIsScrolledTo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width, height := rapid.IntRange(8, 40).Draw(t, "width"), rapid.IntRange(3, 12).Draw(t, "height")
		e := vt.NewEmulator(width, height)
		s := screen.New(e, screen.Options{Width: width, Height: height, Full: true})
		var rows []string
		back := 0
		for n := range rapid.IntRange(1, 15).Draw(t, "frames") {
			var finished []cells.Line
			more := 0
			for i := range rapid.IntRange(0, 5).Draw(t, "finished") {
				l := cells.Plain(fmt.Sprintf("%d.%d %s", n, i, strings.Repeat("w", rapid.IntRange(0, 30).Draw(t, "length"))))
				finished = append(finished, l)
				parts := cells.Wrap(l, width, 0)
				for _, part := range parts {
					rows = append(rows, strings.TrimRight(part.Text(), " "))
				}
				more += len(parts)
			}
			if rapid.Bool().Draw(t, "resized") {
				if err := s.Resize(width, height); err != nil {
					t.Fatal(err)
				}
			}
			by := rapid.IntRange(-8, 8).Draw(t, "scrolled")
			region := plain("> prompt", "status")
			// Scrolling comes before what was finished meanwhile is drawn.
			s.Scroll(by)
			if back = max(back+by, 0); back > 0 {
				back += more // who looks back goes on seeing the same
			}
			if err := s.Draw(finished, region, nil); err != nil {
				t.Fatal(err)
			}
			room := height - len(region)
			back = max(min(back, len(rows)-room), 0)
			end := len(rows) - back
			want := append(append([]string(nil), rows[max(0, end-room):end]...), "> prompt", "status")
			for i := range want {
				want[i] = strings.TrimRight(want[i], " ")
			}
			var got []string
			for line := range strings.SplitSeq(e.String(), "\n") {
				got = append(got, strings.TrimRight(line, " \r"))
			}
			for len(got) > 0 && got[len(got)-1] == "" {
				got = got[:len(got)-1]
			}
			if strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Fatalf("%dx%d, %d back, shows\n%s\nwant\n%s", width, height, back, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
		if e.ScrollbackLen() > 0 && !e.IsAltScreen() {
			t.Fatal("a full screen has scrolled the terminal")
		}
	})
}
