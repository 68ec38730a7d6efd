package config

import (
	"errors"
	"testing"
)

// What references stand for does not leave through the errors of plugins, not even in parts.
func TestErrorsAreCleaned(t *testing.T) {
	r := resolver{resolved: []resolution{{"abcd", "${env:SHORT}"}, {"abcdef", "${env:LONG}"}, {"on", "${env:WORD}"}}}
	const said, want = "cannot go on with abcdef, abcd or xabcdx", "cannot go on with ${env:LONG}, ${env:SHORT} or x${env:SHORT}x"
	err := errors.New(said)
	got := r.clean(err)
	if got.Error() != want || errors.Is(got, err) {
		t.Errorf("%q, want %q without a cause", got, want)
	}
	if harmless := errors.New("nothing to hide"); r.clean(harmless) != harmless {
		t.Error("an error without a value lost its identity")
	}
}
