//go:build unix && !linux

package local

import "github.com/dsh-harness/dsh/workspace/sandbox"

// cgroups are the control groups of one command; only Linux has them.
type cgroups struct{}

func machineMemory() uint64 { return 0 }

func newCgroups(sandbox.Limits) cgroups { return cgroups{} }
func (cgroups) relieve(*sandbox.Limits) {}
func (cgroups) add(int) error           { return nil }
func (cgroups) hit() string             { return "" }
func (cgroups) remove()                 {}
