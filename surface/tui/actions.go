package tui

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dsh-harness/dsh/internal/nearest"
	"github.com/dsh-harness/dsh/protocol"
)

// Action is something that a key does.
type Action struct {
	Name string
	Keys []string // that do it unless others are chosen
	Doc  string   // one sentence
}

type action struct {
	Action
	edits bool // it changes the prompt, or moves in it
	run   func(u *ui)
}

// Actions lists what keys do, for the documentation and for who chooses other keys.
func Actions() []Action {
	var all []Action
	for _, a := range actions() {
		all = append(all, a.Action)
	}
	return all
}

func actions() []action {
	does := func(name, doc string, run func(u *ui), keys ...string) action {
		return action{Action{name, keys, doc}, false, run}
	}
	edits := func(name, doc string, run func(e *editor), keys ...string) action {
		return action{Action{name, keys, doc}, true, func(u *ui) { run(&u.prompt) }}
	}
	moves := func(name, doc string, to func(e *editor) int, keys ...string) action {
		return edits(name, doc, func(e *editor) { e.at = to(e) }, keys...)
	}
	cuts := func(name, doc string, to func(e *editor) int, keys ...string) action {
		return edits(name, doc, func(e *editor) { e.cut(to(e)) }, keys...)
	}
	// drops is a cut that does not replace what was cut last.
	drops := func(to func(e *editor) int) func(e *editor) {
		return func(e *editor) {
			kept := e.killed
			e.cut(to(e))
			e.killed = kept
		}
	}
	line := func(by int) func(u *ui) {
		return func(u *ui) {
			if !u.prompt.vertical(by) {
				u.recall(by)
			}
		}
	}
	return []action{
		does("send", "Send; while a turn runs, join it", (*ui).enter, "enter"),
		does("send-later", "Send as the next prompt, when the turn has ended", func(u *ui) { u.send(false) }, "alt+enter"),
		edits("new-line", "New line; a backslash and enter is one, too", func(e *editor) { e.insert("\n") }, "shift+enter", "ctrl+j", "ctrl+enter"),
		does("interrupt", "Interrupt; what waits comes back. Twice: back to before a prompt", (*ui).interrupt, "esc"),
		does("clear", "Clear, or interrupt; twice: leave", (*ui).clearOrQuit, "ctrl+c"),
		does("leave", "Leave; delete, when something is written", (*ui).leave, "ctrl+d"),
		does("next-mode", "Next mode", (*ui).nextMode, "shift+tab"),
		does("details", "All of the call that ended last", (*ui).details, "ctrl+o"),
		does("transcript", "The whole session in PAGER, full screen, with search", (*ui).transcript, "f2"),
		does("thought", "The last thought", (*ui).showThought, "ctrl+t"),
		does("history", "Find an earlier prompt", (*ui).pickHistory, "ctrl+r"),
		does("editor", "Write the prompt in VISUAL or EDITOR", (*ui).external, "ctrl+g"),
		does("redraw", "Draw anew", func(u *ui) { u.failed = u.s.Resize(u.s.Width(), u.s.Height()) }, "ctrl+l"),
		does("scroll-up", "Back, on a full screen", func(u *ui) { u.s.Scroll(max(u.s.Height()/2, 1)) }, "pgup"),
		does("scroll-down", "Forth, on a full screen", func(u *ui) { u.s.Scroll(-max(u.s.Height()/2, 1)) }, "pgdown"),
		does("suspend", "To the shell, and back with fg", (*ui).suspend, "ctrl+z"),
		{Action{"up", []string{"up", "ctrl+p"}, "Up, and to earlier prompts"}, true, line(-1)},
		{Action{"down", []string{"down", "ctrl+n"}, "Down, and to later prompts"}, true, line(1)},
		moves("left", "Left", (*editor).before, "left", "ctrl+b"),
		moves("right", "Right", (*editor).after, "right", "ctrl+f"),
		moves("word-left", "A word left", (*editor).wordBefore, "alt+left", "ctrl+left", "alt+b"),
		moves("word-right", "A word right", (*editor).wordAfter, "alt+right", "ctrl+right", "alt+f"),
		moves("line-start", "To the start of the line", (*editor).lineStart, "home", "ctrl+a"),
		moves("line-end", "To the end of the line", (*editor).lineEnd, "end", "ctrl+e"),
		edits("backspace", "Delete what is before the cursor", drops((*editor).before), "backspace", "ctrl+h"),
		edits("delete", "Delete what is behind the cursor", drops((*editor).after), "delete"),
		cuts("cut-word", "Cut the word before the cursor", (*editor).wordBefore, "ctrl+w", "alt+backspace"),
		cuts("cut-word-right", "Cut the word behind the cursor", (*editor).wordAfter, "alt+d"),
		cuts("cut-to-start", "Cut to the start of the line", (*editor).lineStart, "ctrl+u"),
		cuts("cut-to-end", "Cut to the end of the line", (*editor).lineEnd, "ctrl+k"),
		edits("put-back", "Put back what was cut last", func(e *editor) { e.insert(e.killed) }, "ctrl+y"),
	}
}

// bind says which key does what. An error names everything that is wrong with what was chosen.
func bind(chosen map[string][]string) (map[string]action, error) {
	all := actions()
	var names []string
	for _, a := range all {
		names = append(names, a.Name)
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(chosen)) {
		if !slices.Contains(names, name) {
			err := fmt.Errorf("keys: there is no action %q", name)
			if best := nearest.Name(name, names); best != "" {
				err = fmt.Errorf("%w; did you mean %s?", err, best)
			}
			errs = append(errs, err)
		}
		for _, key := range chosen[name] {
			if err := checkKey(key); err != nil {
				errs = append(errs, fmt.Errorf("keys: %s: %w", name, err))
			}
		}
	}
	bound := map[string]action{}
	taken := map[string]bool{} // by a choice, so that the action that had it gives it up
	for _, a := range all {
		for _, key := range chosen[a.Name] {
			if taken[key] {
				errs = append(errs, fmt.Errorf("keys: %s is chosen for %s and for %s", key, bound[key].Name, a.Name))
			}
			taken[key] = true
			bound[key] = a
		}
	}
	for _, a := range all {
		if _, other := chosen[a.Name]; other {
			continue
		}
		for _, key := range a.Keys {
			if !taken[key] {
				bound[key] = a
			}
		}
	}
	return bound, errors.Join(errs...)
}

// checkKey finds names of keys that no keyboard sends.
func checkKey(key string) error {
	parts := strings.Split(key, "+")
	if strings.HasSuffix(key, "++") || key == "+" {
		parts = append(strings.Split(strings.TrimSuffix(strings.TrimSuffix(key, "+"), "+"), "+"), "+")
	}
	base := parts[len(parts)-1]
	for _, m := range parts[:len(parts)-1] {
		if m != "" && !slices.Contains([]string{"ctrl", "alt", "shift", "meta", "super", "hyper"}, m) {
			return fmt.Errorf("there is no key %q: %q is none of ctrl, alt, shift, meta, super and hyper", key, m)
		}
	}
	known := []string{"enter", "tab", "esc", "space", "up", "down", "left", "right", "home", "end", "pgup", "pgdown", "backspace", "delete", "insert",
		"f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "f9", "f10", "f11", "f12"}
	if utf8.RuneCountInString(base) == 1 || slices.Contains(known, base) {
		return nil
	}
	err := fmt.Errorf("there is no key %q", key)
	if best := nearest.Name(base, known); best != "" {
		err = fmt.Errorf("%w; did you mean %s?", err, best)
	}
	return err
}

// enter sends what is written, or ends the reason of a denial.
func (u *ui) enter() {
	switch {
	case u.denying:
		reason := u.prompt.whole()
		u.prompt.set("")
		u.denying = false
		if len(u.questions) > 0 {
			u.answerQuestion(protocol.AnswerParams{Reason: reason})
		}
	case strings.HasSuffix(u.prompt.text[:u.prompt.at], "\\"):
		u.prompt.cut(u.prompt.at - 1)
		u.prompt.insert("\n")
	default:
		u.send(u.running)
	}
}

// leave leaves, unless something is written.
func (u *ui) leave() {
	if u.prompt.text != "" {
		u.prompt.cut(u.prompt.after())
		u.complete()
		return
	}
	u.left = true
	u.quit = time.Time{}
}
