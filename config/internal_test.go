package config

import "testing"

// What references stand for does not leave through the errors of plugins, not even in parts.
func TestErrorsAreCleaned(t *testing.T) {
	r := resolver{resolved: []resolution{{"abcd", "${env:SHORT}"}, {"abcdef", "${env:LONG}"}, {"on", "${env:WORD}"}}}
	const said, want = "cannot go on with abcdef, abcd or xabcdx", "cannot go on with ${env:LONG}, ${env:SHORT} or x${env:SHORT}x"
	if got := r.clean(said); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
