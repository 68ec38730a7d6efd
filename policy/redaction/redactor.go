package redaction

import (
	"cmp"
	"encoding/json"
	"io"
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// mark stands for a secret.
func mark(name string) string { return markBegin + name + markEnd }

const (
	markBegin = "‹secret:"
	markEnd   = "›"
)

// marked returns the first mark in a text, "" when there is none. JSON may escape it.
func marked(text string) string {
	for _, begin := range []string{markBegin, `\u2039secret:`} {
		_, rest, ok := strings.Cut(text, begin)
		if !ok {
			continue
		}
		n := strings.IndexFunc(rest, func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' && r != '-' && r != '.'
		})
		if n > 0 && (strings.HasPrefix(rest[n:], markEnd) || strings.HasPrefix(rest[n:], `\u203a`)) {
			return mark(rest[:n])
		}
	}
	return ""
}

// span is a part of a text that is a secret.
type span struct {
	from, to int
	name     string
}

// redactor finds secrets. It never changes.
type redactor struct {
	secrets []secret
	shapes  []shape
}

// newRedactor also finds values as they stand in JSON and in addresses.
func newRedactor(secrets []secret) *redactor {
	r := &redactor{shapes: shapes()}
	for _, s := range secrets {
		for _, value := range []string{s.value, inJSON(s.value), url.QueryEscape(s.value), url.PathEscape(s.value)} {
			if !slices.ContainsFunc(r.secrets, func(other secret) bool { return other.value == value }) {
				r.secrets = append(r.secrets, secret{s.name, value})
			}
		}
	}
	return r
}

func inJSON(value string) string {
	text, err := json.Marshal(value)
	if err != nil {
		return value
	}
	return string(text[1 : len(text)-1])
}

// spans returns the secrets in a text in order; none overlap.
func (r *redactor) spans(text string) []span {
	var all []span
	for _, s := range r.secrets {
		for from := 0; ; {
			i := strings.Index(text[from:], s.value)
			if i < 0 {
				break
			}
			all = append(all, span{from + i, from + i + len(s.value), s.name})
			from += i + len(s.value)
		}
	}
	for _, s := range r.shapes {
		all = s.find(text, all)
	}
	all = findPEM(text, all)
	all = findLogins(text, all)
	if len(all) < 2 {
		return all
	}
	slices.SortStableFunc(all, func(a, b span) int { return cmp.Or(a.from-b.from, b.to-a.to) })
	merged := all[:1]
	for _, s := range all[1:] {
		last := &merged[len(merged)-1]
		if s.from < last.to {
			last.to = max(last.to, s.to)
			continue
		}
		merged = append(merged, s)
	}
	return merged
}

// redact returns text with marks in place of what is in spans.
func redact(text string, spans []span) string {
	if len(spans) == 0 {
		return text
	}
	var b strings.Builder
	from := 0
	for _, s := range spans {
		b.WriteString(text[from:s.from])
		b.WriteString(mark(s.name))
		from = s.to
	}
	b.WriteString(text[from:])
	return b.String()
}

// Redact implements [policy.Redactor].
func (g *guard) Redact(text string) string {
	if text == "" {
		return text
	}
	return redact(text, g.secrets().spans(text))
}

// value redacts all strings of a value that is going to be JSON.
func (g *guard) value(v any) any {
	text, err := json.Marshal(v)
	if err != nil || len(g.secrets().spans(string(text))) == 0 {
		return v // the registry says that it is no JSON
	}
	var decoded any
	if err := json.Unmarshal(text, &decoded); err != nil {
		return v
	}
	return g.walk(decoded)
}

func (g *guard) walk(v any) any {
	switch v := v.(type) {
	case string:
		return g.Redact(v)
	case []any:
		for i := range v {
			v[i] = g.walk(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = g.walk(v[k])
		}
	}
	return v
}

// Writer implements [policy.Redactor].
func (g *guard) Writer(w io.Writer) io.WriteCloser { return &writer{redactor: g.secrets(), to: w} }

// writer holds back as much as the longest secret needs.
type writer struct {
	redactor *redactor
	to       io.Writer
	held     []byte
}

// writeAfter is how much is gathered before something is written, in bytes.
const writeAfter = 4 * mostSecret

func (w *writer) Write(p []byte) (int, error) {
	w.held = append(w.held, p...)
	if len(w.held) < writeAfter {
		return len(p), nil
	}
	return len(p), w.flush(len(w.held) - mostSecret)
}

// flush writes what is held up to about n: a secret that lies across n is written as a whole if it is over,
// and else kept.
func (w *writer) flush(n int) error {
	text := string(w.held)
	var before []span
	for _, s := range w.redactor.spans(text) {
		if s.from >= n {
			break
		}
		if s.to > n {
			n = s.to
			if s.to == len(text) && s.from > 0 {
				n = s.from // it may go on
				break
			}
		}
		before = append(before, s)
	}
	_, err := io.WriteString(w.to, redact(text[:n], before))
	w.held = append(w.held[:0], w.held[n:]...)
	return err
}

func (w *writer) Close() error {
	text := string(w.held)
	w.held = nil
	_, err := io.WriteString(w.to, redact(text, w.redactor.spans(text)))
	return err
}
