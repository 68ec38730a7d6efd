package local_test

import (
	"os"
	"testing"

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
