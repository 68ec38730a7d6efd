package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// WriteReference writes the reference page of tools to w, in Markdown: what the
// model reads, and what the harness knows besides. Tools stand in the order given.
func WriteReference(w io.Writer, tools []Definition) error {
	var b bytes.Buffer
	b.WriteString("# Tools\n\nGenerated from the code; do not edit. The text of each is what the model reads, and so is the schema of its arguments.\n")
	for _, d := range tools {
		fmt.Fprintf(&b, "\n## `%s`\n\n%s\n\n", d.Name(), strings.TrimSpace(d.Description()))
		fmt.Fprintf(&b, "Effect: %s. %s.", d.Effect(), map[bool]string{
			true: "Calls may run beside others", false: "A call runs alone",
		}[d.Parallel()])
		switch limit := d.Timeout(); {
		case limit > 0:
			fmt.Fprintf(&b, " It is ended after %v.", limit)
		case limit < 0:
			b.WriteString(" It may take as long as the turn.")
		}
		b.WriteString("\n\n```json\n")
		if err := json.Indent(&b, d.Schema(), "", "  "); err != nil {
			return fmt.Errorf("write the reference of tool %s: %w", d.Name(), err)
		}
		b.WriteString("\n```\n")
	}
	_, err := w.Write(b.Bytes())
	return err
}
