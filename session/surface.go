package session

import (
	"errors"
	"fmt"
	"slices"

	"github.com/dsh-harness/dsh/llm"
)

// surface is the ordered list of events that the model sees. Copying one before a
// change and putting the copy back undoes the change.
type surface struct {
	nodes   []node
	history llm.Builder // the messages of the nodes that have one
}

// node is an event on the surface.
type node struct {
	seq     int64
	message *llm.Message // nil when the event shows nothing to the model
}

// apply does op for the event seq, which shows m.
func (s *surface) apply(op *SurfaceOp, seq int64, m *llm.Message) error {
	switch op.Op {
	case OpAppend:
		s.nodes = append(s.nodes, node{seq, m})
		if m != nil {
			s.history.Append(m)
		}
		return nil
	case OpReplace:
		i, j := s.index(op.From), s.index(op.To)
		if i < 0 || j < 0 || i > j {
			return fmt.Errorf("it replaces the events %d to %d, which are no run of the surface", op.From, op.To)
		}
		if !balanced(s.nodes[i : j+1]) {
			return fmt.Errorf("it replaces the events %d to %d, which would part a tool call from its result", op.From, op.To)
		}
		s.replace(i, j+1, node{seq, m})
		return nil
	case OpTruncate:
		keep := 0
		if op.To >= 0 {
			i := s.index(op.To)
			if i < 0 {
				return fmt.Errorf("it cuts behind event %d, which is not on the surface", op.To)
			}
			keep = i + 1
		}
		if !balanced(s.nodes[keep:]) {
			return fmt.Errorf("it cuts behind event %d, which would part a tool call from its result", op.To)
		}
		s.replace(keep, len(s.nodes))
		return nil
	}
	return fmt.Errorf("it has the unknown surface operation %q", op.Op)
}

// replaceResult puts another text in the place of the result of the same call.
func (s *surface) replaceResult(op *SurfaceOp, seq int64, m *llm.Message) error {
	i := s.index(op.From)
	if i < 0 || op.From != op.To {
		return errors.New("a result replaces exactly one result on the surface")
	}
	if old := s.nodes[i].message; old == nil || old.Role != llm.RoleTool || old.CallID != m.CallID {
		return fmt.Errorf("it replaces event %d, which is no result of call %s", op.From, m.CallID)
	}
	s.replace(i, i+1, node{seq, m})
	return nil
}

func (s *surface) index(seq int64) int {
	return slices.IndexFunc(s.nodes, func(n node) bool { return n.seq == seq })
}

// replace puts nodes in the place of those from i up to j.
func (s *surface) replace(i, j int, with ...node) {
	from, to := shown(s.nodes[:i]), shown(s.nodes[:j])
	var messages []*llm.Message
	for _, n := range with {
		if n.message != nil {
			messages = append(messages, n.message)
		}
	}
	s.history.Replace(from, to, messages...)
	s.nodes = slices.Concat(s.nodes[:i], with, s.nodes[j:])
}

// shown counts the nodes that have a message.
func shown(nodes []node) (n int) {
	for _, node := range nodes {
		if node.message != nil {
			n++
		}
	}
	return n
}

// balanced reports whether a run of nodes holds the results of all calls in it,
// and no others.
func balanced(nodes []node) bool {
	open := map[string]bool{}
	for _, n := range nodes {
		switch {
		case n.message == nil:
		case n.message.Role == llm.RoleAssistant:
			for _, c := range llm.ToolCalls(n.message.Content) {
				open[c.CallID] = true
			}
		case n.message.Role == llm.RoleTool:
			if !open[n.message.CallID] {
				return false
			}
			delete(open, n.message.CallID)
		}
	}
	return len(open) == 0
}
