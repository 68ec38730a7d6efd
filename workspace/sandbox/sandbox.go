// Package sandbox confines a process by what the kernel offers: namespaces and mounts, Landlock,
// seccomp, resource limits. It is mechanism only, and knows nothing of sessions or modes.
//
// It is used by a process that stands between the harness and a command: the harness starts it with
// [Attr], it calls [Enter] and then [Lock], and starts the command. On systems other than
// Linux there is no sandbox, and [Probe] says so.
package sandbox

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/dsh-harness/dsh/workspace"
)

// ErrNoLandlock is about a kernel that has no Landlock, or was started without it.
var ErrNoLandlock = errors.New("the kernel has no Landlock")

// Spec is what a command may touch. All paths are absolute and without links. What is not below
// Write can be read and not be written. It is sent to the process in between as JSON.
type Spec struct {
	Level workspace.SandboxLevel `json:"level"`
	// WithoutLandlock is for a kernel that has none: the mounts of a full sandbox then hold alone.
	WithoutLandlock bool     `json:"withoutLandlock,omitempty"`
	Dir             string   `json:"dir"` // the working folder
	Write           []string `json:"write,omitempty"`
	Protect         []string `json:"protect,omitempty"` // below Write, but not written; what does not exist is left out
	Mask            []string `json:"mask,omitempty"`    // neither read nor written; what does not exist is left out
	Layers          []Layer  `json:"layers,omitempty"`
	// ProxyPort is where on the loopback inside a listener is made, 0 for none.
	ProxyPort int    `json:"proxyPort,omitempty"`
	Limits    Limits `json:"limits"`
}

// Layer shows a folder to a command, and keeps what the command writes there apart.
type Layer struct {
	Target string `json:"target"` // the folder; it exists
	Upper  string `json:"upper"`  // what was written, a folder for this command alone
	Work   string `json:"work"`   // an empty folder beside it
}

// Limits bound a command and what it starts. Zero means no bound.
type Limits struct {
	Processes uint64 `json:"processes,omitempty"`
	Memory    uint64 `json:"memory,omitempty"`   // bytes, of each process
	FileSize  uint64 `json:"fileSize,omitempty"` // bytes, of each file that is written
}

// Check fails when a path of s is not absolute and clean. A wrong one must not confine less.
func (s Spec) Check() error {
	for _, path := range slices.Concat([]string{s.Dir}, s.Write, s.Protect, s.Mask) {
		if !filepath.IsAbs(path) || filepath.Clean(path) != path {
			return fmt.Errorf("%q is no absolute, clean path", path)
		}
	}
	return nil
}
