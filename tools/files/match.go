package files

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/dsh-harness/dsh/internal/canon"
)

// found is where an edit's old text is, and what comes in its place.
type found struct {
	edits []udiff.Edit // in order, without overlap
	note  string       // a sentence for the model, with a space before it
}

// replace finds old in content. It is there as it is; or with other line ends, which
// the replacement then takes over; or in another Unicode spelling. Nothing else is
// taken for old. With an error of more than one match the edits are what was found.
func replace(content, old, new string, all bool) (found, error) {
	start := 0
	if strings.HasPrefix(content, string(bom)) {
		// The mark stays where it is, whether or not the model saw it.
		start = len(bom)
		old, new = strings.TrimPrefix(old, string(bom)), strings.TrimPrefix(new, string(bom))
		if old == "" {
			return found{}, fmt.Errorf("old_string is only the byte order mark, which stays")
		}
	}
	body := content[start:]
	places, note := exact(body, old), ""
	if len(places) == 0 && strings.Contains(old, "\n") {
		places = anyLineEnd(body, old)
	}
	if len(places) == 0 {
		places, note = canon.Find(body, old), " The file spells the old text with other Unicode characters."
	}
	if len(places) == 0 {
		return found{}, fmt.Errorf("old_string was not found. %s", miss(body, old, new))
	}
	var f found
	f.note = note
	adapt := strings.Contains(new, "\n") && !strings.Contains(new, "\r") && !strings.Contains(old, "\r")
	for _, at := range places {
		text := new
		if adapt && lineEnd(body, at) == "\r\n" {
			text = strings.ReplaceAll(new, "\n", "\r\n")
		}
		f.edits = append(f.edits, udiff.Edit{Start: start + at[0], End: start + at[1], New: text})
	}
	if len(places) > 1 && !all {
		return f, fmt.Errorf("old_string occurs %d times, on lines %s. Add lines around it until it is the one that is meant, or set replace_all", len(places), lineNumbers(body, places))
	}
	return f, nil
}

// exact returns the places of old, which do not overlap.
func exact(text, old string) (places [][2]int) {
	for at := 0; ; {
		i := strings.Index(text[at:], old)
		if i < 0 {
			return places
		}
		at += i + len(old)
		places = append(places, [2]int{at - len(old), at})
	}
}

// anyLineEnd returns the places of old where LF and CR LF count as the same.
func anyLineEnd(text, old string) (places [][2]int) {
	old = strings.ReplaceAll(old, "\r\n", "\n")
	first, _, _ := strings.Cut(old, "\n")
	for at := 0; at <= len(text); {
		i := strings.Index(text[at:], first)
		if i < 0 {
			break
		}
		at += i
		if n := prefixAnyLineEnd(text[at:], old); n > 0 {
			places = append(places, [2]int{at, at + n})
			at += n
		} else {
			at++
		}
	}
	return places
}

// prefixAnyLineEnd returns how many bytes of text are old, or 0.
func prefixAnyLineEnd(text, old string) int {
	at := 0
	for i := range len(old) {
		if old[i] == '\n' && strings.HasPrefix(text[at:], "\r\n") {
			at++
		}
		if at == len(text) || text[at] != old[i] {
			return 0
		}
		at++
	}
	return at
}

// lineEnd is how lines end at a place: in it, else after it, else before it.
func lineEnd(text string, at [2]int) string {
	i := strings.IndexByte(text[at[0]:], '\n')
	if i >= 0 {
		i += at[0]
	} else {
		i = strings.LastIndexByte(text[:at[0]], '\n')
	}
	if i > 0 && text[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// lineNumbers lists the lines of the first places.
func lineNumbers(text string, places [][2]int) string {
	const most = 8
	var numbers []string
	line, from := 1, 0
	for _, at := range places[:min(len(places), most)] {
		line += strings.Count(text[from:at[0]], "\n")
		from = at[0]
		numbers = append(numbers, strconv.Itoa(line))
	}
	if len(places) > most {
		numbers = append(numbers, "…")
	}
	return strings.Join(numbers, ", ")
}

// miss says why old is not in text, as far as that can be seen.
func miss(text, old, new string) string {
	if bare, ok := withoutNumbers(old); ok {
		if places := exact(text, bare); len(places) > 0 {
			return fmt.Sprintf("Its lines begin with the line numbers that read shows; without them it is on line %s.", lineNumbers(text, places))
		}
		return "Its lines begin with the line numbers that read shows: leave them out."
	}
	if hint := otherSpace(text, old); hint != "" {
		return hint
	}
	if new != "" {
		if places := exact(text, new); len(places) > 0 {
			return fmt.Sprintf("new_string is already there, on line %s: the edit may have been made before.", lineNumbers(text, places))
		}
	}
	if hint := closest(text, old); hint != "" {
		return hint
	}
	return "Read the file again."
}

// withoutNumbers strips line numbers of the kinds that tools show, if every line has one.
func withoutNumbers(s string) (bare string, ok bool) {
	var out strings.Builder
	for line := range strings.Lines(s) {
		rest := strings.TrimLeft(line, " ")
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		if digits == 0 {
			return "", false
		}
		rest = rest[digits:]
		for _, separator := range []string{"\t", "→", ": ", ":", "|"} {
			var cut bool
			if rest, cut = strings.CutPrefix(rest, separator); cut {
				ok = true
				break
			}
			ok = false
		}
		if !ok {
			return "", false
		}
		out.WriteString(rest)
	}
	return out.String(), ok && strings.Trim(out.String(), "\r\n") != ""
}

// comparedLines bounds how much of a file is searched for what old may have meant.
const comparedLines = 100_000

// otherSpace finds lines that differ from old in spaces, tabs and empty ends only.
func otherSpace(text, old string) string {
	want := squeeze(strings.Trim(old, "\n"))
	have := squeeze(text)
	if len(have) > comparedLines || len(want) == 0 {
		return ""
	}
	for i := 0; i+len(want) <= len(have); i++ {
		if !slices.EqualFunc(want, have[i:i+len(want)], func(a, b line) bool { return a.squeezed == b.squeezed }) {
			continue
		}
		for j, w := range want {
			if h := have[i+j]; h.text != w.text && w.squeezed != "" {
				return fmt.Sprintf("It differs from the file only in spaces and tabs: line %d is %s, old_string has %s.", i+j+1, quote(h.text), quote(w.text))
			}
		}
		return fmt.Sprintf("It differs from lines %d-%d only in spaces at the ends of lines.", i+1, i+len(want))
	}
	return ""
}

type line struct{ text, squeezed string }

func squeeze(s string) (lines []line) {
	for text := range strings.Lines(s) {
		text = strings.TrimRight(text, "\r\n")
		lines = append(lines, line{text, strings.Join(strings.Fields(text), " ")})
	}
	return lines
}

func quote(s string) string {
	const most = 120
	return strconv.QuoteToGraphic(string(cutRunes([]byte(s), most)))
}

// closest shows the lines that have most words in common with old.
func closest(text, old string) string {
	words := map[string]bool{}
	for _, w := range strings.FieldsFunc(old, notInWord) {
		words[w] = true
	}
	have := strings.Split(text, "\n")
	if len(words) == 0 || len(have) > comparedLines {
		return ""
	}
	window := min(lines(old), len(have))
	scores := make([]int, len(have))
	for i, line := range have {
		seen := map[string]bool{}
		for _, w := range strings.FieldsFunc(line, notInWord) {
			if words[w] && !seen[w] {
				seen[w] = true
				scores[i]++
			}
		}
	}
	best, bestAt, sum := 0, 0, 0
	for i, score := range scores {
		sum += score
		if i >= window {
			sum -= scores[i-window]
		}
		if sum > best {
			best, bestAt = sum, max(i-window+1, 0)
		}
	}
	if best*2 < len(words) {
		return ""
	}
	for scores[bestAt] == 0 {
		bestAt++
	}
	to := min(bestAt+window, bestAt+8)
	return fmt.Sprintf("The closest is:\n%s", excerpt(text, bestAt+1, to))
}

func notInWord(r rune) bool {
	return !(r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= 0x80)
}
