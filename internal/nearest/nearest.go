// Package nearest finds the name that a mistyped word most likely meant, for
// error messages of the form "unknown flag --modle; did you mean --model?".
// Its one function is pure and may be called from any goroutine.
package nearest

import (
	"strings"
	"unicode/utf8"
)

// longest is the length in runes above which a word is no typing mistake but
// something else, so that the cost of a suggestion is bounded.
const longest = 64

// Name returns the element of known that is nearest to word, or "" when none is
// near. Near means: few insertions, deletions, changes and swaps of neighbouring
// letters lead from one to the other, one for words of up to three letters, two up to
// six, three above, and never as many as the shorter of the two is long. A known name
// that begins with a word of at least three letters is near too. Case does not count.
// Of equally near names the first in known wins.
func Name(word string, known []string) string {
	w := []rune(strings.ToLower(word))
	if len(w) == 0 || len(w) > longest {
		return ""
	}
	best, bestCost, prefixed := "", allowed(len(w))+1, ""
	for _, name := range known {
		if utf8.RuneCountInString(name) > longest {
			continue
		}
		lower := strings.ToLower(name)
		k := []rune(lower)
		if cost := distance(w, k); cost < bestCost && cost < min(len(w), len(k)) {
			best, bestCost = name, cost
		}
		if prefixed == "" && len(w) >= 3 && strings.HasPrefix(lower, string(w)) {
			prefixed = name
		}
	}
	if best == "" {
		return prefixed
	}
	return best
}

func allowed(length int) int {
	switch {
	case length <= 3:
		return 1
	case length <= 6:
		return 2
	default:
		return 3
	}
}

// distance is the restricted Damerau-Levenshtein distance: a swapped pair is not edited again.
func distance(a, b []rune) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := last[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(change, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
