package session

import (
	"bytes"

	"github.com/dsh-harness/dsh/llm"
)

// What the fold needs of the data of the frequent events, decoded by hand. The
// types in event.go say what there is; their JSON names are repeated here, and a
// test holds the two together.

// place is the turn and the step that an event names, 0 where it does not.
type place struct{ turn, step int64 }

// place consumes the member name when it is part of a place.
func (s *scanner) place(p *place, name []byte) bool {
	switch string(name) {
	case "turn":
		p.turn = s.integer()
	case "step":
		p.step = s.integer()
	default:
		return false
	}
	return true
}

func decodePlace(s *scanner) (p place, ok bool) {
	s.object(func(name []byte) {
		if !s.place(&p, name) {
			s.skip()
		}
	})
	return p, s.end()
}

type inputData struct {
	inbox   string
	message llm.Message
}

func decodeInput(s *scanner) (d inputData, ok bool) {
	d.message.Role = llm.RoleUser
	s.object(func(name []byte) {
		switch string(name) {
		case "id":
			d.message.ID = s.str()
		case "source":
			d.message.Source = s.source()
		case "content":
			d.message.Content = s.blocks()
		case "inbox":
			d.inbox = s.str()
		default:
			s.skip()
		}
	})
	return d, s.end()
}

type assistantData struct {
	place
	message llm.Message
	usage   llm.Usage
}

func decodeAssistant(s *scanner) (d assistantData, ok bool) {
	d.message.Role = llm.RoleAssistant
	s.object(func(name []byte) {
		switch string(name) {
		case "message":
			s.object(func(name []byte) {
				switch string(name) {
				case "id":
					d.message.ID = s.str()
				case "content":
					d.message.Content = s.blocks()
				default:
					s.skip()
				}
			})
		case "provider":
			d.message.Provider = s.shared()
		case "model":
			d.message.Model = s.shared()
		case "usage":
			d.usage = s.usage()
		case "interrupted":
			d.message.Interrupted = s.boolean()
		default:
			if !s.place(&d.place, name) {
				s.skip()
			}
		}
	})
	return d, s.end()
}

type resultData struct {
	place
	message llm.Message
}

func decodeResult(s *scanner) (d resultData, ok bool) {
	d.message.Role = llm.RoleTool
	s.object(func(name []byte) {
		switch string(name) {
		case "callId":
			d.message.CallID = s.str()
		case "content":
			d.message.Content = s.blocks()
		case "isError":
			d.message.IsError = s.boolean()
		default:
			if !s.place(&d.place, name) {
				s.skip()
			}
		}
	})
	return d, s.end()
}

type callData struct {
	place
	callID string
}

func decodeCall(s *scanner) (d callData, ok bool) {
	s.object(func(name []byte) {
		switch {
		case string(name) == "callId":
			d.callID = s.str()
		case !s.place(&d.place, name):
			s.skip()
		}
	})
	return d, s.end()
}

// messageData is what an event carries that brings a message: a delivery, or an
// event that a plugin put on the surface. The message is nil when there is none.
type messageData struct {
	id      string
	message *llm.Message
	quiet   bool
}

func decodeMessage(s *scanner) (d messageData, ok bool) {
	s.object(func(name []byte) {
		switch {
		case string(name) == "id" && s.peek() == '"':
			d.id = s.str()
		case string(name) == "message" && s.peek() == '{':
			d.message = s.message()
		case string(name) == "quiet" && s.peek() != '{':
			d.quiet = s.boolean()
		default:
			s.skip()
		}
	})
	return d, s.end()
}

func (s *scanner) message() *llm.Message {
	m := new(llm.Message)
	s.object(func(name []byte) {
		switch string(name) {
		case "id":
			m.ID = s.str()
		case "role":
			m.Role = llm.Role(s.shared())
		case "content":
			m.Content = s.blocks()
		case "source":
			m.Source = s.source()
		case "callId":
			m.CallID = s.str()
		case "isError":
			m.IsError = s.boolean()
		case "provider":
			m.Provider = s.shared()
		case "model":
			m.Model = s.shared()
		case "interrupted":
			m.Interrupted = s.boolean()
		default:
			s.skip()
		}
	})
	return m
}

func (s *scanner) source() (v llm.Source) {
	s.object(func(name []byte) {
		switch string(name) {
		case "kind":
			v.Kind = s.str()
		case "name":
			v.Name = s.str()
		case "form":
			v.Form = s.str()
		default:
			s.skip()
		}
	})
	return v
}

func (s *scanner) usage() (u llm.Usage) {
	s.object(func(name []byte) {
		switch string(name) {
		case "input":
			u.Input = s.integer()
		case "output":
			u.Output = s.integer()
		case "cacheRead":
			u.CacheRead = s.integer()
		case "cacheWrite":
			u.CacheWrite = s.integer()
		case "reasoning":
			u.Reasoning = s.integer()
		default:
			s.skip()
		}
	})
	return u
}

func (s *scanner) blocks() []llm.Block {
	if s.null() {
		return nil
	}
	var blocks []llm.Block
	s.array(func() { blocks = append(blocks, s.block()) })
	if blocks == nil && !s.bad {
		blocks = []llm.Block{}
	}
	return blocks
}

func (s *scanner) block() (b llm.Block) {
	s.object(func(name []byte) {
		switch string(name) {
		case "type":
			b.Type = s.blockType()
		case "text":
			b.Text = s.str()
		case "callId":
			b.CallID = s.str()
		case "providerId":
			b.ProviderID = s.str()
		case "name":
			b.Name = s.shared()
		case "arguments":
			b.Arguments = s.str()
		case "mediaType":
			b.MediaType = s.str()
		case "attachment":
			b.Attachment = s.str()
		case "opaque":
			b.Opaque = bytes.Clone(s.raw())
		default:
			s.skip()
		}
	})
	return b
}

// blockType consumes the type of a block; the known names are shared.
func (s *scanner) blockType() llm.BlockType {
	t, plain := s.quoted()
	if !plain {
		s.fail()
		return ""
	}
	switch string(t) {
	case string(llm.BlockText):
		return llm.BlockText
	case string(llm.BlockReasoning):
		return llm.BlockReasoning
	case string(llm.BlockToolCall):
		return llm.BlockToolCall
	default:
		return llm.BlockType(t)
	}
}
