package schema

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The tokens of a JSON text that is known to be valid.

func (c *checker) space() {
	for c.pos < len(c.src) && strings.IndexByte(whitespace, c.src[c.pos]) >= 0 {
		c.pos++
	}
}

// kind returns the kind of the value at pos; every number is an integer here.
func (c *checker) kind() kinds {
	switch c.src[c.pos] {
	case '{':
		return object
	case '[':
		return array
	case '"':
		return text
	case 't', 'f':
		return boolean
	case 'n':
		return null
	default:
		return integer
	}
}

func (c *checker) isNull() bool {
	c.space()
	return c.src[c.pos] == 'n'
}

// next steps over what stands before the next element of a list or an object.
// At the end it steps over that and reports false.
func (c *checker) next(end byte) bool {
	c.space()
	before := c.src[c.pos] // the opening bracket, a comma, or the end
	c.pos++
	if before == end {
		return false
	}
	c.space()
	if before != ',' && c.src[c.pos] == end {
		c.pos++
		return false
	}
	return true
}

// scalar steps over the scalar or key at pos and returns its text.
func (c *checker) scalar() string {
	c.space()
	start := c.pos
	if c.src[start] == '"' {
		for c.pos++; c.src[c.pos] != '"'; c.pos++ {
			if c.src[c.pos] == '\\' {
				c.pos++
			}
		}
		c.pos++
		return c.src[start:c.pos]
	}
	for c.pos < len(c.src) && strings.IndexByte(",]}"+whitespace, c.src[c.pos]) < 0 {
		c.pos++
	}
	return c.src[start:c.pos]
}

// skip steps over a value that already has a violation.
func (c *checker) skip() {
	start := len(c.out)
	c.value(&node{kinds: anything})
	c.out = c.out[:start]
}

// decodeString returns what a JSON string says.
func decodeString(token string) string {
	inner := token[1 : len(token)-1]
	if strings.IndexByte(inner, '\\') < 0 && utf8.ValidString(inner) {
		return inner
	}
	var s string
	if err := json.Unmarshal([]byte(token), &s); err != nil {
		return inner // cannot be: the text is valid
	}
	return s
}

// decodeScalar returns what encoding/json makes of a scalar; a list or an object is nil.
func decodeScalar(token []byte) any {
	if token[0] == '{' || token[0] == '[' {
		return nil
	}
	var v any
	if err := json.Unmarshal(token, &v); err != nil {
		return nil // a number out of range, which has its own violation
	}
	return v
}

// names is a set of the keys of one object.
type names struct {
	few  [16]string
	n    int
	many map[string]struct{} // all of them, once there are more than fit into few
}

func (n *names) has(name string) bool {
	if n.many != nil {
		_, ok := n.many[name]
		return ok
	}
	return slices.Contains(n.few[:n.n], name)
}

func (n *names) add(name string) bool {
	if n.has(name) {
		return false
	}
	switch {
	case n.many != nil:
		n.many[name] = struct{}{}
	case n.n < len(n.few):
		n.few[n.n] = name
		n.n++
	default:
		n.many = map[string]struct{}{name: {}}
		for _, s := range n.few {
			n.many[s] = struct{}{}
		}
	}
	return true
}

// clip shortens what a message quotes.
func clip(s string) string {
	const most = 100
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

func listed(values []any) string {
	texts := make([]string, len(values))
	for i, v := range values {
		b, err := json.Marshal(v)
		if err != nil {
			continue // cannot be: they were decoded from JSON
		}
		texts[i] = string(b)
	}
	return strings.Join(texts, ", ")
}

func quoted(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = strconv.Quote(n)
	}
	return out
}
