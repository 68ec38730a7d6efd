package hooks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// decision is what a hook says about what it is asked. A greater one is stricter and wins.
type decision int

const (
	silent decision = iota
	allow
	ask
	deny
)

func (d decision) String() string {
	switch d {
	case allow:
		return "allow"
	case ask:
		return "ask"
	case deny:
		return "deny"
	case silent:
	}
	return ""
}

// outcome is what one hook, or several of one event, came to.
type outcome struct {
	decision decision
	reasons  []string // of that decision
	context  []string // for the model
	updated  json.RawMessage
	halt     bool   // the turn is to be over
	why      string // the reason for that
	messages []string
	noise    bool // there was text beside the JSON
}

// add merges what another hook said: the strictest decision wins, with the reasons of all that made it.
func (o *outcome) add(other outcome) {
	switch {
	case other.decision > o.decision:
		o.decision, o.reasons = other.decision, other.reasons
	case other.decision == o.decision:
		o.reasons = append(o.reasons, other.reasons...)
	}
	o.context = append(o.context, other.context...)
	o.messages = append(o.messages, other.messages...)
	if other.updated != nil {
		o.updated = other.updated
	}
	if other.halt && !o.halt {
		o.halt, o.why = true, other.why
	}
	o.noise = o.noise || other.noise
}

// decide makes the decision d, unless it is stricter already.
func (o *outcome) decide(d decision, reasons []string) {
	if d >= o.decision {
		o.decision, o.reasons = d, reasons
	}
}

// reason returns why, or what stands for it when no hook said.
func (o *outcome) reason(otherwise string) string {
	if text := strings.Join(o.reasons, "\n\n"); text != "" {
		return text
	}
	return otherwise
}

// maxNoise bounds how many lines may look like JSON and be none: each may be long.
const maxNoise = 100

// answer is the JSON that a hook may write.
type answer struct {
	Continue *bool   `json:"continue"`
	Stop     *string `json:"stopReason"`
	Message  *string `json:"systemMessage"`
	Suppress *bool   `json:"suppressOutput"`
	Decision *string `json:"decision"`
	Reason   *string `json:"reason"`
	Context  *string `json:"additionalContext"`
	Specific *struct {
		Event    event           `json:"hookEventName"`
		Decision *string         `json:"permissionDecision"`
		Reason   *string         `json:"permissionDecisionReason"`
		Context  *string         `json:"additionalContext"`
		Updated  json.RawMessage `json:"updatedInput"`
		Request  *struct {
			Behavior string          `json:"behavior"`
			Message  string          `json:"message"`
			Updated  json.RawMessage `json:"updatedInput"`
			Halt     bool            `json:"interrupt"`
		} `json:"decision"`
	} `json:"hookSpecificOutput"`
}

// known reports whether a has any member that means something.
func (a *answer) known() bool { return *a != answer{} }

// understand reads what a hook wrote to its standard output and ended well.
//
// JSON objects count wherever a line begins with one, and objects with known members also within a line: all of
// them, so that no block is lost in what a profile or a debug line wrote before or behind it. What looks like an answer and
// is none is an error. Without any object, the text is context where the event takes such.
func understand(on event, stdout []byte) (outcome, error) {
	var o outcome
	rest := bytes.TrimSpace(bytes.TrimPrefix(stdout, []byte("\ufeff")))
	found, text, failed := false, rest, 0
	for len(rest) > 0 {
		line, after, _ := bytes.Cut(rest, []byte("\n"))
		at := bytes.IndexByte(line, '{')
		if at < 0 {
			o.noise, rest = true, after
			continue
		}
		first := len(bytes.TrimSpace(bytes.TrimPrefix(line[:at], []byte("\ufeff")))) == 0
		d := json.NewDecoder(bytes.NewReader(rest[at:]))
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			if failed++; first || speaks(line) || failed > maxNoise {
				return o, fmt.Errorf("its output is no JSON: %w: %.80q", err, line)
			}
			o.noise, rest = true, after
			continue
		}
		var a answer
		if err := json.Unmarshal(raw, &a); err != nil {
			return o, fmt.Errorf("its output is not understood: %w", err)
		}
		if first || a.known() {
			one, err := a.outcome(on)
			if err != nil {
				return o, err
			}
			found = true
			o.add(one)
		}
		o.noise = o.noise || !first
		rest = bytes.TrimLeft(rest[at+int(d.InputOffset()):], " \t\r\n")
	}
	if !found && (on == sessionStart || on == userPromptSubmit) {
		if o.noise = false; len(text) > 0 {
			o.context = []string{string(bytes.ToValidUTF8(text, []byte("\ufffd")))}
		}
	}
	return o, nil
}

// speaks reports whether a line that is no JSON may have been meant as an answer.
func speaks(line []byte) bool {
	for _, member := range []string{`"decision"`, `"permissionDecision"`, `"continue"`, `"hookSpecificOutput"`} {
		if bytes.Contains(line, []byte(member)) {
			return true
		}
	}
	return false
}

func (a *answer) outcome(on event) (outcome, error) {
	var o outcome
	said := func(text *string) []string {
		if text == nil || *text == "" {
			return nil
		}
		return []string{*text}
	}
	if a.Continue != nil && !*a.Continue {
		o.halt = true
		o.why = strings.Join(said(a.Stop), "")
	}
	o.messages = said(a.Message)
	o.context = said(a.Context)
	if a.Decision != nil {
		d, err := decisionOf(*a.Decision)
		if err != nil {
			return outcome{}, fmt.Errorf("its decision is not understood: %w", err)
		}
		o.decision, o.reasons = d, said(a.Reason)
	}
	s := a.Specific
	if s == nil {
		return o, nil
	}
	if s.Event != "" && s.Event != on {
		return outcome{}, fmt.Errorf("it answers %.40q and was asked about %s", s.Event, on)
	}
	o.context = append(o.context, said(s.Context)...)
	if s.Decision != nil {
		d, err := decisionOf(*s.Decision)
		if err != nil {
			return outcome{}, fmt.Errorf("its permissionDecision is not understood: %w", err)
		}
		reasons := said(s.Reason)
		if reasons == nil {
			reasons = said(a.Reason)
		}
		o.decide(d, reasons)
	}
	if given(s.Updated) {
		o.updated = s.Updated
	}
	if r := s.Request; r != nil {
		d, err := decisionOf(r.Behavior)
		if err != nil {
			return outcome{}, fmt.Errorf("its behavior is not understood: %w", err)
		}
		o.decide(d, said(&r.Message))
		if given(r.Updated) {
			o.updated = r.Updated
		}
		if r.Halt && d == deny && !o.halt {
			o.halt, o.why = true, r.Message
		}
	}
	return o, nil
}

func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// decisionOf reads a decision in any of the spellings that were ever documented.
func decisionOf(text string) (decision, error) {
	switch strings.ToLower(text) {
	case "":
		return silent, nil
	case "approve", "allow":
		return allow, nil
	case "ask":
		return ask, nil
	case "block", "deny":
		return deny, nil
	}
	return silent, fmt.Errorf("%.40q is none of allow, ask and deny", text)
}
