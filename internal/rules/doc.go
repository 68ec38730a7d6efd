// Package rules holds the rules of the repository that a compiler does not know,
// as tests: which package may import which, that everything is documented, that
// goroutines have owners and that nothing happens before main. It has no code of
// its own and nobody imports it.
package rules
