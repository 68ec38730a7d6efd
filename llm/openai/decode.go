package openai

import (
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/llm/internal/jsonwire"
	"github.com/dsh-harness/dsh/llm/internal/wirehttp"
)

// decoder turns the chunks of one answer into [llm.Chunk]s. It is made for an
// answer whose every few letters come in an object of 200 bytes.
type decoder struct {
	scan jsonwire.Scanner
	out  []llm.Chunk // of the last event

	emptyReasoning bool // also reasoning without text is a block
	blocks         int
	text           int // index of the block, -1 before there is one
	reasoning      int
	calls          []call
	usage          *llm.Usage
	reason         string // finish_reason

	badCalls error
	failed   bool // the stream turned into an error
	failure  wirehttp.Failure
}

// call is a tool call in the making.
type call struct {
	block    int
	index    int64
	hasIndex bool
	id       string
	named    bool
	begun    bool // arguments have come
}

func newDecoder(d Dialect) *decoder {
	return &decoder{emptyReasoning: d == DeepSeek, text: -1, reasoning: -1}
}

// decode reads one chunk object.
func (d *decoder) decode(data []byte) error {
	s := &d.scan
	s.Reset(data)
	for s.Open('{'); s.Next('}'); {
		switch string(s.Key()) {
		case "choices":
			d.choices(s)
		case "usage":
			d.readUsage(s)
		case "error":
			d.failed = d.failure.Scan(s) || d.failed
		case "object":
			if string(s.Raw()) == `"error"` {
				d.failed = true
				d.failure, _ = wirehttp.ParseFailure(data)
			}
		default:
			s.Skip()
		}
	}
	if err := s.End(); err != nil {
		return err
	}
	return d.badCalls
}

// choices reads the first choice; nobody asked for more.
func (d *decoder) choices(s *jsonwire.Scanner) {
	if s.Null() {
		return
	}
	n := 0
	for s.Open('['); s.Next(']'); n++ {
		if n > 0 {
			s.Skip()
			continue
		}
		for s.Open('{'); s.Next('}'); {
			switch string(s.Key()) {
			case "delta":
				d.delta(s)
			case "finish_reason":
				if !s.Null() {
					d.reason = s.Text()
				}
			case "usage":
				d.readUsage(s)
			default:
				s.Skip()
			}
		}
	}
}

func (d *decoder) delta(s *jsonwire.Scanner) {
	if s.Null() {
		return
	}
	var text, reasoning string
	var hasReasoning, hasCalls bool
	var calls jsonwire.Scanner
	for s.Open('{'); s.Next('}'); {
		switch string(s.Key()) {
		case "content", "refusal":
			if !s.Null() {
				text += s.Text()
			}
		case "reasoning_content", "reasoning":
			if s.Peek() != '"' {
				s.Skip()
			} else if t := s.Text(); reasoning == "" { // some servers send both
				reasoning, hasReasoning = t, true
			}
		case "tool_calls":
			calls, hasCalls = *s, true
			s.Skip()
		default:
			s.Skip()
		}
	}
	// Whatever the order of the members: thought comes before speech, and speech before deeds.
	if reasoning != "" || hasReasoning && d.emptyReasoning && d.reasoning < 0 {
		d.add(&d.reasoning, llm.BlockReasoning, reasoning)
	}
	if text != "" {
		d.add(&d.text, llm.BlockText, text)
	}
	if hasCalls && s.Err() == nil {
		d.badCalls = d.toolCalls(&calls)
	}
}

func (d *decoder) add(block *int, kind llm.BlockType, text string) {
	if *block < 0 {
		*block = d.blocks
		d.blocks++
	}
	d.out = append(d.out, llm.Chunk{Index: *block, Block: kind, Text: text})
}

func (d *decoder) toolCalls(s *jsonwire.Scanner) error {
	if s.Null() {
		return nil
	}
	for s.Open('['); s.Next(']'); {
		var index int64
		var hasIndex bool
		var id, name, arguments string
		for s.Open('{'); s.Next('}'); {
			switch string(s.Key()) {
			case "index":
				index, hasIndex = s.Int()
			case "id":
				id = textOrRaw(s)
			case "function":
				if s.Null() {
					continue
				}
				for s.Open('{'); s.Next('}'); {
					switch string(s.Key()) {
					case "name":
						name = textOrRaw(s)
					case "arguments":
						arguments = textOrRaw(s)
					default:
						s.Skip()
					}
				}
			default:
				s.Skip()
			}
		}
		if s.Err() == nil {
			d.fragment(d.callOf(index, hasIndex, id, name), id, name, arguments)
		}
	}
	return s.Err()
}

// textOrRaw reads a string, nothing for null, or the JSON of what should have
// been a string: some servers send arguments as an object.
func textOrRaw(s *jsonwire.Scanner) string {
	switch {
	case s.Peek() == '"':
		return s.Text()
	case s.Null():
		return ""
	}
	return string(s.Raw())
}

// callOf returns the call that a fragment belongs to. Servers differ:
//   - by the wire, the index tells;
//   - some send index 0 for every call: another id with a name is another call;
//   - some send no index: a new id is a new call, and a fragment without either
//     belongs to the call opened last;
//   - some send a fresh id with every fragment: without a name it means nothing;
//   - some send whole calls with neither: a name after arguments is a new call.
func (d *decoder) callOf(index int64, hasIndex bool, id, name string) *call {
	for i := len(d.calls) - 1; i >= 0; i-- {
		c := &d.calls[i]
		switch {
		case hasIndex && c.hasIndex && c.index == index:
			if id == "" || c.id == "" || id == c.id || name == "" {
				return c
			}
		case !hasIndex && id != "" && id == c.id:
			return c
		}
	}
	if n := len(d.calls); !hasIndex && n > 0 {
		if last := &d.calls[n-1]; name == "" || id == "" && !last.begun {
			return last
		}
	}
	d.calls = append(d.calls, call{block: d.blocks, index: index, hasIndex: hasIndex})
	d.blocks++
	return &d.calls[len(d.calls)-1]
}

func (d *decoder) fragment(c *call, id, name, arguments string) {
	chunk := llm.Chunk{Index: c.block, Block: llm.BlockToolCall, Text: arguments}
	if c.id == "" && id != "" {
		c.id, chunk.ProviderID = id, id
	}
	if !c.named && name != "" {
		c.named, chunk.Name = true, name
	}
	c.begun = c.begun || arguments != ""
	d.out = append(d.out, chunk)
}

// mostTokens is above what any request can have used: a larger count, or one
// below zero, is nonsense and makes the whole usage unknown.
const mostTokens = 1 << 40

func (d *decoder) readUsage(s *jsonwire.Scanner) {
	if s.Peek() != '{' {
		s.Skip()
		return
	}
	var prompt, completion, hit, reasoning int64
	absurd := false
	count := func(into *int64) {
		if s.Null() {
			return
		}
		n, ok := s.Int()
		if !ok || n < 0 || n > mostTokens {
			absurd = true
			return
		}
		*into = max(*into, n)
	}
	for s.Open('{'); s.Next('}'); {
		switch string(s.Key()) {
		case "prompt_tokens":
			count(&prompt)
		case "completion_tokens":
			count(&completion)
		case "prompt_cache_hit_tokens":
			count(&hit)
		case "prompt_tokens_details", "completion_tokens_details":
			if s.Peek() != '{' {
				s.Skip()
				continue
			}
			for s.Open('{'); s.Next('}'); {
				switch string(s.Key()) {
				case "cached_tokens":
					count(&hit)
				case "reasoning_tokens":
					count(&reasoning)
				default:
					s.Skip()
				}
			}
		default:
			s.Skip()
		}
	}
	switch {
	case absurd:
		d.usage = nil
	case prompt > 0 || completion > 0: // some servers send zeros until the last chunk
		hit = min(hit, prompt)
		d.usage = &llm.Usage{Input: prompt - hit, CacheRead: hit, Output: completion, Reasoning: min(reasoning, completion)}
	}
}

// finish puts what ends a complete answer into d.out.
func (d *decoder) finish() {
	for i := range d.blocks {
		d.out = append(d.out, llm.Chunk{Kind: llm.ChunkBlockEnd, Index: i})
	}
	if d.usage != nil {
		d.out = append(d.out, llm.Chunk{Kind: llm.ChunkUsage, Usage: *d.usage})
	}
	d.out = append(d.out, llm.Chunk{Kind: llm.ChunkFinish, Finish: d.finishOf()})
}

// finishOf names the finish. Local servers call an answer with tool calls "stop",
// others call everything "tool_calls": whether there are calls decides.
func (d *decoder) finishOf() llm.Finish {
	switch d.reason {
	case "length", "max_tokens":
		return llm.FinishMaxTokens
	case "content_filter":
		return llm.FinishContentFilter
	}
	if len(d.calls) > 0 {
		return llm.FinishToolCalls
	}
	return llm.FinishStop
}
