package llm

import "sync"

// History is an immutable view of the messages of a conversation. Views of one
// conversation share storage, so taking one and appending to it costs nothing
// that grows with its length.
//
// Adapters keep what they encoded in the history's memo, see [History.Memo].
type History struct {
	messages []*Message
	line     *lineage
}

// lineage is shared by all histories that only ever grew from one another: the
// shorter is a prefix of the longer.
type lineage struct {
	mu    sync.Mutex
	memos map[any]any
}

// NewHistory returns a history of messages, which the caller must not change
// afterwards. It shares no memo with any other.
func NewHistory(messages ...*Message) History {
	return History{messages: messages, line: &lineage{}}
}

// Len returns the number of messages.
func (h History) Len() int { return len(h.messages) }

// At returns the message at i, from 0 to Len()-1.
func (h History) At(i int) *Message { return h.messages[i] }

// Messages returns the messages; the caller must not change the slice.
func (h History) Messages() []*Message { return h.messages[:len(h.messages):len(h.messages)] }

// Memo returns the value that belongs to key in this line of histories, made by
// make when it is not there. Whatever it holds about the first n messages is
// true for every longer history that returns it. The value outlives the call
// and guards itself against concurrent use. Keys compare with ==.
func (h History) Memo(key any, make func() any) any {
	if h.line == nil {
		return make()
	}
	h.line.mu.Lock()
	defer h.line.mu.Unlock()
	if v, ok := h.line.memos[key]; ok {
		return v
	}
	if h.line.memos == nil {
		h.line.memos = map[any]any{}
	}
	v := make()
	h.line.memos[key] = v
	return v
}

// Builder grows a history. Only one goroutine at a time may use it; the views it
// gives away may be read by any.
type Builder struct {
	messages []*Message
	line     *lineage
}

// Append adds messages at the end. Views given away before are unaffected.
func (b *Builder) Append(messages ...*Message) { b.messages = append(b.messages, messages...) }

// Replace puts messages in the place of those from i up to j, and begins a new
// line: views given away before keep theirs.
func (b *Builder) Replace(i, j int, messages ...*Message) {
	next := make([]*Message, 0, len(b.messages)-(j-i)+len(messages))
	next = append(next, b.messages[:i]...)
	next = append(next, messages...)
	next = append(next, b.messages[j:]...)
	b.messages, b.line = next, nil
}

// Len returns the number of messages.
func (b *Builder) Len() int { return len(b.messages) }

// History returns a view of the messages so far.
func (b *Builder) History() History {
	if b.line == nil {
		b.line = &lineage{}
	}
	return History{b.messages[:len(b.messages):len(b.messages)], b.line}
}
