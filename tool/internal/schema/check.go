package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dsh-harness/dsh/internal/nearest"
)

// Bounds of the arguments of one call.
const (
	MaxSize  = 4 << 20 // bytes
	MaxDepth = 256     // nested lists and objects

	maxViolations = 50 // that are named; the others are counted
)

// InvalidError names everything that is wrong with the arguments of a call, one
// violation an element, each one line that the model can mend.
type InvalidError struct{ Violations []string }

func (e *InvalidError) Error() string { return strings.Join(e.Violations, "; ") }

// Check returns raw, the string that a model sent, in canonical spelling: compact
// JSON of an object that fits the schema and decodes into the Go type it was
// derived from. Empty arguments mean the empty object. Where the schema wants an
// object or a list, a string that holds exactly that is unwrapped, once. Null
// stands for an absent optional member. Duplicate keys are refused, since
// readers disagree about which one counts. The error is an [*InvalidError].
//
// Check is total: any string gets an answer, in time linear in its length.
func (s *Schema) Check(raw string) (json.RawMessage, error) {
	if strings.Trim(raw, whitespace) == "" {
		raw = "{}"
	}
	if err := wellFormed(raw); err != nil {
		return nil, &InvalidError{[]string{err.Error()}}
	}
	c := &checker{src: raw, out: make([]byte, 0, len(raw))}
	c.value(s.root)
	if len(c.violations) == 0 {
		return c.out, nil
	}
	if more := c.count - len(c.violations); more > 0 {
		c.violations = append(c.violations, fmt.Sprintf("and %d more", more))
	}
	return nil, &InvalidError{c.violations}
}

const whitespace = " \t\r\n"

// wellFormed reports why s is no JSON text within the bounds.
func wellFormed(s string) error {
	if len(s) > MaxSize {
		return fmt.Errorf("the arguments are %d bytes long, at most %d are allowed", len(s), MaxSize)
	}
	if at := tooDeep(s); at >= 0 {
		return fmt.Errorf("the arguments nest deeper than %d levels at byte %d", MaxDepth, at)
	}
	if json.Valid([]byte(s)) {
		return nil
	}
	var ignored json.RawMessage
	err := json.Unmarshal([]byte(s), &ignored) // says what is wrong, and where
	at := int64(len(s))
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		at = syntax.Offset
	}
	return fmt.Errorf("the arguments are not valid JSON: %w, at byte %d of %d", err, at, len(s))
}

// tooDeep returns where s nests deeper than allowed, or -1.
func tooDeep(s string) int {
	depth, quoted := 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > MaxDepth {
				return i
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return -1
}

// checker walks src, which is valid JSON, beside its schema and writes the
// canonical text. After a violation what it writes is not used.
type checker struct {
	src        string
	pos        int
	out        []byte
	path       []step
	violations []string
	count      int
}

// step is one step of the path to a value: a member, or an element.
type step struct {
	name  string
	index int // of an element, -1 for a member
}

func (c *checker) value(n *node) {
	c.space()
	kind := c.kind()
	if n.kinds&kind == 0 {
		c.misfit(n, kind)
		return
	}
	start := len(c.out)
	switch {
	case kind == object:
		c.object(n)
	case kind == array:
		c.list(n)
	case kind == integer:
		c.number(n)
	default:
		c.out = append(c.out, c.scalar()...)
	}
	if n.enum != nil && !slices.Contains(n.enum, decodeScalar(c.out[start:])) {
		c.violate("must be one of %s, not %s", listed(n.enum), clip(string(c.out[start:])))
	}
}

// misfit handles a value of a kind that the schema does not want.
func (c *checker) misfit(n *node, kind kinds) {
	switch {
	case kind == text && c.unwrap(n):
	case kind == null && n.nilable:
		c.scalar()
		if n.kinds == array {
			c.out = append(c.out, "[]"...)
		} else {
			c.out = append(c.out, "{}"...)
		}
	default:
		if kind == integer {
			kind = number
		}
		c.violate("must be %s, not %s", n.kinds, kind)
		c.skip()
	}
}

// unwrap checks what the string at pos holds in its place when that is an object
// or a list as n wants it, and reports whether it was.
func (c *checker) unwrap(n *node) bool {
	src, start := c.src, c.pos
	held := strings.Trim(decodeString(c.scalar()), whitespace)
	end := c.pos
	fits := n.kinds&object != 0 && strings.HasPrefix(held, "{") || n.kinds&array != 0 && strings.HasPrefix(held, "[")
	if !fits || wellFormed(held) != nil {
		c.pos = start
		return false
	}
	c.src, c.pos = held, 0
	c.value(n)
	c.src, c.pos = src, end
	return true
}

func (c *checker) object(n *node) {
	var seen names
	c.out = append(c.out, '{')
	for c.next('}') {
		start := len(c.out)
		if c.out[start-1] != '{' {
			c.out = append(c.out, ',')
		}
		token := c.scalar()
		key := decodeString(token)
		c.path = append(c.path, step{key, -1})
		c.out = append(append(c.out, token...), ':')
		c.space()
		c.pos++ // the colon
		if !seen.add(key) {
			c.violate("is there twice")
			c.skip()
		} else if !c.memberValue(n, key) {
			c.out = c.out[:start]
		}
		c.path = c.path[:len(c.path)-1]
	}
	c.out = append(c.out, '}')
	for _, m := range n.members {
		if m.required && !seen.has(m.name) {
			c.path = append(c.path, step{m.name, -1})
			c.violate("is missing")
			c.path = c.path[:len(c.path)-1]
		}
	}
}

// memberValue checks the value of a member and reports whether it is kept.
func (c *checker) memberValue(n *node, key string) bool {
	m := n.member(key)
	switch {
	case m != nil && !m.required && m.node.kinds&null == 0 && c.isNull():
		c.skip()
		return false
	case m != nil:
		c.value(m.node)
	case n.extra != nil:
		c.value(n.extra)
	case n.kinds == anything:
		c.value(n)
	default:
		c.unknown(n, key)
		c.skip()
	}
	return true
}

func (c *checker) unknown(n *node, key string) {
	switch near := nearest.Name(key, n.names()); {
	case near != "":
		c.violate("is not known; did you mean %q?", near)
	case len(n.members) == 0:
		c.violate("is not known; there are no members")
	default:
		c.violate("is not known; there are only %s", strings.Join(quoted(n.names()), ", "))
	}
}

func (c *checker) list(n *node) {
	items := n.items
	if items == nil {
		items = &node{kinds: anything}
	}
	c.out = append(c.out, '[')
	for i := 0; c.next(']'); i++ {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		c.path = append(c.path, step{index: i})
		c.value(items)
		c.path = c.path[:len(c.path)-1]
	}
	c.out = append(c.out, ']')
}

// number checks a number and spells an integer so that Go decodes it into one.
func (c *checker) number(n *node) {
	token := c.scalar()
	if n.kinds&number != 0 {
		bits := n.bits
		if bits == 0 {
			bits = 64
		}
		if _, err := strconv.ParseFloat(token, bits); err != nil {
			c.violate("must be a number of ordinary size, not %s", clip(token))
		}
		c.out = append(c.out, token...)
		return
	}
	digits, ok := integral(token)
	switch low, high := n.bounds(); {
	case !ok:
		c.violate("must be an integer, not %s", clip(token))
	case !within(digits, low, high):
		c.violate("must be between %d and %d, not %s", low, high, clip(token))
	}
	c.out = append(c.out, digits...)
}

// integral returns the decimal digits of a JSON number that has no fraction.
// A number that is too large for any integer keeps its spelling.
func integral(token string) (digits string, ok bool) {
	if !strings.ContainsAny(token, ".eE") {
		if token == "-0" {
			return "0", true
		}
		return token, true
	}
	sign, rest := "", token
	if rest[0] == '-' {
		sign, rest = "-", rest[1:]
	}
	mantissa, exponent := rest, 0
	if i := strings.IndexAny(rest, "eE"); i >= 0 {
		var err error
		if exponent, err = strconv.Atoi(rest[i+1:]); err != nil {
			exponent = 1 << 30
			if rest[i+1] == '-' {
				exponent = -exponent
			}
		}
		mantissa = rest[:i]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	fraction = strings.TrimRight(fraction, "0")
	all := strings.TrimLeft(whole+fraction, "0")
	if all == "" {
		return "0", true
	}
	switch shift := exponent - len(fraction); {
	case shift < 0 && len(all) > -shift && strings.Trim(all[len(all)+shift:], "0") == "":
		return sign + all[:len(all)+shift], true
	case shift < 0:
		return token, false
	case shift > 20:
		return token, true
	default:
		return sign + all + strings.Repeat("0", shift), true
	}
}

func within(digits string, low int64, high uint64) bool {
	if digits[0] == '-' {
		v, err := strconv.ParseInt(digits, 10, 64)
		return err == nil && v >= low
	}
	v, err := strconv.ParseUint(digits, 10, 64)
	return err == nil && v <= high
}

// violate notes a violation of the value at the current path.
func (c *checker) violate(format string, args ...any) {
	if c.count++; c.count <= maxViolations {
		c.violations = append(c.violations, c.where()+" "+fmt.Sprintf(format, args...))
	}
}

func (c *checker) where() string {
	if len(c.path) == 0 {
		return "the arguments"
	}
	var b strings.Builder
	for i, s := range c.path {
		switch {
		case s.index >= 0:
			fmt.Fprintf(&b, "[%d]", s.index)
		case i > 0:
			b.WriteString("." + s.name)
		default:
			b.WriteString(s.name)
		}
	}
	return clip(strconv.Quote(b.String()))
}
