package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/session"
)

// progress tells a person what an agent does: a line for each tool call, and what the model says
// as it says it.
type progress struct {
	painter
	width  int
	reason bool // show what the model thinks, too
	output int  // lines of each result that are shown

	mu     sync.Mutex
	calls  map[string]call // that have no result yet
	many   bool            // the step calls more than one tool
	begun  step            // that the events have come to
	held   []piece         // of an answer in a step that they have not come to
	answer answer          // that is being written
	block  llm.BlockType   // of the text that is being written
	column bool            // the cursor stands behind text
	said   strings.Builder // the text of the answer
	asking bool            // somebody is asked on the terminal
	kept   strings.Builder // what is to be written after that
}

type (
	call   struct{ name string }
	step   struct{ turn, step int }
	answer struct {
		step
		attempt int
	}
	// piece is a part of an answer.
	piece struct {
		answer
		block llm.BlockType
		text  string
	}
)

// newProgress returns one that writes to out.
func (p *program) newProgress(out stream) *progress {
	w := &progress{painter: p.painter(out), width: 80, calls: map[string]call{}}
	if f, ok := out.Writer.(*os.File); ok && out.terminal {
		w.width = width(f)
	}
	return w
}

// listen hears what is said before it is durable.
func (w *progress) listen(s *plugin.Scope) error {
	_, err := agent.StreamChunk.On(s, func(_ context.Context, n agent.ChunkNotice) error {
		w.chunk(n)
		return nil
	})
	return err
}

// chunk takes a piece of an answer. It comes live and the events come when they are durable, so
// it may be ahead of them.
func (w *progress) chunk(n agent.ChunkNotice) {
	c := n.Chunk
	if c.Kind != llm.ChunkDelta || c.Text == "" || c.Block != llm.BlockText && (c.Block != llm.BlockReasoning || !w.reason) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	p := piece{answer{step{n.Turn, n.Step}, n.Attempt}, c.Block, c.Text}
	if p.step != w.begun {
		w.held = append(w.held, p)
		return
	}
	w.say(p)
}

// say writes a piece of an answer.
func (w *progress) say(p piece) {
	if p.answer != w.answer {
		w.breakLine()
		w.said.Reset()
		if w.output > 0 && w.answer.turn > 0 {
			w.write("\n") // results stand between this answer and the last
		}
	}
	if p.block != w.block {
		w.breakLine()
	}
	w.answer, w.block = p.answer, p.block
	if p.block == llm.BlockText {
		w.said.WriteString(p.text)
	}
	text := plain(p.text)
	if !w.column {
		text = strings.TrimLeft(text, "\n") // models like to begin with empty lines
	}
	if text == "" {
		return
	}
	w.column = !strings.HasSuffix(text, "\n")
	if p.block == llm.BlockReasoning {
		text = w.paint(dim, text)
	}
	w.write(text)
}

// event writes what a durable event tells.
func (w *progress) event(e session.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e.Type {
	case session.StepStart:
		var d session.StepData
		if json.Unmarshal(e.Data, &d) == nil {
			w.begun, w.many = step{d.Turn, d.Step}, false
			for _, p := range w.held {
				w.say(p)
			}
			w.held = nil
		}
	case session.ToolCall:
		var d session.ToolCallData
		if json.Unmarshal(e.Data, &d) == nil {
			w.calls[d.CallID] = call{plain(d.Name)}
			w.many = w.many || len(w.calls) > 1
			w.line(w.paint(cyan, "→ "+plain(d.Name)) + " " + oneLine(argument(d.Arguments), w.width-len(d.Name)-4))
		}
	case session.ToolResult:
		var d session.ToolResultData
		if json.Unmarshal(e.Data, &d) == nil {
			w.result(d)
		}
	case session.Retry:
		var d session.RetryData
		if json.Unmarshal(e.Data, &d) == nil {
			w.line(w.paint(yellow, oneLine(fmt.Sprintf("… again in %v: %s", delay(d), d.Failure.Message), w.width)))
		}
	}
}

// delay is how long is waited before a request is sent again, as people read it.
func delay(d session.RetryData) time.Duration {
	return (time.Duration(d.DelayMS) * time.Millisecond).Round(100 * time.Millisecond)
}

// result writes how a call ended.
func (w *progress) result(d session.ToolResultData) {
	c := w.calls[d.CallID]
	delete(w.calls, d.CallID)
	lines := strings.Split(strings.Trim(plain(llm.PlainText(d.Content)), "\n"), "\n")
	if d.IsError {
		w.line(w.paint(red, "  ✗ "+oneLine(strings.TrimPrefix(lines[0], "Error: "), w.width-4)))
		return
	}
	if w.output == 0 || lines[0] == "" {
		return
	}
	if w.many {
		w.line(w.paint(dim, "  "+c.name+":"))
	}
	for i, l := range lines {
		if i == w.output && len(lines) > w.output+1 {
			w.line(w.paint(dim, fmt.Sprintf("    … %d more lines", len(lines)-i)))
			break
		}
		w.line(w.paint(dim, "    "+cut(l, w.width-4)))
	}
}

// end leaves the cursor at the beginning of a line, and reports whether text is the last thing
// that was written, so that a terminal shows it already.
func (w *progress) end(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.breakLine()
	return strings.TrimSpace(w.said.String()) == strings.TrimSpace(text)
}

func (w *progress) breakLine() {
	if w.column {
		w.write("\n")
	}
	w.column, w.block = false, ""
}

func (w *progress) line(s string) {
	w.breakLine()
	w.write(s + "\n")
}

// write writes. When nobody is there any more, nobody misses it.
func (w *progress) write(s string) {
	if w.asking {
		w.kept.WriteString(s)
		return
	}
	_, _ = fmt.Fprint(w.out, s)
}

// hold leaves the terminal to a question, until release.
func (w *progress) hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.breakLine()
	w.asking = true
}

func (w *progress) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asking = false
	w.write(w.kept.String())
	w.kept.Reset()
}

// painter writes in colours where that is wanted.
type painter struct {
	out    stream
	colour bool
}

func (p *program) painter(out stream) painter {
	return painter{out, out.terminal && p.get("NO_COLOR") == ""}
}

// colour is an attribute of text on a terminal.
type colour string

const (
	dim    colour = "2"
	red    colour = "31"
	green  colour = "32"
	yellow colour = "33"
	cyan   colour = "36"
	bold   colour = "1"
)

func (w painter) paint(c colour, s string) string {
	if !w.colour {
		return s
	}
	return "\x1b[" + string(c) + "m" + s + "\x1b[0m"
}

// argument is the part of a call's arguments that says most: the first text, in the order
// that the model gave them.
func argument(raw string) string {
	decoder := json.NewDecoder(strings.NewReader(raw))
	if t, err := decoder.Token(); err != nil || t != json.Delim('{') {
		return raw
	}
	var first string
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return raw
		}
		var value any
		if decoder.Decode(&value) != nil {
			return raw
		}
		text, isText := value.(string)
		switch key {
		case "command", "file_path", "path", "pattern", "url":
			if isText {
				return text
			}
		}
		if first == "" && isText {
			first = text
		}
	}
	if first == "" {
		return raw
	}
	return first
}
