package config_test

import (
	"context"
	"fmt"
	"time"

	"github.com/dsh-harness/dsh/config"
	"github.com/dsh-harness/dsh/plugin"
)

type clockConfig struct {
	Every time.Duration `json:"every" doc:"How often it tells the time."`
	Zone  string        `json:"zone" doc:"The time zone, as in Europe/Paris."`
}

// A plugin's defaults, a user's file and the command line come together.
func Example() {
	clock := plugin.Plugin[clockConfig]{
		Name:    "clock",
		Doc:     "Tells the time.",
		Default: func() clockConfig { return clockConfig{Every: time.Minute, Zone: "UTC"} },
		Start: func(_ context.Context, _ *plugin.Scope, c clockConfig) error {
			fmt.Printf("every %v in %s\n", c.Every, c.Zone)
			return nil
		},
	}
	tree := plugin.New(nil)
	manager := config.NewManager(plugin.NewLoader(tree.Root()), config.Options{
		Layers: []config.Layer{
			{Kind: config.Profile, Name: "base", Text: "- id: clock\n  plugin: clock\n"},
			{Kind: config.User, Text: "- id: clock\n  config: {zone: \"${env:ZONE:-Europe/Paris}\"}\n"},
			{Kind: config.Set, Text: "clock.every=10s"},
		},
		Plugins:     []plugin.Definition{clock.Definition()},
		Environment: config.Environment{Lookup: func(string) (string, bool) { return "", false }},
	})
	ctx := context.Background()
	if _, err := manager.Reload(ctx); err != nil {
		fmt.Println(err)
	}
	shown, err := manager.Current().Show()
	fmt.Print(shown, err)
	if err := tree.Close(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// every 10s in Europe/Paris
	// - id: clock
	//   plugin: clock # profile base
	//   config:
	//     zone: ${env:ZONE:-Europe/Paris} # user
	//     every: 10s # --set
	// <nil>
}
