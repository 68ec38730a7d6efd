package tui

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	uv "github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/term"

	"github.com/dsh-harness/dsh/internal/cells"
	"github.com/dsh-harness/dsh/protocol"
	"github.com/dsh-harness/dsh/surface/client"
)

// twice is how soon a key has to be pressed again to mean it.
const twice = 2 * time.Second

// key takes what came from the terminal.
func (u *ui) key(event uv.Event) {
	switch e := event.(type) {
	case uv.FocusEvent:
		u.focused = true
	case uv.BlurEvent:
		u.focused = false
	case uv.PasteEvent:
		u.message = ""
		u.prompt.put(e.Content)
		u.complete()
	case uv.KeyPressEvent:
		u.message = ""
		u.press(uv.Key(e))
	}
}

// press takes a key.
func (u *ui) press(k uv.Key) {
	name := k.Keystroke()
	switch {
	case u.popup != nil && u.inPopup(name):
		return
	case len(u.questions) > 0 && !u.denying && u.prompt.text == "" && u.inQuestion(name):
		return
	}
	before := u.prompt.text
	switch a, bound := u.bound[name]; {
	case bound:
		a.run(u)
		if !a.edits {
			return
		}
	case k.Text == "":
		return
	default:
		u.prompt.insert(k.Text)
	}
	if u.prompt.text != before || u.popup != nil {
		u.complete()
	}
}

func (u *ui) inPopup(name string) bool {
	p := u.popup
	switch name {
	case "up", "ctrl+p":
		p.move(-1)
	case "down", "ctrl+n":
		p.move(1)
	case "esc":
		u.popup = nil
	case "tab", "enter":
		i := p.items[p.at]
		u.popup = nil
		if name == "tab" && i.complete != nil {
			i.complete(u)
		} else {
			i.choose(u)
		}
	default:
		if p.picker {
			u.popup = nil
		}
		return false
	}
	return true
}

func (u *ui) inQuestion(name string) bool {
	q := u.questions[0]
	rule := ""
	if len(q.Rules) > 0 {
		rule = q.Rules[0]
	}
	switch {
	case name == "y":
		u.answerQuestion(protocol.AnswerParams{Allow: true})
	case name == "s" && rule != "":
		u.answerQuestion(protocol.AnswerParams{Allow: true, Remember: "session", Rule: rule})
	case name == "a" && rule != "":
		u.answerQuestion(protocol.AnswerParams{Allow: true, Remember: "user", Rule: rule})
	case name == "n":
		u.answerQuestion(protocol.AnswerParams{})
	case name == "r":
		u.denying = true
	default:
		return false
	}
	return true
}

// recall goes through the history.
func (u *ui) recall(by int) {
	to := u.past + by
	if to < 0 || to > len(u.history) {
		return
	}
	if u.past == len(u.history) {
		u.draft = u.prompt.whole()
	}
	u.past = to
	if to == len(u.history) {
		u.prompt.set(u.draft)
	} else {
		u.prompt.set(u.history[to])
	}
}

// interrupt ends the turn. What waited comes back into the prompt, so that nothing that was written is lost. Twice, when nothing runs, is the way back.
func (u *ui) interrupt() {
	switch {
	case u.denying:
		u.denying = false
		u.prompt.set("")
	case u.running || len(u.questions) > 0:
		var waiting []string
		for _, p := range u.pending {
			waiting = append(waiting, p.Text)
		}
		if len(waiting) > 0 && u.prompt.text == "" {
			u.prompt.set(strings.Join(waiting, "\n"))
		}
		id := u.session
		u.task(func(ctx context.Context) func() {
			err := u.c.Notify(ctx, protocol.NoteCancel, protocol.SessionParams{SessionID: id})
			return func() {
				if err != nil {
					u.problem(err)
				}
			}
		})
	case u.prompt.text == "" && time.Since(u.escape) < twice:
		u.pickTurn()
	case u.prompt.text == "":
		u.escape = time.Now()
		u.message = "esc again: back to before a prompt"
	}
}

func (u *ui) clearOrQuit() {
	switch {
	case u.prompt.text != "" || u.denying:
		u.draft = u.prompt.whole()
		u.prompt.set("")
		u.denying, u.popup = false, nil
		u.past = len(u.history)
	case u.running && time.Since(u.quit) >= twice:
		u.quit = time.Now()
		u.interrupt()
		u.message = "ctrl+c again: leave"
	case time.Since(u.quit) < twice:
		u.left = true
	default:
		u.quit = time.Now()
		u.message = "ctrl+c again: leave"
	}
}

func (u *ui) nextMode() {
	for i, m := range u.modes {
		if m == u.mode {
			next := u.modes[(i+1)%len(u.modes)]
			ask(u, protocol.MethodSessionSetMode, protocol.SetModeParams{SessionID: u.session, ModeID: next}, func(struct{}) { u.mode = next })
			return
		}
	}
}

func (u *ui) showThought() {
	text := u.lastThought
	if u.thought.Len() > 0 {
		text = u.thought.String()
	}
	if text == "" {
		u.message = "there was no thought yet"
		return
	}
	u.print(cells.Styled("thought:", cells.Style{Dim: true, Italic: true}))
	u.block(text, cells.Style{Dim: true})
}

// send sends what is written: to the running turn when steer is set, otherwise as the next prompt.
func (u *ui) send(steer bool) {
	text := strings.TrimSpace(u.prompt.whole())
	if text == "" || u.session == "" {
		return
	}
	u.prompt.set("")
	u.popup = nil
	if n := len(u.history); n == 0 || u.history[n-1] != text {
		u.history = append(u.history, text)
		if u.o.Said != nil && !strings.HasPrefix(text, "/") {
			u.o.Said(text)
		}
	}
	u.past = len(u.history)
	switch {
	case strings.HasPrefix(text, "!"):
		u.shell(strings.TrimSpace(text[1:]))
	case strings.HasPrefix(text, "/"):
		u.command(text[1:])
	default:
		u.deliver(text, steer)
	}
}

func (u *ui) deliver(text string, steer bool) {
	method := protocol.MethodEnqueue
	if steer {
		method = protocol.MethodSteer
	}
	p := protocol.DeliverParams{SessionID: u.session, Prompt: []protocol.ContentBlock{protocol.Text(text)}}
	u.task(func(ctx context.Context) func() {
		err := u.c.Call(ctx, method, p, nil)
		return func() {
			if err != nil {
				u.problem(err)
				if u.prompt.text == "" {
					u.prompt.set(text) // it is not lost
				}
			}
		}
	})
}

// shell runs a command line of the person.
func (u *ui) shell(line string) {
	if line == "" {
		return
	}
	u.shells++
	u.print(append(cells.Styled("! ", cells.Style{Fg: cells.Yellow, Bold: true}), cells.Plain(line)...))
	id := u.session
	u.tasks.Go(func() { // it may take longer than a call
		r, err := client.Ask[protocol.ShellResult](u.ctx, u.c, protocol.MethodShell, protocol.ShellParams{SessionID: id, Command: line})
		then := func() {
			u.shells--
			for id := range u.calls {
				if strings.HasPrefix(id, "shell-") && u.shells == 0 {
					delete(u.calls, id)
				}
			}
			if err != nil {
				u.problem(err)
				return
			}
			if text := strings.TrimRight(r.Output, "\n"); text != "" {
				u.block(text, cells.Style{})
			}
			if r.Code != 0 {
				u.print(cells.Styled(fmt.Sprintf("    (exit code %d)", r.Code), cells.Style{Fg: cells.Red}))
			}
		}
		select {
		case u.results <- then:
		case <-u.ctx.Done():
		}
	})
}

// command runs a slash command.
func (u *ui) command(line string) {
	name, arguments, _ := strings.Cut(line, " ")
	arguments = strings.TrimSpace(arguments)
	for _, c := range own() {
		if c.name == name {
			c.run(u, arguments)
			return
		}
	}
	p := protocol.RunCommandParams{SessionID: u.session, Name: name, Arguments: arguments}
	ask(u, protocol.MethodRunCommand, p, func(r protocol.RunCommandResult) {
		if r.Text != "" {
			var m markdown
			u.print(m.write(r.Text+"\n", u.width())...)
		}
		u.refresh()
	})
}

// refresh asks what is chosen now.
func (u *ui) refresh() {
	p := protocol.OpenParams{SessionID: u.session, Cwd: u.o.Dir, MCPServers: []protocol.MCPServer{}}
	ask(u, protocol.MethodSessionResume, p, func(r protocol.OpenResult) {
		u.choose(r.ConfigOptions)
		if r.Modes != nil {
			u.mode = r.Modes.CurrentModeID
		}
	})
}

// external has the prompt written in an editor of the person's choice.
func (u *ui) external() {
	program := u.o.Getenv("VISUAL")
	if program == "" {
		program = u.o.Getenv("EDITOR")
	}
	if program == "" {
		u.message = "set EDITOR to write the prompt in it"
		return
	}
	text, err := u.written(program)
	if err != nil {
		u.problem(fmt.Errorf("write the prompt with %s: %w", program, err))
		return
	}
	u.prompt.set(strings.TrimRight(text, "\n"))
}

func (u *ui) written(program string) (text string, err error) {
	f, err := os.CreateTemp("", "dsh-prompt-*.md")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	_, err = f.WriteString(u.prompt.whole())
	if err = errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	words := strings.Fields(program)
	err = u.outside(func() error {
		c := exec.CommandContext(u.ctx, words[0], append(words[1:], f.Name())...)
		c.Stdin, c.Stdout, c.Stderr = u.o.In, u.o.Out, u.o.Out
		return c.Run()
	})
	if err != nil {
		return "", err
	}
	raw, err := os.ReadFile(f.Name())
	return string(raw), err
}

// outside calls f with the terminal as it was before the interface.
func (u *ui) outside(f func() error) error {
	u.stopKeys()
	err := errors.Join(u.s.Leave(), term.Restore(u.o.In.Fd(), u.cooked))
	if err == nil {
		err = f()
	}
	_, raw := term.MakeRaw(u.o.In.Fd())
	if raw = errors.Join(raw, u.s.Return(), u.startKeys()); raw != nil {
		u.failed = raw
	}
	if width, height, sized := term.GetSize(u.o.Out.Fd()); sized == nil && width > 0 && height > 0 && (width != u.s.Width() || height != u.s.Height()) {
		err = errors.Join(err, u.s.Resize(width, height))
	}
	return err
}
