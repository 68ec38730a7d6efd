package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

// floorEnv makes the test binary the floor: it holds the URL of the server.
const floorEnv = "DSH_BENCH_FLOOR"

// floorHead is everything of the floor's requests but the messages.
const floorHead = `{"model":"floor","stream":true,"stream_options":{"include_usage":true},"tools":[` +
	`{"type":"function","function":{"name":"read","description":"Reads a file","parameters":` +
	`{"type":"object","properties":{"file_path":{"type":"string"}},"required":["file_path"]}}}],"messages":[`

type floorCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type floorMessage struct {
	Role       string      `json:"role"`
	Content    string      `json:"content"`
	ToolCalls  []floorCall `json:"tool_calls,omitempty"`
	ToolCallID string      `json:"tool_call_id,omitempty"`
}

// floor keeps its messages encoded: a step only adds bytes.
type floor struct {
	url  string
	log  *os.File
	sent []byte
}

// runFloor answers one prompt. What is in the log already is the conversation so far.
func runFloor(url, log, prompt string) error {
	file, err := os.OpenFile(log, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	old, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	f := &floor{url: url, log: file, sent: bytes.ReplaceAll(bytes.TrimSpace(old), []byte("\n"), []byte(","))}
	if err := f.add(floorMessage{Role: "user", Content: prompt}); err != nil {
		return err
	}
	for {
		if err := f.log.Sync(); err != nil {
			return err
		}
		answer, err := f.ask()
		if err == nil {
			err = f.add(answer)
		}
		if err != nil {
			return err
		}
		if len(answer.ToolCalls) == 0 {
			return f.log.Sync()
		}
		for _, c := range answer.ToolCalls {
			var in struct {
				FilePath string `json:"file_path"`
			}
			if err := json.Unmarshal([]byte(c.Function.Arguments), &in); err != nil {
				return err
			}
			content, err := os.ReadFile(in.FilePath)
			if err == nil {
				err = f.add(floorMessage{Role: "tool", ToolCallID: c.ID, Content: string(content)})
			}
			if err != nil {
				return err
			}
		}
	}
}

func (f *floor) add(m floorMessage) error {
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if len(f.sent) > 0 {
		f.sent = append(f.sent, ',')
	}
	f.sent = append(f.sent, line...)
	_, err = f.log.Write(append(line, '\n'))
	return err
}

// ask sends the conversation and reads the answer as it streams.
func (f *floor) ask() (m floorMessage, err error) {
	m.Role = "assistant"
	body := io.MultiReader(strings.NewReader(floorHead), bytes.NewReader(f.sent), strings.NewReader("]}"))
	req, err := http.NewRequest(http.MethodPost, f.url+"/chat/completions", body)
	if err != nil {
		return m, err
	}
	req.ContentLength = int64(len(floorHead) + len(f.sent) + len("]}"))
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return m, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return m, fmt.Errorf("the server answers %s", resp.Status)
	}
	var text strings.Builder
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 64<<10), 16<<20)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok || string(data) == "[DONE]" {
			continue
		}
		var chunk struct {
			Choices []struct {
				Delta struct {
					Content   string `json:"content"`
					ToolCalls []struct {
						Index int `json:"index"`
						floorCall
					} `json:"tool_calls"`
				} `json:"delta"`
			} `json:"choices"`
		}
		if err := json.Unmarshal(data, &chunk); err != nil {
			return m, err
		}
		for _, c := range chunk.Choices {
			text.WriteString(c.Delta.Content)
			for _, d := range c.Delta.ToolCalls {
				for d.Index >= len(m.ToolCalls) {
					m.ToolCalls = append(m.ToolCalls, floorCall{Type: "function"})
				}
				call := &m.ToolCalls[d.Index]
				if d.ID != "" {
					call.ID, call.Function.Name = d.ID, d.Function.Name
				}
				call.Function.Arguments += d.Function.Arguments
			}
		}
	}
	m.Content = text.String()
	fmt.Print(m.Content)
	return m, lines.Err()
}
