// Package bench measures dsh as a whole process beside the floor, a program without
// features that does the same wire work: it streams a chat completion, runs the tool that the
// answer asks for, appends every message to a file, syncs that once a step, and goes on.
//
//	go test -run '^$' -bench . -benchtime 9x ./bench
//
// Both take turns against a model server on the loopback address, so that the
// ratio, in floors, holds when the speed of the machine drifts. The package has no code but
// its benchmarks. docs/performance.md has the results.
package bench
