//go:build race

package permission

// slower is how much longer everything takes with the race detector.
const slower = 10
