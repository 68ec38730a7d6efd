package local_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/workspace/local"
	"github.com/dsh-harness/dsh/workspace/workspacetest"
)

func TestMain(m *testing.M) {
	local.Guard()
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func TestContract(t *testing.T) {
	workspacetest.Run(t, local.Plugin.Definition())
}

// withEnv is the plugin with another default config.
func withEnv(names ...string) plugin.Definition {
	p := local.Plugin
	p.Default = func() local.Config {
		c := local.Plugin.Default()
		c.Env = names
		return c
	}
	return p.Definition()
}
