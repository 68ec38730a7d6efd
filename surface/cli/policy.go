package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dsh-harness/dsh"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/policy/permission"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
)

func (p *program) policyCommand() *cobra.Command {
	return group("policy", "Show what may happen, and why; list and revoke rules",
		p.policyExplain(), p.policyTest(), p.policyList(), p.policyRemove())
}

// ruleFlags are rules on the command line. They add to what is configured.
type ruleFlags struct{ allow, deny []string }

func (r *ruleFlags) register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&r.allow, "allow", nil, "allow what this `rule` names without a question, such as 'Bash(go test:*)'; may be repeated")
	flags.StringArrayVar(&r.deny, "deny", nil, "deny what this `rule` names, such as 'Bash(curl)'; may be repeated")
}

// sets returns the flags as assignments for the composition.
func (r *ruleFlags) sets() []string {
	var sets []string
	for key, rules := range map[string][]string{"moreAllow": r.allow, "moreDeny": r.deny} {
		if len(rules) > 0 {
			sets = append(sets, "permissions."+key+"="+encode(rules))
		}
	}
	return sets
}

// judging is what commands need that have calls decided about.
type judging struct {
	composition
	ruleFlags
	mode string
}

func (j *judging) register(c *cobra.Command) {
	j.composition.register(c.Flags())
	j.ruleFlags.register(c.Flags())
	c.Flags().StringVar(&j.mode, "permission-mode", "", "decide as in this `mode`: "+strings.Join(modes(), ", ")+" (DSH_PERMISSION_MODE)")
}

// judge is a composition in which nobody answers and no hook runs, with a workspace.
type judge struct {
	scope     *plugin.Scope
	mode      policy.Mode        // "" when nothing decides by mode
	keeper    *permission.Keeper // nil when nothing keeps rules
	workspace workspace.Workspace
	level     workspace.SandboxLevel
	why       string
}

// with starts the composition and calls use.
func (j *judging) with(ctx context.Context, p *program, use func(context.Context, *judge) error) error {
	if j.mode != "" {
		if err := oneOf("permission mode", j.mode, modes()); err != nil {
			return err
		}
		j.composition.sets = append([]string{"permission-mode.mode=" + j.mode}, j.composition.sets...)
	}
	j.composition.sets = append(j.composition.sets, j.ruleFlags.sets()...)
	_, composed, err := j.compose(p)
	if err != nil {
		return err
	}
	for _, row := range composed.Rows() {
		if row.Plugin == "hooks" || row.Plugin == "approvals" {
			j.composition.sets = append(j.composition.sets, row.ID+".disabled=true")
		}
	}
	dir, err := j.folder()
	if err != nil {
		return err
	}
	return p.within(ctx, &j.composition, func(ctx context.Context, h *dsh.Harness) error {
		provider, ok := workspace.Service.Current(h.Scope())
		if !ok {
			return errors.New("open a workspace: no row provides one")
		}
		w, err := provider.Open(ctx, h.Scope(), workspace.Options{Dir: dir})
		if err != nil {
			return failed(err)
		}
		judge := &judge{scope: h.Scope(), workspace: w}
		judge.level, judge.why = w.Sandbox()
		needs := []plugin.Need{policy.Rules.Optional(), policy.ModeService.Optional()}
		err = lookUp(ctx, h.Scope(), needs, func(s *plugin.Scope) {
			judge.keeper = keeperOf(s)
			if modes, ok := policy.ModeService.Current(s); ok {
				judge.mode = modes.Mode(nil)
			}
		})
		if err != nil {
			return failed(err)
		}
		return use(ctx, judge)
	})
}

// decide has a call decided about as if a model made it, up to where somebody would be asked.
func (j *judge) decide(ctx context.Context, name, arguments string) (*tool.Pending, error) {
	d, ok := tool.Tools.Get(j.scope, name)
	if !ok {
		var names []string
		for known := range tool.Tools.Visible(j.scope) {
			names = append(names, known)
		}
		return nil, oneOf("tool", name, names)
	}
	checked, err := d.Check(arguments)
	if err != nil {
		return nil, fmt.Errorf("the arguments of %s: %w", name, err)
	}
	pending := &tool.Pending{Definition: d, Call: &tool.Call{
		ID: "explain", Name: name, Arguments: checked, Workspace: j.workspace, Progress: func(string) {},
	}}
	v, err := tool.PreExecute.Run(ctx, j.scope, pending, func(_ context.Context, p *tool.Pending) (tool.Verdict, error) { return p.Verdict, nil })
	if err != nil {
		return nil, failed(fmt.Errorf("decide about %s: %w", name, err))
	}
	if v.By == "" {
		return nil, failed(errors.New("no plugin decides about calls here: the row permission-mode is off"))
	}
	pending.Verdict = v
	return pending, nil
}

// explanation is what is told about a decision.
type explanation struct {
	Tool      string             `json:"tool"`
	Arguments json.RawMessage    `json:"arguments"`
	Decision  string             `json:"decision"`
	By        string             `json:"by"`
	Reason    string             `json:"reason"`
	Mode      policy.Mode        `json:"mode"`
	Sandbox   explainedSandbox   `json:"sandbox"`
	Commands  []explainedOpinion `json:"commands"` // of a line, one by one
	Opinions  []explainedOpinion `json:"opinions"` // in the order in which they came
	Change    []string           `json:"change"`   // what would change the decision
}

type explainedSandbox struct {
	Level workspace.SandboxLevel `json:"level"`
	Why   string                 `json:"why,omitempty"`
}

type explainedOpinion struct {
	Decision string `json:"decision,omitempty"`
	By       string `json:"by,omitempty"`
	Reason   string `json:"reason"`
	Part     string `json:"part,omitempty"`
}

func (p *program) policyExplain() *cobra.Command {
	j := &judging{}
	c := &cobra.Command{
		Use:   "explain [flags] <command...>",
		Short: "Say what would happen with a command, which rule or mode decides, and what would change that",
		Long: `Decides about a call of a tool as if a model made it, and says why. Nothing runs: no command, no hook, and nobody is asked.

One argument is a line for the shell; several are the words of one command. For another tool the argument is the JSON
of its arguments. Rules that only hold in a session are not known here.`,
		Example: `  dsh policy explain git push --force
  dsh policy explain "make test | tee log"
  dsh policy explain --tool read '{"file_path": ".env"}'`,
	}
	j.register(c)
	name := c.Flags().String("tool", "bash", "the `tool` that is called, see dsh tools")
	asJSON := c.Flags().Bool("json", false, "write JSON")
	c.Flags().SetInterspersed(false)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return fmt.Errorf("%q needs a command to decide about: %s", cmd.CommandPath(), cmd.UseLine())
		case *name != "bash" && len(args) > 1:
			return fmt.Errorf("%s takes its arguments as one JSON object, not as %d words", plain(*name), len(args))
		}
		arguments := args[0]
		if *name == "bash" {
			arguments = bashArguments(line(args))
		}
		return j.with(cmd.Context(), p, func(ctx context.Context, judge *judge) error {
			pending, err := judge.decide(ctx, *name, arguments)
			if err != nil {
				return err
			}
			e := judge.explain(pending)
			return p.print(*asJSON, e, e.write)
		})
	}
	return c
}

// line makes one line for the shell of arguments: one is a line already, several are words.
func line(args []string) string {
	if len(args) == 1 {
		return args[0]
	}
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = word(arg)
	}
	return strings.Join(words, " ")
}

// word quotes an argument for a shell, where it needs that.
func word(arg string) string {
	if arg != "" && strings.Trim(arg, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=,:+@%") == "" {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}

func bashArguments(command string) string { return encode(map[string]string{"command": command}) }

// encode returns v, which holds nothing but strings, as JSON.
func encode(v any) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic(fmt.Sprintf("encode strings: %v", err))
	}
	return strings.TrimSpace(b.String())
}

func (j *judge) explain(pending *tool.Pending) explanation {
	e := explanation{
		Tool: pending.Call.Name, Arguments: pending.Call.Arguments,
		Decision: pending.Verdict.Decision.String(), By: pending.Verdict.By, Reason: pending.Verdict.Reason,
		Mode: j.mode, Sandbox: explainedSandbox{j.level, j.why},
		Commands: []explainedOpinion{}, Opinions: []explainedOpinion{}, Change: []string{},
	}
	for _, o := range pending.Opinions() {
		told := explainedOpinion{o.Decision.String(), o.By, o.Reason, o.Part}
		if o.By == "" {
			told.Decision = ""
		}
		if o.Part != "" {
			e.Commands = append(e.Commands, told)
		} else {
			e.Opinions = append(e.Opinions, told)
		}
	}
	e.Change = j.changes(pending)
	return e
}

// changes says what would change a decision.
func (j *judge) changes(pending *tool.Pending) []string {
	var changes []string
	switch by := pending.Verdict.By; {
	case by == "destruction guard":
		return []string{"nothing in dsh: whoever wants that does it without an agent"}
	case strings.HasPrefix(by, "rule "):
		return []string{"take the rule off, see dsh policy list"}
	case pending.Verdict.Decision == tool.Allow:
		return []string{"a rule that asks or denies, see docs/policy.md"}
	case pending.Verdict.Decision == tool.Confined:
		return []string{"a rule that asks or denies; outside of the sandbox it runs with --permission-mode full-access alone"}
	}
	if j.keeper != nil && pending.Verdict.Decision == tool.Ask {
		for _, rule := range j.keeper.Suggest(pending.Call, nil) {
			changes = append(changes, "allow it with --allow "+word(rule)+", or with that rule in the list allow of the row permissions")
		}
	}
	return append(changes, "another mode, see --permission-mode")
}

// lookUp calls use with a scope below s that may look up the needs.
func lookUp(ctx context.Context, s *plugin.Scope, needs []plugin.Need, use func(s *plugin.Scope)) error {
	node, err := s.Mount("policy", needs, func(_ context.Context, s *plugin.Scope) error {
		use(s)
		return nil
	})
	if err != nil {
		return err
	}
	return node.Settle(ctx)
}

// keeperOf returns who keeps the rules, nil when nobody does.
func keeperOf(s *plugin.Scope) *permission.Keeper {
	rules, _ := policy.Rules.Current(s)
	keeper, _ := rules.(*permission.Keeper)
	return keeper
}

func (e explanation) write(w io.Writer) error {
	rows := [][]string{
		{"call", visible(e.Tool + " " + strings.TrimSpace(string(e.Arguments)))},
		{"decision", e.Decision},
		{"by", visible(e.By)},
		{"because", visible(e.Reason)},
		{"mode", string(e.Mode)},
		{"sandbox", visible(strings.TrimSuffix(string(e.Sandbox.Level)+": "+e.Sandbox.Why, ": "))},
	}
	for i, o := range e.Commands {
		rows = append(rows, []string{first(i, "commands"), visible(o.Part), visible(o.text())})
	}
	for i, o := range e.Opinions {
		rows = append(rows, []string{first(i, "said"), visible(o.text())})
	}
	for i, change := range e.Change {
		rows = append(rows, []string{first(i, "to change"), visible(change)})
	}
	return table(w, rows)
}

func (o explainedOpinion) text() string {
	if o.By == "" {
		return o.Reason
	}
	return fmt.Sprintf("%s: %s: %s", o.Decision, o.By, o.Reason)
}

// first returns the label of the first of several rows.
func first(i int, label string) string {
	if i > 0 {
		return ""
	}
	return label
}

// visible shows what a terminal would hide.
func visible(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return r == '\n' || r == '\t' || !strconv.IsPrint(r) }) {
		return strconv.QuoteToGraphic(s)
	}
	return s
}

// expectation is a line of a file for "policy test".
type expectation struct {
	line     int
	decision string
	command  string
}

func (p *program) policyTest() *cobra.Command {
	j := &judging{}
	c := &cobra.Command{
		Use:   "test [flags] <file>",
		Short: "Compare the decisions about the commands in a file with what is expected",
		Long: `Each line of the file is allow, confined, ask or deny, then space, then a command; # begins a line that is no command.
Where a decision differs, its line is printed as it is expected and as it is, and dsh ends with 1. Nothing runs.`,
		Example: "  printf 'deny curl example.com\\nallow git status\\n' > rules.txt && dsh policy test rules.txt",
		Args:    exactly(1),
	}
	j.register(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		expected, err := readExpectations(args[0])
		if err != nil {
			return err
		}
		return j.with(cmd.Context(), p, func(ctx context.Context, judge *judge) error { return p.compare(ctx, judge, args[0], expected) })
	}
	return c
}

// compare prints what differs.
func (p *program) compare(ctx context.Context, j *judge, file string, expected []expectation) error {
	different := 0
	for _, e := range expected {
		pending, err := j.decide(ctx, "bash", bashArguments(e.command))
		if err != nil {
			return err
		}
		decision := pending.Verdict.Decision.String()
		if decision == e.decision {
			continue
		}
		different++
		err = p.print(false, nil, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "%s:%d: %s\n- %s\n+ %s: %s: %s\n", visible(file), e.line, visible(e.command), e.decision,
				decision, visible(pending.Verdict.By), visible(pending.Verdict.Reason))
			return err
		})
		if err != nil {
			return err
		}
	}
	if different > 0 {
		return failed(fmt.Errorf("%d of %d decisions differ", different, len(expected)))
	}
	p.note("%d decisions are as expected", len(expected))
	return nil
}

func readExpectations(path string) (all []expectation, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	known := []string{tool.Allow.String(), tool.Confined.String(), tool.Ask.String(), tool.Deny.String()}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		end := strings.IndexAny(text, " \t")
		decision := text
		if end >= 0 {
			decision = text[:end]
		}
		if err := oneOf("decision", decision, known); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		if end < 0 {
			return nil, fmt.Errorf("%s:%d: no command stands behind %s", path, n, decision)
		}
		all = append(all, expectation{n, decision, strings.TrimLeft(text[end:], " \t")})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return all, nil
}

func (p *program) policyList() *cobra.Command {
	composition := &composition{}
	c := &cobra.Command{
		Use:   "list",
		Short: "List the rules that hold in this folder, and those that are remembered elsewhere",
		Long: `Lists the rules of the configuration, of what the folder brings along and is trusted, and those that were remembered. The number
in front of a remembered rule is what "dsh policy remove" takes. Rules for one session are in its log.`,
		Args: exactly(0),
	}
	composition.register(c.Flags())
	asJSON := c.Flags().Bool("json", false, "write JSON")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		return p.withKeeper(cmd.Context(), composition, func(ctx context.Context, k *permission.Keeper, dir string) error {
			list, err := k.List(ctx, dir)
			if err != nil {
				return failed(err)
			}
			if list == nil {
				list = []permission.Listed{}
			}
			return p.print(*asJSON, list, func(w io.Writer) error {
				if len(list) == 0 {
					_, err := fmt.Fprintln(w, "There are no rules here.")
					return err
				}
				rows := [][]string{{"N", "EFFECT", "RULE", "FROM", "FOLDER", ""}}
				for _, l := range list {
					number, from := "", l.Source
					if l.Number > 0 {
						number = strconv.Itoa(l.Number)
						from = fmt.Sprintf("%s %s, %s", l.Source, l.Time.Format("2006-01-02"), cmp.Or(l.By, "no session"))
					}
					rows = append(rows, []string{number, l.Effect, visible(l.Rule), visible(from), visible(l.Dir), l.Note})
				}
				return table(w, rows)
			})
		})
	}
	return c
}

func (p *program) policyRemove() *cobra.Command {
	composition := &composition{}
	c := &cobra.Command{
		Use:   "remove <number or rule>",
		Short: "Revoke a remembered rule: by its number in the list, or by its text where it holds in this folder",
		Args:  exactly(1),
	}
	composition.register(c.Flags())
	c.RunE = func(cmd *cobra.Command, args []string) error {
		number, err := strconv.Atoi(args[0])
		if err != nil || number < 1 {
			number = 0
		}
		return p.withKeeper(cmd.Context(), composition, func(ctx context.Context, k *permission.Keeper, dir string) error {
			gone, err := k.Forget(ctx, number, args[0], dir)
			if err != nil {
				return failed(err)
			}
			for _, r := range slices.Backward(gone) {
				p.note("%s %s in %s does not hold any more", r.Effect, visible(r.Rule), visible(r.Dir))
			}
			return nil
		})
	}
	return c
}

// withKeeper starts the composition and calls use with the keeper of its rules, and the folder without links.
func (p *program) withKeeper(ctx context.Context, c *composition, use func(ctx context.Context, k *permission.Keeper, dir string) error) error {
	dir, err := c.folder()
	if err != nil {
		return err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return fmt.Errorf("find the folder to work in: %w", err)
	}
	return p.within(ctx, c, func(ctx context.Context, h *dsh.Harness) error {
		var k *permission.Keeper
		err := lookUp(ctx, h.Scope(), []plugin.Need{policy.Rules.Optional()}, func(s *plugin.Scope) { k = keeperOf(s) })
		if err == nil && k == nil {
			err = errors.New("no row keeps rules here: the row permissions is off")
		}
		if err != nil {
			return failed(err)
		}
		return use(ctx, k, dir)
	})
}
