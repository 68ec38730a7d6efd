package testllm

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Scenario says what a request gets when there is no script.
type Scenario struct {
	Text   int           // chunks of text in the last answer
	Size   int           // bytes of text in a chunk
	Reason int           // chunks of reasoning before it
	Tools  int           // steps before it that call tools
	Par    int           // calls in such a step
	Delay  time.Duration // before the answer
	Gap    time.Duration // between chunks of text
	Fail   string        // a status, "cut", "malformed" or "stall"
	Times  int           // how many requests fail
	Retry  int           // seconds of Retry-After with a 429
	ID     string        // names the conversation, for Fail
}

// ParseScenario reads the notation of a marker in a prompt, [[mock tools:50]]: a list of
// key:value separated by commas, with the keys text, size, reason, tools, par, delay
// and gap (milliseconds), fail, times, retry and id. The step of a conversation is
// counted from the tool results behind the last marker, so a client may resume,
// retry or compact.
func ParseScenario(s string) (Scenario, error) {
	sc := Scenario{Text: 1, Size: 4, Par: 1, Times: 1, Retry: 1}
	numbers := map[string]*int{
		"text": &sc.Text, "chunks": &sc.Text, "size": &sc.Size, "reason": &sc.Reason, "tools": &sc.Tools, "par": &sc.Par,
		"times": &sc.Times, "retry": &sc.Retry,
	}
	for part := range strings.SplitSeq(s, ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(part), ":")
		n, err := strconv.Atoi(value)
		switch {
		case !ok:
			return sc, fmt.Errorf("scenario %q: %q is not key:value", s, part)
		case key == "fail":
			sc.Fail = value
		case key == "id":
			sc.ID = value
		case err != nil || n < 0:
			return sc, fmt.Errorf("scenario %q: %q is no count", s, value)
		case key == "delay":
			sc.Delay = time.Duration(n) * time.Millisecond
		case key == "gap":
			sc.Gap = time.Duration(n) * time.Millisecond
		case numbers[key] != nil:
			*numbers[key] = n
		default:
			return sc, fmt.Errorf("scenario %q: unknown key %q", s, key)
		}
	}
	return sc, nil
}

// marked returns the scenario of the last marker in the body, and what follows it.
func marked(body []byte) (sc Scenario, after []byte) {
	const opening = "[[mock "
	after = body
	text := "text:1"
	if i := bytes.LastIndex(body, []byte(opening)); i >= 0 {
		rest := body[i+len(opening):]
		if j := bytes.Index(rest, []byte("]]")); j >= 0 && j < 200 {
			text, after = string(rest[:j]), rest[j:]
		}
	}
	sc, err := ParseScenario(text)
	if err != nil {
		sc, _ = ParseScenario("text:1") // an ordinary prompt with odd brackets
	}
	return sc, after
}

// knownTools are called when a scenario asks for calls and no tool was named.
var knownTools = [...]Call{
	{Name: "bash", Arguments: `{"command":"true {{n}}","description":"noop"}`},
	{Name: "read", Arguments: `{"file_path":"f{{n}}.txt"}`},
}

// scenario answers as the marker in the prompt says.
func (s *Server) scenario(w http.ResponseWriter, r *http.Request, body []byte) {
	sc, after := marked(body)
	step := bytes.Count(after, []byte(`"role":"tool"`))
	s.mu.Lock()
	tool := s.tool
	s.calls++
	n := s.calls
	failing := sc.Fail != "" && s.failed[sc.ID] < sc.Times
	if failing {
		s.failed[sc.ID]++
	}
	s.mu.Unlock()
	if sc.Delay > 0 && !s.sleep(sc.Delay) {
		return
	}
	if status, err := strconv.Atoi(sc.Fail); failing && err == nil {
		turn := Fail(status, "scripted failure")
		if status == http.StatusTooManyRequests {
			turn.Header["Retry-After"] = strconv.Itoa(sc.Retry)
		}
		s.play(w, turn)
		return
	}
	if tool.Name == "" {
		tool = knownTools[0]
		for _, known := range knownTools {
			if bytes.Contains(body, []byte(`"name":"`+known.Name+`"`)) {
				tool = known
				break
			}
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	out := &events{w: w, flush: http.NewResponseController(w).Flush}
	piece := strings.Repeat("tok ", sc.Size/4+1)[:max(sc.Size, 1)]
	out.chunk(`{"role":"assistant","content":""}`, "null")
	if failing {
		out.chunk(`{"content":"par"}`, "null")
		switch sc.Fail {
		case "malformed":
			out.send(`{"choices":[{"delta":{`)
		case "stall":
			select {
			case <-r.Context().Done():
			case <-s.closing:
			}
		}
		panic(http.ErrAbortHandler)
	}
	for range sc.Reason {
		out.chunk(`{"reasoning_content":"`+piece+`"}`, "null")
	}
	if step < sc.Tools*sc.Par {
		for i := range sc.Par {
			id := fmt.Sprintf("call_%d_%d", n, step+i+1)
			args := strings.ReplaceAll(tool.Arguments, "{{n}}", strconv.Itoa(step+i+1))
			half := len(args) / 2
			out.chunk(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":%q,"type":"function","function":{"name":%q,"arguments":""}}]}`, i, id, tool.Name), "null")
			for _, part := range []string{args[:half], args[half:]} {
				out.chunk(fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}`, i, mustJSON(part)), "null")
			}
		}
		out.chunk(`{}`, `"tool_calls"`)
	} else {
		for range sc.Text {
			out.chunk(`{"content":"`+piece+`"}`, "null")
			if sc.Gap > 0 && !s.sleep(sc.Gap) {
				return
			}
		}
		out.chunk(`{}`, `"stop"`)
	}
	tokens := len(body) / 4
	out.send(fmt.Sprintf(`{"id":"cc","object":"chat.completion.chunk","created":1,"model":"mock","choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`, tokens, sc.Text, tokens+sc.Text))
	out.send("[DONE]")
}

// events writes an event stream, each event in a packet of its own.
type events struct {
	w     http.ResponseWriter
	flush func() error
	buf   []byte
	gone  bool
}

func (e *events) chunk(delta, finish string) {
	e.send(`{"id":"cc","object":"chat.completion.chunk","created":1,"model":"mock","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}]}`)
}

func (e *events) send(data string) {
	if e.gone {
		return
	}
	e.buf = append(append(append(e.buf[:0], "data: "...), data...), "\n\n"...)
	_, err := e.w.Write(e.buf)
	e.gone = err != nil || e.flush() != nil
}
