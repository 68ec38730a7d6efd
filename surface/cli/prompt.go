package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

const (
	// pipeWait is how long a pipe beside a prompt may stay silent before it does not count.
	pipeWait = 300 * time.Millisecond
	// maxPrompt is the longest prompt, in bytes: an event of the log has to hold it.
	maxPrompt = 8 << 20
)

// prompt puts together what the agent is asked: the arguments, the file, and standard input,
// with an empty line between them. A terminal is never read. A pipe beside a prompt may be
// one that a script inherited and that never ends, so it only counts when its first
// byte or its end comes soon.
func (p *program) prompt(args []string, file string) (string, error) {
	var parts []string
	add := func(text []byte) {
		if t := strings.TrimRight(string(bytes.TrimPrefix(text, []byte("\ufeff"))), "\r\n"); strings.TrimSpace(t) != "" {
			parts = append(parts, t)
		}
	}
	add([]byte(strings.Join(args, " ")))
	switch {
	case file == "-":
		text, err := readAll(p.stdin, "standard input")
		if err != nil {
			return "", err
		}
		add(text)
	case file != "":
		f, err := os.Open(file)
		if err != nil {
			return "", fmt.Errorf("read the prompt: %w", err)
		}
		text, err := readAll(f, file)
		_ = f.Close() // it was only read
		if err != nil {
			return "", err
		}
		add(text)
	}
	if file != "-" {
		text, err := p.piped(len(parts) == 0)
		if err != nil {
			return "", err
		}
		add(text)
	}
	prompt := strings.Join(parts, "\n\n")
	switch {
	case prompt == "":
		return "", errors.New(`there is no prompt: give it as an argument, with --file, or on standard input, as in dsh run "fix the failing test"`)
	case len(prompt) > maxPrompt:
		return "", fmt.Errorf("the prompt has %d bytes and may have %d: name a file for the agent to read instead", len(prompt), maxPrompt)
	}
	return prompt, nil
}

// piped reads standard input. When it is all there is, it is waited for.
func (p *program) piped(only bool) ([]byte, error) {
	info, err := p.stdin.Stat()
	if err != nil || isTerminal(p.stdin) {
		return nil, nil // there is none
	}
	switch mode := info.Mode(); {
	case mode.IsRegular() || only:
	case mode&(os.ModeNamedPipe|os.ModeSocket) != 0:
		if !readable(p.stdin, pipeWait) {
			return nil, nil
		}
	default: // /dev/null and the like
		return nil, nil
	}
	return readAll(p.stdin, "standard input")
}

func readAll(r io.Reader, name string) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxPrompt+1))
	if err != nil {
		return nil, fmt.Errorf("read the prompt from %s: %w", name, err)
	}
	return text, nil
}
