package session

import (
	"encoding/json"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/dsh-harness/dsh/llm"
)

// generatedText draws text as models and tools write it, and worse.
func generatedText() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom([]string{"", "ok", "a\n\tb", "\x1b[31mred\x1b[0m", "<&>\u2028", "你好", "\xff\xfe bytes", "😀", `"quoted\"`}),
		rapid.String(),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 40), func(b []byte) string { return string(b) }),
	)
}

func generatedBlock() *rapid.Generator[llm.Block] {
	return rapid.Custom(func(t *rapid.T) llm.Block {
		b := llm.Block{
			Type: rapid.SampledFrom([]llm.BlockType{llm.BlockText, llm.BlockReasoning, llm.BlockToolCall, llm.BlockImage, llm.BlockOpaque, "other"}).Draw(t, "type"),
			Text: generatedText().Draw(t, "text"), Arguments: generatedText().Draw(t, "arguments"),
			CallID: generatedText().Draw(t, "callId"), ProviderID: generatedText().Draw(t, "providerId"), Name: generatedText().Draw(t, "name"),
			MediaType: generatedText().Draw(t, "mediaType"), Attachment: generatedText().Draw(t, "attachment"),
		}
		if rapid.Bool().Draw(t, "opaque") {
			b.Opaque = json.RawMessage(`{"signature":["x",1]}`)
		}
		return b
	})
}

func generatedUsage() *rapid.Generator[llm.Usage] {
	n := rapid.Int64Range(0, 1<<40)
	return rapid.Custom(func(t *rapid.T) llm.Usage {
		return llm.Usage{Input: n.Draw(t, "input"), Output: n.Draw(t, "output"), CacheRead: n.Draw(t, "cacheRead"), CacheWrite: n.Draw(t, "cacheWrite"), Reasoning: n.Draw(t, "reasoning")}
	})
}

// both encodes v and decodes it with encoding/json into out.
func both(t *rapid.T, v, out any) json.RawMessage {
	data, err := newEncoder().encode(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, out); err != nil {
		t.Fatal(err)
	}
	return data
}

func equal(t *rapid.T, data json.RawMessage, got, want any, ok bool) {
	if !ok || !reflect.DeepEqual(got, want) {
		t.Fatalf("decoding %s gives\n%+v, %v\nencoding/json gives\n%+v", data, got, ok, want)
	}
}

// TestDecodersAgreeWithEncodingJSON holds decode.go and the types in event.go together.
func TestDecodersAgreeWithEncodingJSON(t *testing.T) {
	blocks := rapid.SliceOfN(generatedBlock(), 0, 3)
	source := rapid.Custom(func(t *rapid.T) llm.Source {
		return llm.Source{Kind: generatedText().Draw(t, "kind"), Name: generatedText().Draw(t, "name"), Form: generatedText().Draw(t, "form")}
	})
	turn := rapid.IntRange(-1, 1<<40)

	t.Run("input", rapid.MakeCheck(func(t *rapid.T) {
		var d InputData
		data := both(t, InputData{ID: generatedText().Draw(t, "id"), Source: source.Draw(t, "source"), Content: blocks.Draw(t, "content"), Inbox: generatedText().Draw(t, "inbox")}, &d)
		s := newScanner(data)
		got, ok := decodeInput(&s)
		equal(t, data, got, inputData{d.Inbox, llm.Message{ID: d.ID, Role: llm.RoleUser, Content: d.Content, Source: d.Source}}, ok)
	}))
	t.Run("assistant", rapid.MakeCheck(func(t *rapid.T) {
		v := AssistantData{
			Turn: turn.Draw(t, "turn"), Step: turn.Draw(t, "step"), Provider: generatedText().Draw(t, "provider"), Model: generatedText().Draw(t, "model"),
			Message: AssistantContent{ID: generatedText().Draw(t, "id"), Content: blocks.Draw(t, "content")}, Interrupted: rapid.Bool().Draw(t, "interrupted"), Finish: llm.FinishStop,
		}
		if rapid.Bool().Draw(t, "has usage") {
			u := generatedUsage().Draw(t, "usage")
			v.Usage = &u
		}
		var d AssistantData
		data := both(t, v, &d)
		want := assistantData{
			place:   place{int64(d.Turn), int64(d.Step)},
			message: llm.Message{ID: d.Message.ID, Role: llm.RoleAssistant, Content: d.Message.Content, Provider: d.Provider, Model: d.Model, Interrupted: d.Interrupted},
		}
		if d.Usage != nil {
			want.usage = *d.Usage
		}
		s := newScanner(data)
		got, ok := decodeAssistant(&s)
		equal(t, data, got, want, ok)
	}))
	t.Run("result", rapid.MakeCheck(func(t *rapid.T) {
		var d ToolResultData
		data := both(t, ToolResultData{
			Turn: turn.Draw(t, "turn"), Step: turn.Draw(t, "step"), CallID: generatedText().Draw(t, "callId"), Content: blocks.Draw(t, "content"),
			IsError: rapid.Bool().Draw(t, "isError"), Error: &ToolErrorData{Name: "n", Code: "c"}, Meta: json.RawMessage(`{"callId":"not this"}`),
		}, &d)
		s := newScanner(data)
		got, ok := decodeResult(&s)
		equal(t, data, got, resultData{place{int64(d.Turn), int64(d.Step)}, llm.Message{Role: llm.RoleTool, CallID: d.CallID, IsError: d.IsError, Content: d.Content}}, ok)
	}))
	t.Run("call", rapid.MakeCheck(func(t *rapid.T) {
		var d ToolCallData
		data := both(t, ToolCallData{Turn: turn.Draw(t, "turn"), Step: turn.Draw(t, "step"), CallID: generatedText().Draw(t, "callId"), Arguments: generatedText().Draw(t, "arguments")}, &d)
		s := newScanner(data)
		got, ok := decodeCall(&s)
		equal(t, data, got, callData{place{int64(d.Turn), int64(d.Step)}, d.CallID}, ok)
	}))
	t.Run("delivery", rapid.MakeCheck(func(t *rapid.T) {
		var d InboxData
		data := both(t, InboxData{ID: generatedText().Draw(t, "id"), Quiet: rapid.Bool().Draw(t, "quiet"), Message: llm.Message{
			ID: generatedText().Draw(t, "message id"), Role: llm.RoleUser, Content: blocks.Draw(t, "content"), Source: source.Draw(t, "source"),
			CallID: generatedText().Draw(t, "callId"), IsError: rapid.Bool().Draw(t, "isError"), Provider: generatedText().Draw(t, "provider"),
			Model: generatedText().Draw(t, "model"), Interrupted: rapid.Bool().Draw(t, "interrupted"),
		}}, &d)
		s := newScanner(data)
		got, ok := decodeMessage(&s)
		equal(t, data, got, messageData{d.ID, &d.Message, d.Quiet}, ok)
	}))
}

// TestDecodersRefuseWhatIsNotJSON feeds damaged data to each decoder: none may
// take it for whole, as the line's own parser leaves the data to them.
func TestDecodersRefuseWhatIsNotJSON(t *testing.T) {
	decoders := map[string]func(*scanner) bool{
		"place":     func(s *scanner) bool { _, ok := decodePlace(s); return ok },
		"input":     func(s *scanner) bool { _, ok := decodeInput(s); return ok },
		"assistant": func(s *scanner) bool { _, ok := decodeAssistant(s); return ok },
		"result":    func(s *scanner) bool { _, ok := decodeResult(s); return ok },
		"call":      func(s *scanner) bool { _, ok := decodeCall(s); return ok },
		"delivery":  func(s *scanner) bool { _, ok := decodeMessage(s); return ok },
	}
	whole := `{"turn":1,"step":2,"callId":"c","id":"x","content":[{"type":"text","text":"a\n"}],"message":{"id":"m","content":[]},"usage":{"input":1,"output":2},"other":{"a":[1,true,null]},"quiet":true}`
	for name, decode := range decoders {
		s := newScanner([]byte(whole))
		if !decode(&s) {
			t.Fatalf("%s refuses what is right", name)
		}
		for i := range whole {
			for _, bad := range []string{whole[:i], whole[:i] + whole[i+1:], whole[:i] + "}" + whole[i:], whole[:i] + "\x00" + whole[i+1:]} {
				s := newScanner([]byte(bad))
				if decode(&s) && !json.Valid([]byte(bad)) {
					t.Fatalf("%s accepts %s", name, bad)
				}
			}
		}
	}
}
