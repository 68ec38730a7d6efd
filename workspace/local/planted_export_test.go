//go:build unix

package local

// Planted is for tests of what commands plant.
func Planted(root string) []string { return planted(root) }
