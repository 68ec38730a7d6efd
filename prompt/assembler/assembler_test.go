package assembler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/prompt"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// reporter is what testing and rapid have in common.
type reporter interface {
	Errorf(format string, args ...any)
	Fatal(args ...any)
}

type row struct {
	name  string
	order int
	base  bool
	text  string
}

// assemble starts the plugin and one plugin for each row, in the order started, and
// returns what it assembles as lines of name and text.
func assemble(t reporter, rows []row, started []int, in prompt.Input, fail func() (string, error)) (lines []string, text string, err error) {
	tree := plugin.New(nil)
	defer func() {
		if err := tree.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	gates := make([]plugin.Key[bool], len(rows))
	children := []plugin.Child{{Name: "system-prompt", Start: func(ctx context.Context, s *plugin.Scope) error {
		return Plugin.Start(ctx, s, struct{}{})
	}}}
	for i, r := range rows {
		gates[i] = plugin.NewKey[bool](r.name)
		children = append(children, plugin.Child{
			Name: r.name, Needs: []plugin.Need{gates[i].Required()},
			Start: func(_ context.Context, s *plugin.Scope) error {
				_, err := prompt.Sections.Add(s, r.name, prompt.Section{Order: r.order, Base: r.base, Text: func(context.Context, prompt.Input) (string, error) {
					if r.text == "fail" {
						return fail()
					}
					return r.text, nil
				}})
				return err
			},
		})
	}
	if _, err := tree.Root().MountAll(children...); err != nil {
		t.Fatal(err)
	}
	for _, i := range started {
		if err := gates[i].Provide(tree.Root(), true); err != nil {
			t.Fatal(err)
		}
		if err := tree.Settle(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	n, err := tree.Root().Mount("agent", []plugin.Need{prompt.Service.Required()}, func(ctx context.Context, s *plugin.Scope) error {
		p, err := prompt.Service.From(s).Assemble(ctx, s, in)
		for _, part := range p.Parts {
			lines = append(lines, part.Name+": "+part.Text)
		}
		text = p.Text()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines, text, n.Settle(context.Background())
}

func TestSectionsStandByOrderThenRow(t *testing.T) {
	rows := []row{
		{"guide", 100, false, "Use the tools."},
		{"who", -100, true, "You are dsh.\n"},
		{"blank", 0, false, " \n"},
		{"notes", 100, false, "\n\nNotes."},
		{"place", 100, true, "Here."},
	}
	started := []int{4, 3, 2, 1, 0}
	for _, c := range []struct {
		name string
		in   prompt.Input
		want []string
	}{
		{"default", prompt.Input{}, []string{"who: You are dsh.", "guide: Use the tools.", "notes: Notes.", "place: Here."}},
		{"override", prompt.Input{Override: "Be a pirate."}, []string{"override: Be a pirate.", "guide: Use the tools.", "notes: Notes."}},
		{"append", prompt.Input{Append: "Be brief."}, []string{"who: You are dsh.", "guide: Use the tools.", "notes: Notes.", "place: Here.", "append: Be brief."}},
		{"both", prompt.Input{Override: "A", Append: "B"}, []string{"override: A", "guide: Use the tools.", "notes: Notes.", "append: B"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			lines, text, err := assemble(t, rows, started, c.in, nil)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, lines); d != "" {
				t.Error(d)
			}
			var texts []string
			for _, w := range c.want {
				_, after, _ := strings.Cut(w, ": ")
				texts = append(texts, after)
			}
			if want := strings.Join(texts, "\n\n"); text != want {
				t.Errorf("the text is %q, want %q", text, want)
			}
		})
	}
}

// Who started first makes no difference, and equal orders keep the rows.
func TestTheTextDependsOnOrdersAndRowsAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := make([]row, rapid.IntRange(1, 20).Draw(t, "rows"))
		started := make([]int, len(rows))
		for i := range rows {
			name := fmt.Sprint("s", i)
			rows[i] = row{name: name, order: rapid.IntRange(-1, 1).Draw(t, "order"), text: "text of " + name}
			started[i] = i
		}
		var want []string
		for order := -1; order <= 1; order++ {
			for _, r := range rows {
				if r.order == order {
					want = append(want, r.name+": "+r.text)
				}
			}
		}
		got, _, err := assemble(t, rows, rapid.Permutation(started).Draw(t, "started"), prompt.Input{}, nil)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("got %q, %v, want %q", got, err, want)
		}
	})
}

func TestASectionThatFailsFailsTheAssembly(t *testing.T) {
	for want, fail := range map[string]func() (string, error){
		"section bad of the system prompt: no disk":        func() (string, error) { return "half", errors.New("no disk") },
		"section bad of the system prompt: panic: no mind": func() (string, error) { panic("no mind") },
	} {
		lines, _, err := assemble(t, []row{{"good", 0, false, "good"}, {"bad", 1, false, "fail"}}, []int{0, 1}, prompt.Input{}, fail)
		if err == nil || !strings.Contains(err.Error(), want) || lines != nil {
			t.Errorf("got %q, %v, want %s", lines, err, want)
		}
	}
}
