package permission

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v4"

	"github.com/dsh-harness/dsh/tool"
)

// ownFile holds the rules that a folder brings along.
const ownFile = ".dsh/permissions.yml"

// projectFiles returns the files of a folder that may hold rules. They count once a person trusts them.
func projectFiles() []string {
	return []string{ownFile, ".claude/settings.json", ".claude/settings.local.json"}
}

// Lists are rules as people write them, by what they do.
type Lists struct {
	Allow []string `json:"allow,omitempty" yaml:"allow" doc:"rules that allow without a question"`
	Ask   []string `json:"ask,omitempty" yaml:"ask" doc:"rules that ask a person; they go before what allows"`
	Deny  []string `json:"deny,omitempty" yaml:"deny" doc:"rules that deny; they go before all others"`
}

// parse returns the rules of the lists; the errors are all that are wrong.
func (l Lists) parse(source string) ([]*rule, error) {
	var rules []*rule
	var errs []error
	for _, one := range []struct {
		texts  []string
		effect tool.Decision
	}{{l.Deny, tool.Deny}, {l.Ask, tool.Ask}, {l.Allow, tool.Allow}} {
		for _, text := range one.texts {
			r, err := parseRule(text, one.effect)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", one.effect, err))
				continue
			}
			r.source = source
			rules = append(rules, r)
		}
	}
	return rules, inLine(errs...)
}

// inLine joins errors, of which some may be nil, to one of one line.
func inLine(errs ...error) error {
	var all error
	for _, err := range errs {
		switch {
		case err == nil:
		case all == nil:
			all = err
		default:
			all = fmt.Errorf("%w; %w", all, err)
		}
	}
	return all
}

// parseProject returns the rules in a file of a folder. Notes tell what of the file is not
// used. An error means that what the file forbids is not known.
func parseProject(file string, content []byte) (rules []*rule, notes []string, err error) {
	if file == ownFile {
		var l Lists
		if l, err = parseOwn(content); err == nil {
			rules, err = l.parse(file)
		}
	} else {
		rules, notes, err = parseClaude(file, content)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the rules in %s: %w", file, err)
	}
	return rules, notes, nil
}

func parseOwn(content []byte) (Lists, error) {
	var l Lists
	loader, err := yaml.NewLoader(bytes.NewReader(content), yaml.WithKnownFields(), yaml.WithUniqueKeys())
	if err != nil {
		return l, err
	}
	if err := loader.Load(&l); err != nil && !errors.Is(err, io.EOF) {
		return l, err
	}
	return l, nil
}

// parseClaude reads the section "permissions" of Claude Code's settings. Its rules about
// tools that are not here are left out.
func parseClaude(file string, content []byte) (rules []*rule, notes []string, err error) {
	var settings struct {
		Permissions *struct {
			Lists
			Additional json.RawMessage `json:"additionalDirectories"`
			Mode       json.RawMessage `json:"defaultMode"`
		} `json:"permissions"`
	}
	if err := json.Unmarshal(bytes.TrimPrefix(content, []byte("\ufeff")), &settings); err != nil {
		return nil, nil, err
	}
	p := settings.Permissions
	if p == nil {
		return nil, nil, nil
	}
	if p.Additional != nil {
		notes = append(notes, file+": additionalDirectories is not used: a folder does not widen what may be written; give --add-dir")
	}
	if p.Mode != nil {
		notes = append(notes, file+": defaultMode is not used: give --permission-mode")
	}
	var errs []error
	keep := func(texts []string, effect tool.Decision) {
		for _, text := range texts {
			r, wrong := parseRule(text, effect)
			switch {
			case wrong == nil:
				r.source = file
				rules = append(rules, r)
			case effect == tool.Allow || elsewhere(text):
				notes = append(notes, fmt.Sprintf("%s: it is not used: %v", file, wrong))
			default:
				errs = append(errs, fmt.Errorf("%s: %w", effect, wrong))
			}
		}
	}
	keep(p.Deny, tool.Deny)
	keep(p.Ask, tool.Ask)
	keep(p.Allow, tool.Allow)
	return rules, notes, inLine(errs...)
}

// elsewhere reports whether a rule that is not understood is about a tool that does not exist here.
func elsewhere(text string) bool {
	var r rule
	name, _, _ := bytes.Cut([]byte(text), []byte("("))
	if checkName(string(name)) != nil {
		return false
	}
	r.about(string(name))
	return r.kind == ""
}
