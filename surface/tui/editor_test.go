package tui

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dsh-harness/dsh/internal/cells"
)

// TestCase_o_tui_01 edits text with wide characters, and looks where the cursor stands.
func TestCase_o_tui_01(t *testing.T) {
	var e editor
	e.insert("你好，abc")
	e.at = e.before()
	e.at = e.before()
	e.insert("X")
	if e.text != "你好，aXbc" {
		t.Errorf("the text is %q", e.text)
	}
	for text, width := range map[string]int{"你好，aX": 8, "👨‍👩‍👧": 2, "é": 1, "ｶﾞ": 2} {
		e.set(text)
		if _, row, column := e.lines(40, 5, "> "); row != 0 || column != 2+width {
			t.Errorf("behind %q the cursor is in row %d, column %d, want column %d", text, row, column, 2+width)
		}
	}
}

// TestTheEditorEqualsANaiveOne compares it with a list of characters.
func TestTheEditorEqualsANaiveOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e editor
		var text []string
		at := 0
		for range rapid.IntRange(0, 60).Draw(t, "keys") {
			switch key := rapid.SampledFrom([]string{"a", "好", "👨‍👩‍👧", " ", "\n", "left", "right", "backspace", "delete", "home", "end", "ctrl+u", "ctrl+k"}).Draw(t, "key"); key {
			case "left":
				e.at = e.before()
				at = max(at-1, 0)
			case "right":
				e.at = e.after()
				at = min(at+1, len(text))
			case "backspace":
				e.cut(e.before())
				if at > 0 {
					text = append(text[:at-1:at-1], text[at:]...)
					at--
				}
			case "delete":
				e.cut(e.after())
				if at < len(text) {
					text = append(text[:at:at], text[at+1:]...)
				}
			case "home", "ctrl+u":
				from := at
				for from > 0 && text[from-1] != "\n" {
					from--
				}
				if key == "home" {
					e.at = e.lineStart()
				} else {
					e.cut(e.lineStart())
					text = append(text[:from:from], text[at:]...)
				}
				at = from
			case "end", "ctrl+k":
				to := at
				for to < len(text) && text[to] != "\n" {
					to++
				}
				if key == "end" {
					e.at = e.lineEnd()
					at = to
				} else {
					e.cut(e.lineEnd())
					text = append(text[:at:at], text[to:]...)
				}
			default:
				e.insert(key)
				text = append(text[:at:at], append([]string{key}, text[at:]...)...)
				at++
			}
			if e.text != strings.Join(text, "") || e.at != len(strings.Join(text[:at], "")) {
				t.Fatalf("the text is %q at %d, want %q at %d", e.text, e.at, strings.Join(text, ""), len(strings.Join(text[:at], "")))
			}
			width := rapid.IntRange(6, 30).Draw(t, "width")
			lines, row, column := e.lines(width, 1000, "> ")
			if row >= len(lines) || column > width {
				t.Fatalf("the cursor is in row %d of %d, column %d of %d", row, len(lines), column, width)
			}
			for _, l := range lines {
				if l.Width() > width {
					t.Fatalf("the line %q has %d cells", l.Text(), l.Width())
				}
			}
		}
	})
}

// TestALongPasteIsFoldedAndSentWhole also shows that nothing of a paste is lost by editing around it.
func TestALongPasteIsFoldedAndSentWhole(t *testing.T) {
	var e editor
	long := strings.Repeat("a line of a log\r\n", 120)
	e.insert("see ")
	e.put(long)
	e.insert(" and ")
	e.put("two\nlines")
	if want := "see [pasted 121 lines #1] and two\nlines"; e.text != want {
		t.Errorf("the prompt is %q, want %q", e.text, want)
	}
	if got, want := e.whole(), "see "+strings.ReplaceAll(long, "\r\n", "\n")+" and two\nlines"; got != want {
		t.Errorf("what is sent has %d bytes, want %d", len(got), len(want))
	}
}

func TestUpAndDownKeepTheColumn(t *testing.T) {
	var e editor
	e.set("a long line\nb\nanother line")
	e.at = len("a long")
	if !e.vertical(1) || e.at != len("a long line\nb") || !e.vertical(1) || e.vertical(1) {
		t.Errorf("the cursor is at %d", e.at)
	}
	for i, want := range []bool{true, true, false} {
		if e.vertical(-1) != want {
			t.Errorf("up, time %d: %v", i+1, !want)
		}
	}
}

func textOf(lines []cells.Line) string {
	var all []string
	for _, l := range lines {
		all = append(all, strings.TrimRight(l.Text(), " "))
	}
	return strings.Join(all, "\n")
}
