package mode

import (
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
)

// row is what a mode says about each kind of access where no place has rules of its own.
type row struct {
	read     tool.Decision
	write    tool.Decision // below the roots
	outside  tool.Decision // a write that is not below them
	confined tool.Decision // a command where the sandbox is full
	command  tool.Decision // a command elsewhere
	network  tool.Decision
}

// table is the policy's table of modes. A write outside of the roots is denied where the sandbox
// refuses it to commands, so that a file tool does not reach farther than they do.
func table(m policy.Mode) row {
	switch m {
	case policy.ReadOnly, policy.Plan:
		return row{tool.Allow, tool.Deny, tool.Deny, tool.Confined, tool.Ask, tool.Deny}
	case policy.AskFirst:
		return row{tool.Allow, tool.Ask, tool.Ask, tool.Ask, tool.Ask, tool.Ask}
	case policy.WorkspaceWrite:
		return row{tool.Allow, tool.Allow, tool.Deny, tool.Confined, tool.Ask, tool.Ask}
	case policy.FullAccess:
		return row{} // everything is allowed
	}
	return row{tool.Deny, tool.Deny, tool.Deny, tool.Deny, tool.Deny, tool.Deny}
}

// changes reports whether a mode lets anything be changed at all, which no rule makes it do.
func changes(m policy.Mode) bool {
	switch m {
	case policy.ReadOnly, policy.Plan:
		return false
	case policy.AskFirst, policy.WorkspaceWrite, policy.FullAccess:
		return true
	}
	return false
}

func (r row) execute(level workspace.SandboxLevel) tool.Decision {
	switch level {
	case workspace.SandboxFull:
		return r.confined
	case workspace.SandboxPartial, workspace.SandboxNone:
		return r.command
	}
	return r.command
}
