package tui

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dsh-harness/dsh/internal/atomicfile"
)

const (
	// keptPrompts is how many prompts the history has, and longestPrompt how long one may be, in bytes.
	keptPrompts   = 1000
	longestPrompt = 16 << 10
)

// History is the file of the prompts of a person: one a line, as a JSON string. What begins with a blank is not kept.
type History struct{ Path string }

// Read returns the prompts, the last one last. Lines that are not understood are left out.
func (h History) Read() ([]string, error) {
	f, err := os.Open(h.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the history: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	var all []string
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 4*longestPrompt)
	for lines.Scan() {
		var prompt string
		if json.Unmarshal(lines.Bytes(), &prompt) == nil {
			all = append(all, prompt)
		}
	}
	return all[max(0, len(all)-keptPrompts):], lines.Err()
}

// Add appends a prompt. When the file has become twice as long as it need be, it is written anew.
func (h History) Add(prompt string) error {
	if prompt == "" || prompt[0] == ' ' || len(prompt) > longestPrompt {
		return nil
	}
	line, err := json.Marshal(prompt)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(h.Path), 0o700); err != nil {
		return fmt.Errorf("keep the history: %w", err)
	}
	f, err := os.OpenFile(h.Path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("keep the history: %w", err)
	}
	_, err = f.Write(append(line, '\n')) // one write, so that two processes do not mix their lines
	info, stat := f.Stat()
	if err = errors.Join(err, stat, f.Close()); err != nil {
		return fmt.Errorf("keep the history: %w", err)
	}
	if info.Size() > 2*keptPrompts*200 {
		return h.shorten()
	}
	return nil
}

func (h History) shorten() error {
	all, err := h.Read()
	if err != nil {
		return err
	}
	var text []byte
	for _, prompt := range all[len(all)/2:] {
		line, err := json.Marshal(prompt)
		if err != nil {
			return err
		}
		text = append(append(text, line...), '\n')
	}
	return atomicfile.Write(h.Path, text, 0o600)
}
