package plugin

import (
	"fmt"
	"strings"
)

// Dump is what a node was when [Tree.Dump] was called, and what stands below it. It
// is a copy that the caller owns.
type Dump struct {
	Name     string   `json:"name"`
	Plugin   string   `json:"plugin,omitempty"` // of a prepared plugin; else empty
	State    State    `json:"state"`
	Error    string   `json:"error,omitempty"`    // why it failed
	Waits    []string `json:"waits,omitempty"`    // services that a pending node lacks
	Provides []string `json:"provides,omitempty"` // services, in the order of providing
	Required bool     `json:"required,omitempty"` // a row that nothing runs without
	Children []Dump   `json:"children,omitempty"` // in the order of rows
}

// Dump returns a snapshot of the tree, from its root. It takes time in proportion to the
// number of nodes, and holds up the tree for that long.
func (t *Tree) Dump() Dump {
	t.mu.Lock()
	defer t.mu.Unlock()
	below := map[*Node][]*Node{}
	for _, n := range t.nodes.sorted(compareRows) {
		below[n.above()] = append(below[n.above()], n)
	}
	var dump func(n *Node) Dump
	dump = func(n *Node) Dump {
		d := n.dumpLocked()
		for _, c := range below[n] {
			d.Children = append(d.Children, dump(c))
		}
		return d
	}
	return dump(t.root.node)
}

// dumpLocked is the dump of n alone.
func (n *Node) dumpLocked() Dump {
	d := Dump{Name: n.name, Plugin: n.plugin, State: n.state, Required: n.required, Waits: n.lackingLocked()}
	if n.err != nil {
		d.Error = n.err.Error()
	}
	if n.life != nil {
		for _, key := range n.life.provides {
			if p := n.realm.providers[key]; p != nil && p.life == n.life {
				d.Provides = append(d.Provides, key.name)
			}
		}
	}
	return d
}

// String returns the dump as text: a line for each node, indented by its depth.
func (d Dump) String() string {
	var b strings.Builder
	d.write(&b, "")
	return b.String()
}

func (d Dump) write(b *strings.Builder, indent string) {
	fmt.Fprintf(b, "%s%s", indent, d.Name)
	if d.Plugin != "" && d.Plugin != d.Name {
		fmt.Fprintf(b, " (%s)", d.Plugin)
	}
	fmt.Fprintf(b, " %s", d.State)
	if d.Required {
		b.WriteString(", required")
	}
	if len(d.Waits) > 0 {
		fmt.Fprintf(b, ", waits for %s", strings.Join(d.Waits, ", "))
	}
	if len(d.Provides) > 0 {
		fmt.Fprintf(b, ", provides %s", strings.Join(d.Provides, ", "))
	}
	if d.Error != "" {
		fmt.Fprintf(b, ": %s", d.Error)
	}
	b.WriteByte('\n')
	for _, c := range d.Children {
		c.write(b, indent+"  ")
	}
}
