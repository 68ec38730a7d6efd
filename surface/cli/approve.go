package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dsh-harness/dsh"
	"github.com/dsh-harness/dsh/internal/spelling"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/tool"
)

// lookAgain is how often a question looks whether it still stands while nobody types.
const lookAgain = 50 * time.Millisecond

// maxLine bounds what is typed in one line, in bytes.
const maxLine = 64 << 10

// desk asks the person at the terminal. Questions wait for one another.
type desk struct {
	painter
	in       *os.File
	scope    *plugin.Scope
	lookup   func(name string) (string, bool)
	progress *progress     // waits while a question stands; nil when there is none
	turn     chan struct{} // holds a token while a question stands
	typed    []byte        // what came behind the line that was read last
}

// ask has the person at the terminal asked while h lives, if there is one: standard input and standard error
// are the terminal.
func (p *program) ask(h *dsh.Harness, progress *progress) error {
	if !p.stderr.terminal || !canAsk(p.stdin) {
		return nil
	}
	_, err := policy.Answerers.Add(h.Scope(), "terminal", &desk{
		painter: p.painter(p.stderr), in: p.stdin, scope: h.Scope(), lookup: p.lookup, progress: progress, turn: make(chan struct{}, 1),
	})
	return err
}

// Answer implements [policy.Answerer].
func (d *desk) Answer(ctx context.Context, r policy.Request) (policy.Answer, error) {
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return policy.Answer{}, context.Cause(ctx)
	}
	if d.progress != nil {
		d.progress.hold()
		defer d.progress.release()
	}
	// What was typed before the question is no answer to it.
	discardTyped(d.in)
	d.typed = nil
	d.show(&r)
	answer, err := d.decide(ctx, &r)
	if by := (*policy.AnsweredError)(nil); errors.As(context.Cause(ctx), &by) {
		d.say("\n(%s)\n", plain(by.Error()))
	} else if ctx.Err() != nil {
		d.say("\n(the question is withdrawn)\n")
	}
	return answer, err
}

func (d *desk) say(format string, a ...any) {
	_, _ = fmt.Fprintf(d.out, format, a...) // when the terminal is gone, reading from it tells
}

// mark paints what stands for something else than what is written.
func (d *desk) mark(s string) string { return d.paint(yellow, s) }

func (d *desk) width() int {
	if f, ok := d.out.Writer.(*os.File); ok {
		return width(f)
	}
	return 80
}

// show writes the question: all that the call touches, whole, and why it is asked about.
func (d *desk) show(r *policy.Request) {
	verb := "wants to run"
	if r.Wider != nil {
		verb = "was kept from something, and wants to run once more"
	}
	d.say("\n%s\n", d.paint(bold, "? "+spelling.Text(r.Call.Name, d.mark)+" "+verb))
	told := map[string]bool{}
	for _, a := range r.Accesses {
		told[a.Target] = true
		d.part(accessVerb(a.Kind), a.Target, 0)
	}
	for _, argument := range argumentsOf(r.Call.Arguments) {
		if !told[argument.value] {
			d.part(argument.name, argument.value, briefly)
		}
	}
	for _, refused := range r.Refused {
		d.part("was refused", string(refused.Kind)+" "+refused.Target, 0)
	}
	if r.Wider != nil {
		for _, path := range r.Wider.Write {
			d.part("could then write", path, 0)
		}
		for _, host := range r.Wider.Hosts {
			d.part("could then reach", host, 0)
		}
	}
	d.part("because", r.Reason, 0)
	for i, rule := range r.Rules {
		d.part("rule "+strconv.Itoa(i+1), rule, 0)
	}
}

// briefly is how many rows are shown of what says least.
const briefly = 12

// part writes a name and a text, of which at most that many rows are shown when most is above 0.
func (d *desk) part(name, text string, most int) {
	d.say("  %s\n", d.paint(dim, spelling.Text(name, d.mark)+":"))
	all := spelling.Rows(text, d.width()-2, d.mark)
	left := 0
	if most > 0 && len(all) > most {
		left, all = len(all)-most, all[:most]
	}
	for _, row := range all {
		d.say("  %s\n", row)
	}
	if left > 0 {
		d.say("  %s\n", d.paint(dim, fmt.Sprintf("… %d more rows: v shows them", left)))
	}
}

func accessVerb(k tool.AccessKind) string {
	switch k {
	case tool.AccessRead:
		return "reads"
	case tool.AccessWrite:
		return "writes"
	case tool.AccessExecute:
		return "runs"
	case tool.AccessNetwork:
		return "reaches"
	}
	return string(k)
}

// named is an argument of a call.
type named struct{ name, value string }

// argumentsOf returns the arguments of a call in their order; what is no text stays JSON.
func argumentsOf(raw json.RawMessage) []named {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return []named{{"arguments", string(raw)}}
	}
	var all []named
	for d.More() {
		key, err := d.Token()
		var value json.RawMessage
		if err == nil {
			err = d.Decode(&value)
		}
		if err != nil {
			return []named{{"arguments", string(raw)}}
		}
		text := string(value)
		var s string
		if json.Unmarshal(value, &s) == nil {
			text = s
		}
		all = append(all, named{fmt.Sprint(key), text})
	}
	return all
}

// decide reads keys until one of them is an answer.
func (d *desk) decide(ctx context.Context, r *policy.Request) (policy.Answer, error) {
	keys := d.keys(r)
	for {
		line, err := d.readLine(ctx, d.paint(bold, keys)+" ")
		if err != nil {
			return policy.Answer{}, err
		}
		key, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		rest = strings.TrimSpace(rest)
		switch key = strings.ToLower(key); {
		case key == "y" && rest == "":
			return policy.Answer{Allow: true}, nil
		case key == "n" && rest == "":
			return policy.Answer{}, nil
		case key == "r":
			if rest == "" {
				if rest, err = d.readLine(ctx, "why not: "); err != nil {
					return policy.Answer{}, err
				}
			}
			return policy.Answer{Reason: strings.TrimSpace(rest)}, nil
		case key == "v":
			for _, argument := range argumentsOf(r.Call.Arguments) {
				d.part(argument.name, argument.value, 0)
			}
		case key == "e" && r.Wider == nil:
			edited, err := d.edit(ctx, r)
			if err == nil {
				return policy.Answer{Allow: true, Arguments: edited}, nil
			}
			if ctx.Err() != nil || errors.Is(err, io.EOF) {
				return policy.Answer{}, err
			}
			d.say("%s\n", spelling.Text(err.Error(), d.mark))
		case (strings.HasPrefix(key, "s") || strings.HasPrefix(key, "a")) && rest == "":
			if rule, ok := ruleOf(r.Rules, key[1:]); ok {
				scope := policy.ForSession
				if key[0] == 'a' {
					scope = policy.ForUser
				}
				return policy.Answer{Allow: true, Remember: scope, Rule: rule}, nil
			}
		}
	}
}

// keys says what can be typed.
func (d *desk) keys(r *policy.Request) string {
	all := []string{"[y]es, once"}
	if n := len(r.Rules); n > 0 {
		which := ""
		if n > 1 {
			which = fmt.Sprintf("; s2 … a%d for another rule", n)
		}
		all = append(all, "[s] rule 1 for this session", "[a] rule 1 always in this folder"+which)
	}
	if r.Wider == nil {
		all = append(all, "[e]dit")
	}
	return strings.Join(append(all, "[v]iew all", "[n]o", "[r] no, because …"), ", ") + ":"
}

// ruleOf returns the rule of that number; without one, the first.
func ruleOf(rules []string, number string) (string, bool) {
	n := 1
	if number != "" {
		var err error
		if n, err = strconv.Atoi(number); err != nil {
			return "", false
		}
	}
	if n < 1 || n > len(rules) {
		return "", false
	}
	return rules[n-1], true
}

// readLine shows a prompt and returns the next line that is typed. Nothing reads from the terminal any
// more when it returns, also when ctx ended.
func (d *desk) readLine(ctx context.Context, prompt string) (string, error) {
	d.say("%s", prompt)
	buffer := make([]byte, 4096)
	for {
		if line, rest, ok := bytes.Cut(d.typed, []byte("\n")); ok {
			d.typed = slices.Clone(rest)
			return string(line), nil
		}
		for !readable(d.in, lookAgain) {
			if ctx.Err() != nil {
				return "", context.Cause(ctx)
			}
		}
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		n, err := d.in.Read(buffer)
		d.typed = append(d.typed, buffer[:n]...)
		switch {
		case n == 0 && (err == nil || errors.Is(err, io.EOF)):
			return "", fmt.Errorf("the terminal has no more input: %w", io.EOF)
		case err != nil:
			return "", fmt.Errorf("read from the terminal: %w", err)
		case len(d.typed) > maxLine:
			d.typed = nil
			return "", fmt.Errorf("a line has more than %d bytes", maxLine)
		}
	}
}

// edit lets the person change what the call does: its command if it has one, else all its arguments.
func (d *desk) edit(ctx context.Context, r *policy.Request) (json.RawMessage, error) {
	text, put, err := editable(r.Call.Arguments)
	if err != nil {
		return nil, err
	}
	var edited string
	if editor := d.editor(); editor != "" {
		edited, err = d.inEditor(ctx, editor, text)
	} else {
		edited, err = d.readLine(ctx, "instead: ")
	}
	if err != nil {
		return nil, err
	}
	edited = strings.TrimRight(edited, "\r\n")
	if strings.TrimSpace(edited) == "" {
		return nil, errors.New("nothing was entered")
	}
	changed, err := put(edited)
	if err != nil {
		return nil, err
	}
	definition, ok := tool.Tools.Get(d.scope, r.Call.Name)
	if !ok {
		return nil, fmt.Errorf("there is no tool %s any more", r.Call.Name)
	}
	return definition.Check(string(changed))
}

// editable returns what of arguments is edited, and how what came of it is put back.
func editable(arguments json.RawMessage) (text string, put func(string) (json.RawMessage, error), err error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(arguments, &all); err != nil {
		return "", nil, fmt.Errorf("the arguments cannot be edited: %w", err)
	}
	if json.Unmarshal(all["command"], &text) == nil {
		return text, func(edited string) (json.RawMessage, error) {
			value, err := json.Marshal(edited)
			if err != nil {
				return nil, err
			}
			all["command"] = value
			return json.Marshal(all)
		}, nil
	}
	var b bytes.Buffer
	if err := json.Indent(&b, arguments, "", "  "); err != nil {
		return "", nil, fmt.Errorf("the arguments cannot be edited: %w", err)
	}
	return b.String(), func(edited string) (json.RawMessage, error) { return json.RawMessage(edited), nil }, nil
}

// editor returns the person's editor, "" when the environment names none.
func (d *desk) editor() string {
	for _, name := range []string{"VISUAL", "EDITOR"} {
		if value, ok := d.lookup(name); ok && strings.TrimSpace(value) != "" {
			return value
		}
	}
	return ""
}

// inEditor has a text edited in a program, which has the terminal meanwhile and is ended with ctx.
func (d *desk) inEditor(ctx context.Context, editor, text string) (edited string, err error) {
	f, err := os.CreateTemp("", "dsh-edit-*.txt")
	if err != nil {
		return "", fmt.Errorf("make a file to edit: %w", err)
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	_, err = io.WriteString(f, text+"\n")
	if err = errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("write a file to edit: %w", err)
	}
	c := exec.CommandContext(ctx, "sh", "-c", editor+` "$1"`, "sh", f.Name())
	c.Stdin, c.Stdout, c.Stderr = d.in, d.out, d.out
	if out, ok := d.out.Writer.(*os.File); ok {
		c.Stdout, c.Stderr = out, out
	}
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("edit with %s: %w", editor, err)
	}
	content, err := os.ReadFile(f.Name())
	if err != nil {
		return "", fmt.Errorf("read what was edited: %w", err)
	}
	return string(content), nil
}
