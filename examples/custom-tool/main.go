// Command custom-tool is dsh with one more tool: the model can count the days between two dates.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/dsh-harness/dsh"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/std"
	"github.com/dsh-harness/dsh/surface/cli"
	"github.com/dsh-harness/dsh/tool"
)

type dates struct {
	From string `json:"from" doc:"A day, such as 2026-01-31."`
	To   string `json:"to" doc:"The other day."`
}

func count(_ context.Context, _ *tool.Call, in dates) (tool.Result, error) {
	from, err1 := time.Parse(time.DateOnly, in.From)
	to, err2 := time.Parse(time.DateOnly, in.To)
	if err := errors.Join(err1, err2); err != nil {
		return tool.Failure("no-date", err.Error()), nil
	}
	return tool.Text(fmt.Sprintf("%d days", int(to.Sub(from).Hours()/24))), nil
}

var calendar = plugin.Plugin[struct{}]{Name: "calendar", Start: func(_ context.Context, s *plugin.Scope, _ struct{}) error {
	return tool.Add(s, tool.New(tool.Spec{Name: "count_days", Description: "Counts the days between two dates."}, count))
}}

func main() {
	dsh.Guard()
	os.Exit(cli.Main(append(std.Plugins(), calendar.Definition())))
}
