package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dsh-harness/dsh/plugin"
)

// Markdown returns the reference page of the command line.
func Markdown(plugins []plugin.Definition) string {
	discard := stream{Writer: io.Discard}
	p := &program{plugins: plugins, stdin: os.Stdin, stdout: discard, stderr: discard, lookup: func(string) (string, bool) { return "", false }}
	var b strings.Builder
	b.WriteString("# Command line reference\n\nGenerated from the commands; do not edit.\n")
	root := p.root()
	root.InitDefaultCompletionCmd()
	describe(&b, root)
	b.WriteString("\n## Environment\n\n| variable | meaning |\n| --- | --- |\n")
	for _, v := range variables() {
		fmt.Fprintf(&b, "| %s | %s |\n", v.name, cell(v.meaning))
	}
	b.WriteString("\nRows of the configuration read further ones; `dsh help environment` lists them.\n")
	return b.String()
}

func describe(b *strings.Builder, c *cobra.Command) {
	fmt.Fprintf(b, "\n## %s\n\n%s.\n", c.CommandPath(), c.Short)
	if c.Runnable() {
		fmt.Fprintf(b, "\n    %s\n", c.UseLine())
	}
	if c.Long != "" && c.HasParent() && c.Name() != "completion" && c.Parent().Name() != "completion" {
		fmt.Fprintf(b, "\n%s\n", c.Long)
	}
	if c.Example != "" {
		fmt.Fprintf(b, "\nFor example:\n\n%s\n", indent(c.Example))
	}
	var rows []string
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name, usage := pflag.UnquoteUsage(f)
		flag := "--" + f.Name
		if f.Shorthand != "" {
			flag = "-" + f.Shorthand + ", " + flag
		}
		if name != "" {
			flag += " " + name
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s |", flag, cell(usage)))
	})
	if len(rows) > 0 {
		fmt.Fprintf(b, "\n| flag | meaning |\n| --- | --- |\n%s\n", strings.Join(rows, "\n"))
	}
	for _, sub := range c.Commands() {
		if !sub.Hidden && sub.Name() != "environment" {
			describe(b, sub)
		}
	}
}

// cell makes text fit into a cell of a table.
func cell(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", `\|`)
}

// indent makes lines code, whatever they are indented by now.
func indent(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString("    " + strings.TrimPrefix(line, "  "))
	}
	return b.String()
}
