package cli

import "testing"

func TestFirstSentence(t *testing.T) {
	for text, want := range map[string]string{
		"Lists files, e.g. those of Go. The newest first.": "Lists files, e.g. those of Go.",
		"Reads, i.e. looks. Nothing else.":                 "Reads, i.e. looks.",
		"Reads version 1.2 of it":                          "Reads version 1.2 of it",
		"Reads.":                                           "Reads.",
		"":                                                 "",
	} {
		if got := firstSentence(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
