// Package title names a session after the first words that a person said in it, without
// asking a model. It is the plugin "session-title", without configuration:
//
//	# cordis.yml
//	- {id: session-title, plugin: session-title}
//
// A session that has a title keeps it. The listener runs on the goroutine of the agent.
package title

import (
	"context"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/session"
)

// Plugin gives sessions their titles.
var Plugin = plugin.Plugin[struct{}]{
	Name: "session-title",
	Doc:  "Names a session after the first words of its first prompt.",
	Start: func(_ context.Context, s *plugin.Scope, _ struct{}) error {
		_, err := agent.PreStep.On(s, listen, plugin.At(agent.Contribute))
		return err
	},
}

// listen names the session when the first words of a person enter a step.
func listen(ctx context.Context, in *agent.StepInput, next plugin.Next[*agent.StepInput, agent.Admission]) (agent.Admission, error) {
	admitted, err := next(ctx, in)
	if err != nil || admitted.Reject || len(admitted.Messages) == 0 {
		return admitted, err
	}
	s := in.Agent.Session()
	if s.State().Title != "" {
		return admitted, nil
	}
	for _, m := range admitted.Messages {
		if kind := m.Message.Source.Kind; kind != "" && kind != "user" {
			continue
		}
		if title := Of(llm.PlainText(m.Message.Content)); title != "" {
			_, err := s.Append(session.Draft{Type: session.Meta, Data: session.MetaData{Title: &title}})
			return admitted, err
		}
	}
	return admitted, nil
}

// longest is the length of a title in characters, the mark of omission included.
const longest = 60

// Of returns the title that a prompt gives: its first words on one line, at most 60
// characters, without anything that a terminal would take for more than text. It is
// "" when the prompt has no words.
func Of(prompt string) string {
	const enough = 4096 // bytes, to find the first words in
	if len(prompt) > enough {
		prompt = prompt[:enough]
	}
	var title []rune
	for word := range strings.FieldsSeq(clean(prompt)) {
		longer := []rune(word)
		if len(title) > 0 {
			longer = append(append(slices.Clip(title), ' '), longer...)
		}
		if len(longer) <= longest {
			title = longer
			continue
		}
		if len(title) == 0 {
			title = longer // one long word
		}
		return string(title[:min(len(title), longest-1)]) + "…"
	}
	return string(title)
}

// clean makes white space of control characters and drops the sequences that command
// terminals, and characters that have no width or turn the direction of writing.
func clean(s string) string {
	var b strings.Builder
	for s = strings.ToValidUTF8(s, ""); s != ""; {
		r, size := utf8.DecodeRuneInString(s)
		if r == '\x1b' {
			s = s[sequence(s):]
			b.WriteByte(' ')
			continue
		}
		s = s[size:]
		switch {
		case unicode.IsControl(r), unicode.IsSpace(r):
			b.WriteByte(' ')
		case unicode.Is(unicode.Cf, r), unicode.Is(unicode.Co, r), r == utf8.RuneError:
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// sequence returns how long the terminal's sequence is that s, which starts with
// ESC, begins with.
func sequence(s string) int {
	if len(s) < 2 {
		return len(s)
	}
	switch s[1] {
	case '[': // parameters, then a letter
		for i := 2; i < len(s); i++ {
			if s[i] >= 0x40 && s[i] <= 0x7e {
				return i + 1
			}
			if s[i] < 0x20 || s[i] >= 0x80 {
				return i
			}
		}
		return len(s)
	case ']', 'P', '_', '^', 'X': // a text, up to BEL or ESC \
		for i := 2; i < len(s); i++ {
			if s[i] == '\a' {
				return i + 1
			}
			if s[i] == '\x1b' && i+1 < len(s) && s[i+1] == '\\' {
				return i + 2
			}
		}
		return len(s)
	}
	if s[1] >= 0x80 || s[1] < 0x20 {
		return 1
	}
	return 2
}
