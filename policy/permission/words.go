package permission

import (
	"errors"
	"fmt"
	"strings"
)

// errOperator tells that a command in a rule is more than one simple command.
var errOperator = errors.New("it is more than one simple command")

// split returns the words of a command in a rule. It knows quotes and backslashes and
// nothing else of a shell: what the shell would expand or connect is an error.
func split(text string) ([]string, error) {
	var words []string
	var word strings.Builder
	begun := false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c < ' ' || c == 0x7f:
			return nil, fmt.Errorf("it holds the control character %q", c)
		case c == ' ':
			if begun {
				words, begun = append(words, word.String()), false
				word.Reset()
			}
			continue
		case c == '\\':
			if i++; i == len(text) {
				return nil, errors.New("it ends in a backslash")
			}
			word.WriteByte(text[i])
		case c == '\'' || c == '"':
			end := strings.IndexByte(text[i+1:], c)
			if end < 0 {
				return nil, fmt.Errorf("the quote %c has no end", c)
			}
			quoted := text[i+1 : i+1+end]
			if c == '"' && strings.ContainsAny(quoted, "$`\\") {
				return nil, errors.New("what the shell expands is never part of a rule: use single quotes for what is meant as it stands")
			}
			word.WriteString(quoted)
			i += end + 1
		case strings.IndexByte(";&|<>()", c) >= 0:
			return nil, errOperator
		case strings.IndexByte("$`*?[{~#!", c) >= 0 && (c != '~' && c != '#' && c != '!' || !begun):
			return nil, fmt.Errorf("what the shell expands is never part of a rule: put %q in single quotes if it is meant as it stands", string(c))
		default:
			word.WriteByte(c)
		}
		begun = true
	}
	if begun {
		words = append(words, word.String())
	}
	if len(words) == 0 {
		return nil, errors.New("it names no command")
	}
	return words, nil
}

// join is the opposite of [split].
func join(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = quote(w)
	}
	return strings.Join(quoted, " ")
}

func quote(word string) string {
	plain := word != ""
	for i := range len(word) {
		c := word[i]
		plain = plain && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_-./=,:+@%^", c) >= 0 || c >= 0x80)
	}
	if plain && !strings.HasSuffix(word, ":") {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
