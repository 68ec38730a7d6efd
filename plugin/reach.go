package plugin

import (
	"context"
	"slices"
)

// reach is what a change may touch: nodes, what stands below them, whoever needs a
// service that one of them provides, and whoever failed for a cycle through them.
type reach struct {
	t     *Tree
	nodes set[*Node]
}

func (r reach) grow(nodes ...*Node) {
	r.t.mu.Lock()
	defer r.t.mu.Unlock()
	for _, n := range nodes {
		r.growLocked(n)
	}
}

// growLocked adds n, and what its current life brings into reach.
func (r reach) growLocked(n *Node) {
	r.nodes.add(n)
	for failed := range n.tree.cyclic {
		if !r.nodes.has(failed) && slices.Contains(failed.cycle, n) {
			r.growLocked(failed)
		}
	}
	if n.life == nil {
		return
	}
	for _, key := range n.life.provides {
		for user := range n.realm.needers[key] {
			if !r.nodes.has(user) {
				r.growLocked(user)
			}
		}
	}
	for e := n.life.effects.Front(); e != nil; e = e.Next() {
		if m, ok := e.Value.(*mounting); ok && !r.nodes.has(m.child) {
			r.growLocked(m.child)
		}
	}
}

// settle adds nodes and waits until all that is in reach is quiet. What was in
// transition may have brought more into reach, so it looks again.
func (r reach) settle(ctx context.Context, nodes []*Node) error {
	for len(nodes) > 0 {
		r.grow(nodes...)
		var err error
		if nodes, err = r.quieten(ctx); err != nil {
			return err
		}
	}
	return nil
}

// quieten waits for what is in reach and in transition, and returns it.
func (r reach) quieten(ctx context.Context) (nodes []*Node, err error) {
	r.t.mu.Lock()
	defer r.t.mu.Unlock()
	for n := range r.nodes {
		if n.busyLocked() {
			nodes = append(nodes, n)
		}
	}
	return nodes, waitLocked(ctx, quietLocked, nodes...)
}
