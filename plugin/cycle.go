package plugin

import (
	"fmt"
	"slices"
	"strings"
)

// A plugin whose coming or going replaces a service that it depends on itself would
// be restarted by that for ever: it starts, what needs it starts and provides, it
// restarts with that, what needs it stops and provides no more, it restarts. So it
// fails instead, and names the cycle.

// cycleError says how a node would restart itself.
type cycleError struct {
	need  string
	nodes []*Node // the cycle's nodes but the failing one
	text  string
}

func (e *cycleError) Error() string {
	return fmt.Sprintf("service %q comes from %s: they would restart each other for ever; let one of them declare its need optional", e.need, e.text)
}

// detectCycleLocked fails n when it is about to restart for a service whose provider
// rests on the very life that would end.
func (n *Node) detectCycleLocked(deps []*provider) {
	if n.life == nil || n.life.fault != nil || n.restart {
		return
	}
	for i, p := range deps {
		if old := n.life.deps[i]; p == nil || p == old || old != nil && !old.offeredLocked() {
			continue // if the old one went, so does this life, whatever comes
		}
		links := restsOnLocked(p.life, n, set[*Scope]{})
		if links == nil {
			continue
		}
		err := &cycleError{need: p.key.name}
		var texts []string
		for _, s := range slices.Backward(links) {
			err.nodes = append(err.nodes, s.node)
			texts = append(texts, s.node.path()+", which "+s.how)
		}
		err.text = strings.Join(texts, " ") + " " + n.path()
		n.life.fault, n.restart = err, true // stopLocked sees the fault
		return
	}
}

// link is why one node rests on another: the node, and its relation to the next.
type link struct {
	node *Node
	how  string
}

// restsOnLocked returns how life depends on the current life of n, the last link
// first, or nil when it does not.
func restsOnLocked(life *Scope, n *Node, seen set[*Scope]) []link {
	if life == nil || seen.has(life) {
		return nil
	}
	seen.add(life)
	try := func(next *Scope, how string) []link {
		if next == n.life {
			return []link{{life.node, how}}
		}
		if links := restsOnLocked(next, n, seen); links != nil {
			return append(links, link{life.node, how})
		}
		return nil
	}
	for _, p := range life.deps {
		if p == nil {
			continue
		}
		if links := try(p.life, fmt.Sprintf("needs %q of", p.key.name)); links != nil {
			return links
		}
	}
	for _, around := range []*Scope{life.node.parent, life.node.host} {
		if around == nil {
			continue
		}
		if links := try(around, "stands in"); links != nil {
			return links
		}
	}
	return nil
}

// forgiveLocked lets those try again that failed for a cycle through n, which is changing.
func (t *Tree) forgiveLocked(n *Node) {
	for failed := range t.cyclic {
		if slices.Contains(failed.cycle, n) {
			failed.becomeLocked(Pending, nil)
			failed.reconcileLocked()
		}
	}
}
