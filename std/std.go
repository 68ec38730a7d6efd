// Package std lists the plugins that dsh ships with. It is where the parts of the harness
// meet: nothing else imports them all. The list is a value that any goroutine may ask for.
package std

import (
	"github.com/dsh-harness/dsh/agent/commands"
	"github.com/dsh-harness/dsh/agent/loop"
	agents "github.com/dsh-harness/dsh/agent/registry"
	"github.com/dsh-harness/dsh/llm/openai"
	"github.com/dsh-harness/dsh/llm/replay"
	"github.com/dsh-harness/dsh/llm/retry"
	"github.com/dsh-harness/dsh/llm/runtime"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/policy/approval"
	"github.com/dsh-harness/dsh/policy/hooks"
	"github.com/dsh-harness/dsh/policy/mode"
	"github.com/dsh-harness/dsh/policy/network"
	"github.com/dsh-harness/dsh/policy/permission"
	"github.com/dsh-harness/dsh/policy/redaction"
	"github.com/dsh-harness/dsh/policy/repetition"
	"github.com/dsh-harness/dsh/policy/trust"
	"github.com/dsh-harness/dsh/prompt/assembler"
	"github.com/dsh-harness/dsh/prompt/environment"
	"github.com/dsh-harness/dsh/prompt/identity"
	"github.com/dsh-harness/dsh/prompt/instructions"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/session/barrier"
	"github.com/dsh-harness/dsh/session/jsonl"
	"github.com/dsh-harness/dsh/session/title"
	tools "github.com/dsh-harness/dsh/tool/registry"
	"github.com/dsh-harness/dsh/tool/spill"
	"github.com/dsh-harness/dsh/tools/files"
	"github.com/dsh-harness/dsh/tools/search"
	"github.com/dsh-harness/dsh/tools/shell"
	"github.com/dsh-harness/dsh/view/usage"
	"github.com/dsh-harness/dsh/workspace/local"
)

// Plugins returns what rows of a configuration may name. A program with plugins of its own
// appends them:
//
//	cli.Main(append(std.Plugins(), weather.Plugin.Definition()))
func Plugins() []plugin.Definition {
	return []plugin.Definition{
		session.StorePlugin.Definition(),
		jsonl.Plugin.Definition(),
		barrier.Plugin.Definition(),
		title.Plugin.Definition(),
		runtime.Plugin.Definition(),
		openai.Plugin.Definition(),
		replay.Plugin.Definition(),
		retry.Plugin.Definition(),
		assembler.Plugin.Definition(),
		identity.Plugin.Definition(),
		environment.Plugin.Definition(),
		instructions.Plugin.Definition(),
		trust.Plugin.Definition(),
		redaction.Plugin.Definition(),
		hooks.Plugin.Definition(),
		permission.Plugin.Definition(),
		mode.Plugin.Definition(),
		approval.Plugin.Definition(),
		network.Plugin.Definition(),
		repetition.Plugin.Definition(),
		tools.Plugin.Definition(),
		spill.Plugin.Definition(),
		files.Plugin.Definition(),
		search.Plugin.Definition(),
		shell.Plugin.Definition(),
		local.Plugin.Definition(),
		agents.Plugin.Definition(),
		loop.Plugin.Definition(),
		commands.Plugin.Definition(),
		usage.Plugin.Definition(),
	}
}
