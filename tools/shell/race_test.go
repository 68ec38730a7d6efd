//go:build race

package shell_test

// The race detector multiplies memory.
const memoryFactor = 5
