package local

import (
	"fmt"

	"github.com/dsh-harness/dsh/workspace/sandbox"
)

// LimitConfig bounds each confined command.
type LimitConfig struct {
	Processes       int `json:"processes" doc:"How many processes and threads there may be at once."`
	MemoryMegabytes int `json:"memoryMegabytes" doc:"How much memory all of them may use, or each one where the system cannot count them together; in megabytes (10^6 bytes)."`
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
	return LimitConfig{Processes: 1024, MemoryMegabytes: 8192, FileMegabytes: 16384}
}

func (c LimitConfig) limits() sandbox.Limits {
	return sandbox.Limits{Processes: uint64(c.Processes), Memory: uint64(c.MemoryMegabytes) * 1e6, FileSize: uint64(c.FileMegabytes) * 1e6}
}
