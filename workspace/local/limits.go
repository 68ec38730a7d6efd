package local

import (
	"fmt"

	"github.com/dsh-harness/dsh/workspace/sandbox"
)

// LimitConfig bounds each confined command.
type LimitConfig struct {
	Processes       int `json:"processes" doc:"How many processes and threads there may be at once."`
	MemoryMegabytes int `json:"memoryMegabytes" doc:"How much memory all of them may use, or each one where the system cannot count them together; in megabytes (10^6 bytes). Never more than three quarters of the machine's."`
	FileMegabytes   int `json:"fileMegabytes" doc:"How large a file may become, in megabytes."`
}

// Validate refuses limits below which nothing runs.
func (c LimitConfig) Validate() error {
	switch {
	case c.Processes < 16:
		return fmt.Errorf("processes is %d: it must be at least 16", c.Processes)
	case c.MemoryMegabytes < 64:
		return fmt.Errorf("memoryMegabytes is %d: it must be at least 64", c.MemoryMegabytes)
	case c.FileMegabytes < 1:
		return fmt.Errorf("fileMegabytes is %d: it must be at least 1", c.FileMegabytes)
	}
	return nil
}

func defaultLimits() LimitConfig {
	return LimitConfig{Processes: 512, MemoryMegabytes: 8192, FileMegabytes: 16384}
}

// limits leaves a quarter of the machine's memory to everybody else; 0 means that nobody knows how much there is.
func (c LimitConfig) limits(machine uint64) sandbox.Limits {
	memory := uint64(c.MemoryMegabytes) * 1e6
	if machine > 0 {
		memory = min(memory, machine/4*3)
	}
	return sandbox.Limits{Processes: uint64(c.Processes), Memory: memory, FileSize: uint64(c.FileMegabytes) * 1e6}
}
