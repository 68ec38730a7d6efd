package llm

import (
	"fmt"
	"strings"
)

// MaxBlock is the largest text of one block, in bytes. The log refuses a longer
// line, so an answer that exceeds it fails while it streams.
const MaxBlock = 16 << 20

// maxBlocks bounds the blocks of one answer.
const maxBlocks = 1 << 14

// Assembler puts the chunks of one answer together. Its zero value is ready. One
// goroutine uses it, the one that ranges over the stream; what it returns may be
// kept and read by any.
//
// Blocks stand in the order in which their index was first seen. The first end
// of a block wins: nothing that comes later for its index changes it, so what a
// reader of the kept chunks (see [Assembler.Add]) has put together always agrees
// with the final blocks.
type Assembler struct {
	slots  []*slot
	places map[int]*slot // by the provider's index
	last   *slot         // most chunks go where the one before went
	usage  *Usage
	finish Finish
}

// slot is a block in the making.
type slot struct {
	index  int
	kind   BlockType
	text   strings.Builder
	id     string
	name   string
	closed bool
	whole  *Block
}

// Add takes the next chunk. It reports whether the chunk is part of the answer;
// one that is not (a straggler for a closed block, a delta of another type than
// its block) must not be shown to anybody. The error is an [*Error] with
// [CodeMalformed] when a block exceeds [MaxBlock] or there are absurdly many; the
// answer so far stays readable.
func (a *Assembler) Add(c Chunk) (kept bool, err error) {
	switch c.Kind {
	case ChunkDelta:
		s, err := a.slot(c.Index, c.Block)
		if err != nil || s.closed || s.kind != c.Block {
			return false, err
		}
		if s.text.Len()+len(c.Text) > MaxBlock {
			return false, &Error{Code: CodeMalformed, Message: fmt.Sprintf(
				"the model's answer has a %s block of more than %d MiB; ask for smaller pieces", s.kind, MaxBlock>>20)}
		}
		s.text.WriteString(c.Text)
		if c.ProviderID != "" {
			s.id = c.ProviderID
		}
		if c.Name != "" {
			s.name = c.Name
		}
		return true, nil
	case ChunkBlockEnd:
		s := a.places[c.Index]
		if s == nil {
			if c.Whole == nil {
				return false, nil // an end of nothing
			}
			if s, err = a.slot(c.Index, c.Whole.Type); err != nil {
				return false, err
			}
		}
		if s.closed {
			return false, nil
		}
		s.closed, s.whole = true, c.Whole
		return true, nil
	case ChunkUsage:
		u := c.Usage
		a.usage = &u
		return true, nil
	case ChunkFinish:
		a.finish = c.Finish
		return true, nil
	}
	return false, nil
}

func (a *Assembler) slot(index int, kind BlockType) (*slot, error) {
	if a.last != nil && a.last.index == index {
		return a.last, nil
	}
	s := a.places[index]
	if s == nil {
		if len(a.slots) == maxBlocks {
			return nil, &Error{Code: CodeMalformed, Message: fmt.Sprintf("the model's answer has more than %d blocks", maxBlocks)}
		}
		s = &slot{index: index, kind: kind}
		if a.places == nil {
			a.places = map[int]*slot{}
		}
		a.places[index] = s
		a.slots = append(a.slots, s)
	}
	a.last = s
	return s, nil
}

// Blocks returns the answer so far, in a slice of its own. Calling it changes
// nothing. The [Block.CallID] of tool calls is left to who logs the message.
func (a *Assembler) Blocks() []Block {
	blocks := make([]Block, 0, len(a.slots))
	for _, s := range a.slots {
		if b, ok := s.block(); ok {
			blocks = append(blocks, b)
		}
	}
	return blocks
}

// Interrupted returns what of the answer may be kept when it was cut off: text and
// reasoning that is not blank. Tool calls are never kept, complete or not.
func (a *Assembler) Interrupted() []Block {
	var blocks []Block
	for _, b := range a.Blocks() {
		if (b.Type == BlockText || b.Type == BlockReasoning) && strings.TrimSpace(b.Text) != "" {
			blocks = append(blocks, b)
		}
	}
	return blocks
}

// Usage returns what the provider reported last, nil when it reported nothing.
func (a *Assembler) Usage() *Usage { return a.usage }

// Finish returns the last finish of the stream, [FinishStop] before there is one.
func (a *Assembler) Finish() Finish {
	if a.finish == "" {
		return FinishStop
	}
	return a.finish
}

// block returns the block as it stands. A block whose type has no deltas exists
// only once the provider has sent it whole.
func (s *slot) block() (Block, bool) {
	if s.whole != nil {
		return *s.whole, true
	}
	switch s.kind {
	case BlockText, BlockReasoning:
		return Block{Type: s.kind, Text: s.text.String()}, true
	case BlockToolCall:
		return Block{Type: s.kind, ProviderID: s.id, Name: s.name, Arguments: s.text.String()}, true
	case BlockImage, BlockOpaque:
		return Block{}, false
	}
	return Block{}, false
}
