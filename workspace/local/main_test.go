package local_test

import (
	"os"
	"testing"

	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/workspace/local"
	"github.com/dsh-harness/dsh/workspace/workspacetest"
)

func TestMain(m *testing.M) {
	local.Guard()
	os.Exit(m.Run())
}

func TestContract(t *testing.T) {
	workspacetest.Run(t, local.Plugin.Definition())
}

// withEnv is the plugin with another default config.
func withEnv(names ...string) plugin.Definition {
	p := local.Plugin
	p.Default = func() local.Config { return local.Config{Env: names} }
	return p.Definition()
}
