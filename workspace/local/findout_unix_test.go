//go:build unix

package local

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dsh-harness/dsh/workspace"
	"github.com/dsh-harness/dsh/workspace/sandbox"
)

// Whatever refuses a sandbox, what is said is what there is, and commands are confined by that.
func TestTrust_S04_WhatATrialTells(t *testing.T) {
	refused := errors.New("operation not permitted")
	none := fmt.Errorf("%w: function not implemented", sandbox.ErrNoLandlock)
	for _, c := range []struct {
		name                   string
		full, without, partial error // of the trials; nil is a success
		level, by              workspace.SandboxLevel
		withoutLandlock        bool
		why                    string
	}{
		{"all", nil, nil, nil, workspace.SandboxFull, workspace.SandboxFull, false, ""},
		{"no namespaces", refused, nil, nil, workspace.SandboxPartial, workspace.SandboxPartial, false, "a full sandbox is refused here: operation not permitted"},
		{"no Landlock", none, nil, none, workspace.SandboxPartial, workspace.SandboxFull, true, "the kernel has no Landlock: function not implemented, so that mounts, seccomp and limits hold alone"},
		{"neither", none, refused, none, workspace.SandboxNone, "", false, "a sandbox is refused here: the kernel has no Landlock: function not implemented; without it: operation not permitted; without namespaces: the kernel has no Landlock: function not implemented"},
		{"an old kernel", refused, nil, errors.New("the kernel has version 1 of Landlock"), workspace.SandboxNone, "", false, "a sandbox is refused here: operation not permitted; without namespaces: the kernel has version 1 of Landlock"},
	} {
		for _, layers := range []error{nil, refused} {
			trial := func(s sandbox.Spec) error {
				switch {
				case len(s.Layers) > 0:
					return layers
				case s.Level == workspace.SandboxPartial:
					return c.partial
				case s.WithoutLandlock:
					return c.without
				}
				return c.full
			}
			released := 0
			find := findOut(trial, func() (sandbox.Layer, func(), error) { return sandbox.Layer{Target: "/t"}, func() { released++ }, nil })
			f := find()
			if f.level != c.level || f.by.Level != c.by || f.by.WithoutLandlock != c.withoutLandlock || f.why != c.why {
				t.Errorf("%s: %+v", c.name, f)
			}
			if want := c.by == workspace.SandboxFull && layers == nil; f.layers != want || (c.by == workspace.SandboxFull) != (released == 1) {
				t.Errorf("%s: layers %v, released %d times", c.name, f.layers, released)
			}
			if len(f.by.Layers) > 0 || strings.Contains(f.why, "\n") {
				t.Errorf("%s: %+v", c.name, f)
			}
			if again := find(); again.why != f.why || released > 1 {
				t.Errorf("%s: it was tried twice", c.name)
			}
		}
	}
}
