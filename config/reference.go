package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// A reference is ${env:NAME}, ${env:NAME:-fallback} or ${file:path} in a text.
type reference struct {
	source      string // as written, with ${ and }
	file        bool   // else an environment variable
	name        string // of the variable, or the path
	fallback    string
	hasFallback bool
}

// piece is a part of a text: literal, or a reference.
type piece struct {
	literal string
	ref     *reference
}

// parseReferences splits a text; "$${" is a literal "${".
func parseReferences(s string) ([]piece, error) {
	var pieces []piece
	var literal strings.Builder
	for s != "" {
		i := strings.Index(s, "${")
		if i < 0 {
			literal.WriteString(s)
			break
		}
		if i > 0 && s[i-1] == '$' {
			literal.WriteString(s[:i-1] + "${")
			s = s[i+2:]
			continue
		}
		literal.WriteString(s[:i])
		end := strings.IndexByte(s[i:], '}')
		if end < 0 {
			return nil, fmt.Errorf("%s does not end: close it with }, or write $${ for the characters ${", quote(s[i:]))
		}
		ref, err := parseReference(s[i : i+end+1])
		if err != nil {
			return nil, err
		}
		if literal.Len() > 0 {
			pieces = append(pieces, piece{literal: literal.String()})
			literal.Reset()
		}
		pieces = append(pieces, piece{ref: ref})
		s = s[i+end+1:]
	}
	if literal.Len() > 0 {
		pieces = append(pieces, piece{literal: literal.String()})
	}
	return pieces, nil
}

// parseReference reads one reference, with its braces.
func parseReference(source string) (*reference, error) {
	body := source[2 : len(source)-1]
	if strings.Contains(body, "${") {
		return nil, fmt.Errorf("%s has a reference inside: they cannot be nested", quote(source))
	}
	scheme, rest, _ := strings.Cut(body, ":")
	switch scheme {
	case "env":
		name, fallback, has := strings.Cut(rest, ":-")
		if !isVariable(name) {
			return nil, fmt.Errorf("%s names no variable: expected letters, digits and _, such as ${env:NAME} or ${env:NAME:-default}",
				quote(source))
		}
		return &reference{source, false, name, fallback, has}, nil
	case "file":
		if rest == "" {
			return nil, fmt.Errorf("%s names no file: expected ${file:path}", quote(source))
		}
		return &reference{source: source, file: true, name: rest}, nil
	default:
		if isVariable(body) {
			return nil, fmt.Errorf("%s is unknown: write ${env:%s} for the variable, or $${%s} for these characters",
				quote(source), body, body)
		}
		return nil, fmt.Errorf("%s is unknown: expected ${env:NAME}, ${env:NAME:-default} or ${file:path}; write $${ for the characters ${",
			quote(source))
	}
}

func isVariable(s string) bool {
	return s != "" && (s[0] < '0' || s[0] > '9') &&
		strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// Environment is what references in the configuration can see.
type Environment struct {
	// Lookup finds environment variables, as [os.LookupEnv] does, which nil stands for.
	Lookup func(name string) (string, bool)

	// Project lists the variables that a [Project] layer may read.
	Project []string
}

// resolver replaces references by what they stand for and remembers it, so that errors can be
// cleaned of it.
type resolver struct {
	env      Environment
	resolved []resolution
}

type resolution struct{ value, source string }

// expand returns v with all references in it replaced; ok is false when one could not be.
func (r *resolver) expand(path string, v *value, p *problems) (out *value, ok bool) {
	switch v.kind {
	case text:
		if !strings.Contains(v.text, "${") {
			return v, true
		}
		return r.expandText(path, v, p)
	case list:
		items, ok := slices.Clone(v.items), true
		for i, item := range v.items {
			var done bool
			items[i], done = r.expand(fmt.Sprintf("%s[%d]", path, i), item, p)
			ok = ok && done
		}
		expanded := *v
		expanded.items = items
		return &expanded, ok
	case mapping:
		fields, ok := slices.Clone(v.fields), true
		for i, f := range v.fields {
			var done bool
			fields[i].value, done = r.expand(path+"."+f.key, f.value, p)
			ok = ok && done
		}
		expanded := *v
		expanded.fields = fields
		return &expanded, ok
	case null, boolean, integer, float:
	}
	return v, true
}

func (r *resolver) expandText(path string, v *value, p *problems) (*value, bool) {
	pieces, err := parseReferences(v.text)
	if err != nil {
		p.addCause(v.at, err, "%s: %v", path, err)
		return v, false
	}
	var b strings.Builder
	expanded := *v
	for _, piece := range pieces {
		if piece.ref == nil {
			b.WriteString(piece.literal)
			continue
		}
		s, err := r.resolve(piece.ref, v.layer)
		if err != nil {
			p.addCause(v.at, err, "%s: %v", path, err)
			return v, false
		}
		b.WriteString(s)
		expanded.source = v.text
	}
	expanded.text = b.String()
	expanded.loose = len(pieces) == 1 && pieces[0].ref != nil
	return &expanded, true
}

func (r *resolver) resolve(ref *reference, layer *Layer) (string, error) {
	s, err := "", error(nil)
	if ref.file {
		s, err = readReference(ref, layer)
	} else {
		s, err = r.variable(ref, layer)
	}
	if err == nil && s != "" {
		r.resolved = append(r.resolved, resolution{s, ref.source})
	}
	return s, err
}

func (r *resolver) variable(ref *reference, layer *Layer) (string, error) {
	if layer.Kind == Project && !slices.Contains(r.env.Project, ref.name) {
		return "", fmt.Errorf("%s: a project may read only the variables that the user allows it, and %s is not among them",
			ref.source, ref.name)
	}
	lookup := r.env.Lookup
	if lookup == nil {
		lookup = os.LookupEnv
	}
	s, set := lookup(ref.name)
	if s == "" && ref.hasFallback {
		return ref.fallback, nil
	}
	if !set {
		return "", fmt.Errorf("%s: the variable is not set: set it, or give a default as in ${env:%s:-default}", ref.source, ref.name)
	}
	return s, nil
}

// readReference reads a file without the line ends at its end. A relative path starts from the
// folder of the configuration file that names it, or from the working folder where there is no
// such file.
func readReference(ref *reference, layer *Layer) (string, error) {
	path := ref.name
	if !filepath.IsAbs(path) && layer.Path != "" {
		path = filepath.Join(filepath.Dir(layer.Path), path)
	}
	var content []byte
	var err error
	switch {
	case layer.Kind == Project && layer.Root == "":
		err = errors.New("this project may not read files")
	case layer.Kind == Project:
		content, err = readBelow(layer.Root, path)
	default:
		content, err = readPath(path)
	}
	if err == nil && !utf8.Valid(content) {
		err = errors.New("it is not UTF-8 text")
	}
	if err != nil {
		return "", fmt.Errorf("%s: cannot read %q: %w", ref.source, path, reason(err))
	}
	return strings.TrimRight(string(content), "\r\n"), nil
}

// readBelow reads a file that neither its path nor a link may take out of root.
func readBelow(root, path string) ([]byte, error) {
	rel, err := filepath.Rel(root, path)
	if err != nil || !filepath.IsLocal(rel) {
		return nil, errors.New("a project may read only files below itself")
	}
	dir, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }() // only read from
	return readFile(
		func() (fs.FileInfo, error) { return dir.Stat(rel) },
		func() (io.ReadCloser, error) { return dir.Open(rel) },
	)
}

// clean returns err with what references stood for put back behind them: whoever made it may have
// quoted a value.
func (r *resolver) clean(err error) error {
	longest := slices.SortedFunc(slices.Values(r.resolved), func(a, b resolution) int { return len(b.value) - len(a.value) })
	detail := err.Error()
	for _, one := range longest { // first, because a shorter one may be a part of it
		const shortest = 4 // shorter ones are no secrets and occur in every text
		if len(one.value) >= shortest {
			detail = strings.ReplaceAll(detail, one.value, one.source)
		}
	}
	if detail == err.Error() {
		return err
	}
	return errors.New(detail) // and no cause, which would tell it
}
