// Command dsh is the agent harness with the plugins that it ships with. To build one with
// plugins of your own, copy this file and append them to the list.
package main

import (
	"os"

	"github.com/dsh-harness/dsh"
	"github.com/dsh-harness/dsh/std"
	"github.com/dsh-harness/dsh/surface/cli"
)

func main() {
	dsh.Guard()
	os.Exit(cli.Main(std.Plugins()))
}
