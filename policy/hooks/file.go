package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// event is the name of an occasion for hooks.
type event string

const (
	preToolUse         event = "PreToolUse"
	permissionRequest  event = "PermissionRequest"
	postToolUse        event = "PostToolUse"
	postToolUseFailure event = "PostToolUseFailure"
	userPromptSubmit   event = "UserPromptSubmit"
	sessionStart       event = "SessionStart"
	sessionEnd         event = "SessionEnd"
	stop               event = "Stop"
)

// exists reports whether the harness has the occasion.
func (e event) exists() bool {
	switch e {
	case preToolUse, permissionRequest, postToolUse, postToolUseFailure, userPromptSubmit, sessionStart, sessionEnd, stop:
		return true
	}
	return false
}

// matches reports whether hooks of the event are chosen by a matcher.
func (e event) matches() bool { return e != userPromptSubmit && e != stop }

// defaultTimeout bounds a hook that does not say how long it takes.
const defaultTimeout = 600 * time.Second

// maxTimeout keeps what a file says within what a duration can hold.
const maxTimeout = 24 * time.Hour

// hook is one command of a file.
type hook struct {
	event      event
	match      func(subject string) bool
	command    string
	args       []string // when not nil, the command is a program, and no shell reads it
	timeout    time.Duration
	background bool // nobody waits for it
	onFailure  OnFailure
	unconfined bool
	style      Style
	file       string // for people
	broken     error  // the file cannot be used, and its hooks are to block then
}

// origin is where a file comes from and how it is read.
type origin struct {
	name      string // for people
	style     Style
	onFailure OnFailure
	own       bool // the person's own, who may let a hook run without a sandbox
}

// entry is a hook as files spell it.
type entry struct {
	Type       string    `json:"type"`
	Command    string    `json:"command"`
	Args       []string  `json:"args"`
	Timeout    *float64  `json:"timeout"` // in seconds
	TimeoutSec *float64  `json:"timeoutSec"`
	Async      bool      `json:"async"`
	OnFailure  OnFailure `json:"on_failure"`
	OnFailure2 OnFailure `json:"onFailure"` // Claude Code's spelling
	Unconfined bool      `json:"unconfined"`
	If         string    `json:"if"`
}

type group struct {
	Matcher string  `json:"matcher"`
	Hooks   []entry `json:"hooks"`
}

// parse reads a hook file: an object whose member "hooks" maps events to groups, or that map itself. Notes
// tell what of the file is not used. An error rejects all of it.
func parse(o origin, content []byte) (hooks []*hook, notes []string, err error) {
	content = bytes.TrimPrefix(content, []byte("\ufeff"))
	var file struct {
		Hooks   json.RawMessage `json:"hooks"`
		Disable bool            `json:"disableAllHooks"`
	}
	if err := json.Unmarshal(content, &file); err != nil {
		return nil, nil, fmt.Errorf("read the hooks in %s: %w", o.name, err)
	}
	if file.Disable {
		return nil, []string{o.name + ": disableAllHooks is set, so its hooks are not run"}, nil
	}
	events := map[string]json.RawMessage{}
	switch {
	case file.Hooks != nil:
		err = json.Unmarshal(file.Hooks, &events)
	case !o.settings():
		err = json.Unmarshal(content, &events)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the hooks in %s: %w", o.name, err)
	}
	names := make([]string, 0, len(events))
	for e := range events {
		names = append(names, e)
	}
	slices.Sort(names) // a map has no order, and notes are to come in one
	for _, e := range names {
		if bare := file.Hooks == nil; bare && !bytes.HasPrefix(bytes.TrimSpace(events[e]), []byte("[")) {
			continue // a description, a $schema
		}
		if !event(e).exists() {
			notes = append(notes, fmt.Sprintf("%s: there is no event %.60q here; its hooks are not run", o.name, e))
			continue
		}
		var groups []group
		if err := json.Unmarshal(events[e], &groups); err != nil {
			return nil, nil, fmt.Errorf("read the hooks in %s: %s: %w", o.name, e, err)
		}
		for _, g := range groups {
			match, err := matcher(o.style, event(e), g.Matcher)
			if err != nil {
				return nil, nil, fmt.Errorf("read the hooks in %s: %s: %w", o.name, e, err)
			}
			for _, entry := range g.Hooks {
				k, note, err := entry.hook(o, event(e), match)
				if err != nil {
					return nil, nil, fmt.Errorf("read the hooks in %s: %s: %w", o.name, e, err)
				}
				if note != "" {
					notes = append(notes, fmt.Sprintf("%s: %s: %s", o.name, e, note))
				}
				if k != nil {
					hooks = append(hooks, k)
				}
			}
		}
	}
	return hooks, notes, nil
}

// settings reports whether the file holds much beside hooks, so that it is no bare map of them.
func (o origin) settings() bool {
	return strings.HasSuffix(o.name, "settings.json") || strings.HasSuffix(o.name, "settings.local.json")
}

// hook checks an entry. Without an error and a hook, the note tells why it is not run.
func (e *entry) hook(o origin, on event, match func(string) bool) (k *hook, note string, err error) {
	if e.Type != "command" {
		return nil, fmt.Sprintf("a hook of the type %.40q is not supported and not run; only command is", e.Type), nil
	}
	if strings.TrimSpace(e.Command) == "" {
		return nil, "", errors.New("a hook has no command")
	}
	if e.Async && o.style == Codex {
		return nil, fmt.Sprintf("%.80q is async and not run, as in Codex", e.Command), nil
	}
	k = &hook{
		event: on, match: match, command: e.Command, args: e.Args, timeout: defaultTimeout, background: e.Async,
		onFailure: o.onFailure, style: o.style, file: o.name,
	}
	for _, seconds := range []*float64{e.TimeoutSec, e.Timeout} {
		switch {
		case seconds == nil:
		case *seconds <= 0:
			return nil, "", fmt.Errorf("timeout: %v is not a positive number of seconds", *seconds)
		default:
			k.timeout = time.Duration(min(*seconds, maxTimeout.Seconds()) * float64(time.Second))
		}
	}
	for _, said := range []OnFailure{e.OnFailure2, e.OnFailure} {
		if said != "" {
			k.onFailure = said
		}
	}
	if err := k.onFailure.validate(); err != nil {
		return nil, "", err
	}
	if e.If != "" {
		note = fmt.Sprintf("%.80q has a condition (if), which is not supported: it is run at every match", e.Command)
	}
	if e.Unconfined {
		if k.unconfined = o.own; !o.own {
			note = fmt.Sprintf("%.80q wants to run unconfined, which only the person's own files may say: it is run in the sandbox", e.Command)
		}
	}
	return k, note, nil
}

// matcher returns what an event is about that the hooks of a group are run for. Claude Code takes a text of nothing
// but names and bars for a list of names, and anything else for a regular expression, which Codex always does.
func matcher(style Style, on event, text string) (func(subject string) bool, error) {
	if text == "" || text == "*" || !on.matches() {
		return func(string) bool { return true }, nil
	}
	if style == Claude && !strings.ContainsFunc(text, func(r rune) bool { return r != '|' && !isWord(r) }) {
		names := strings.Split(text, "|")
		return func(subject string) bool { return slices.Contains(names, subject) }, nil
	}
	expression, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("matcher: %w", err)
	}
	return expression.MatchString, nil
}

func isWord(r rune) bool {
	return r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}
