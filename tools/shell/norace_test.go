//go:build !race

package shell_test

const memoryFactor = 1
