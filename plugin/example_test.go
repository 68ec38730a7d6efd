package plugin_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/dsh-harness/dsh/plugin"
)

// A service: an interface and its key.
type Clock interface{ Now() string }

var ClockKey = plugin.NewKey[Clock]("clock")

type fixedClock string

func (c fixedClock) Now() string { return string(c) }

// An event: something passes through it, and listeners take part in it by stages.
const (
	Rewrite plugin.Stage = "rewrite"
	Decide  plugin.Stage = "decide"
)

var PreExecute = plugin.NewWaterfall[string, string]("tools/pre-execute", Rewrite, Decide)

// One plugin provides a service, one needs it, one listens. The order in which
// they are mounted does not matter to who can start.
func Example() {
	ctx, tree := context.Background(), plugin.New(nil)

	greeter := plugin.Child{
		Name:  "greeter",
		Needs: []plugin.Need{ClockKey.Required()},
		Start: func(ctx context.Context, s *plugin.Scope) error {
			fmt.Println("good day, it is", ClockKey.From(s).Now())
			_, err := s.Defer("say goodbye", func(context.Context) error { fmt.Println("goodbye"); return nil })
			return err
		},
	}
	clock := plugin.Child{
		Name: "clock",
		Start: func(ctx context.Context, s *plugin.Scope) error {
			return ClockKey.Provide(s, fixedClock("noon"))
		},
	}
	guard := plugin.Child{
		Name: "guard",
		Start: func(ctx context.Context, s *plugin.Scope) error {
			_, err := PreExecute.On(s, func(ctx context.Context, call string, next plugin.Next[string, string]) (string, error) {
				if strings.HasPrefix(call, "rm") {
					return "", errors.New("not here")
				}
				return next(ctx, call)
			}, plugin.At(Decide))
			return err
		},
	}
	tree.Root().MountAll(greeter, clock, guard)
	tree.Settle(ctx)

	run := func(_ context.Context, call string) (string, error) { return "ran " + call, nil }
	fmt.Println(PreExecute.Run(ctx, tree.Root(), "ls", run))
	fmt.Println(PreExecute.Run(ctx, tree.Root(), "rm -r", run))
	tree.Close(ctx)

	// Output:
	// good day, it is noon
	// ran ls <nil>
	//  guard on tools/pre-execute: not here
	// goodbye
}

// An agent sees the commands of the root and its own; its own hide those of the same name.
func ExampleSet() {
	commands := plugin.NewSet[string]("commands")
	ctx, tree := context.Background(), plugin.New(nil)
	commands.Add(tree.Root(), "help", "list the commands")
	commands.Add(tree.Root(), "quit", "leave")

	agent, _ := tree.Root().MountRealm("agent", nil, nil, func(ctx context.Context, s *plugin.Scope) error {
		if _, err := commands.Add(s, "quit", "end this agent"); err != nil {
			return err
		}
		for name, does := range commands.Visible(s) {
			fmt.Println(name, "-", does)
		}
		return nil
	})
	agent.Settle(ctx)
	agent.Close(ctx)
	quit, _ := commands.Get(tree.Root(), "quit")
	fmt.Println(quit)

	// Output:
	// help - list the commands
	// quit - end this agent
	// leave
}

// An optional service is looked up when it is used.
func ExampleKey_Current() {
	ctx, tree := context.Background(), plugin.New(nil)
	say := plugin.NewEmit[string]("say")
	tree.Root().Mount("speaker", []plugin.Need{ClockKey.Optional()}, func(ctx context.Context, s *plugin.Scope) error {
		_, err := say.On(s, func(ctx context.Context, text string) error {
			if clock, ok := ClockKey.Current(s); ok {
				text = clock.Now() + ": " + text
			}
			fmt.Println(text)
			return nil
		})
		return err
	})
	tree.Settle(ctx)
	say.Emit(ctx, tree.Root(), "nobody knows the time")
	tree.Root().Mount("clock", nil, func(ctx context.Context, s *plugin.Scope) error {
		return ClockKey.Provide(s, fixedClock("noon"))
	})
	tree.Settle(ctx)
	say.Emit(ctx, tree.Root(), "lunch")
	tree.Close(ctx)

	// Output:
	// nobody knows the time
	// noon: lunch
}

// A plugin that can take a new config while it runs says so in Start.
func ExampleOnReconfigure() {
	type config struct{ Level string }
	logger := plugin.Plugin[config]{
		Name: "logger",
		Start: func(ctx context.Context, s *plugin.Scope, c config) error {
			fmt.Println("logging at", c.Level)
			return plugin.OnReconfigure(s, func(ctx context.Context, c config) error {
				fmt.Println("now at", c.Level)
				return nil
			})
		},
	}.Definition()
	ctx, tree := context.Background(), plugin.New(nil)
	loader := plugin.NewLoader(tree.Root())
	for _, level := range []string{"info", "debug"} {
		prepared, err := logger.Bind(&config{Level: level}) // usually decoded from a file
		if err != nil {
			panic(err)
		}
		report, err := loader.Apply(ctx, []plugin.Row{{ID: "log", Plugin: "logger", Prepared: prepared, Fingerprint: level}})
		fmt.Println(report.Rows[0], err)
	}
	tree.Close(ctx)

	// Output:
	// logging at info
	// log started <nil>
	// now at debug
	// log reconfigured <nil>
}

// The dump says what runs, what does not, and why.
func ExampleTree_Dump() {
	ctx, tree := context.Background(), plugin.New(nil)
	tree.Root().MountAll(
		plugin.Child{Name: "clock", Start: func(ctx context.Context, s *plugin.Scope) error {
			return ClockKey.Provide(s, fixedClock("noon"))
		}},
		plugin.Child{
			Name:  "bell",
			Needs: []plugin.Need{ClockKey.Required(), plugin.NewKey[any]("tower").Required()},
			Start: func(ctx context.Context, s *plugin.Scope) error { return nil },
		},
		plugin.Child{Name: "sundial", Start: func(ctx context.Context, s *plugin.Scope) error { return errors.New("it is cloudy") }},
	)
	tree.Settle(ctx)
	fmt.Print(tree.Dump())
	tree.Close(ctx)

	// Output:
	// root active
	//   clock active, provides clock
	//   bell pending, waits for tower
	//   sundial failed: it is cloudy
}
