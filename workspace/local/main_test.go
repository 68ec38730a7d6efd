package local_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/workspace"
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

func TestContractWithoutASandbox(t *testing.T) {
	workspacetest.Run(t, with(free))
}

// free lets commands run outside of any sandbox.
func free(c *workspace.Confinement) { c.Unconfined = "a test" }

// with is the plugin with a listener that changes how commands are confined.
func with(change func(*workspace.Confinement)) plugin.Definition {
	p := local.Plugin
	p.Start = func(ctx context.Context, s *plugin.Scope, c local.Config) error {
		_, err := workspace.Confining.On(s, func(ctx context.Context, c *workspace.Confinement, next plugin.Next[*workspace.Confinement, *workspace.Confinement]) (*workspace.Confinement, error) {
			change(c)
			return next(ctx, c)
		})
		return errors.Join(err, local.Plugin.Start(ctx, s, c))
	}
	return p.Definition()
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
