package permission

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dsh-harness/dsh/internal/nearest"
	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
)

// RememberedType is the event type that records that a rule is remembered; its data is [RememberedData].
const RememberedType = "permission/remembered"

// RememberedData is the data of [RememberedType].
type RememberedData struct {
	Rule   string       `json:"rule"`
	Effect string       `json:"effect"` // allow, ask or deny
	Scope  policy.Scope `json:"scope"`
	Dir    string       `json:"dir"` // the folder that it holds in
}

// Keeper keeps the rules of one life of the plugin; it is what [policy.Rules] provides. It may
// be used by many goroutines at once.
type Keeper struct {
	scope  *plugin.Scope
	home   string
	config []*rule
	store  store

	mu       sync.Mutex
	sessions map[string][]*rule  // by id, of those that called a tool
	projects map[string]*project // by folder and file
	checked  bool                // the names of tools in rules
}

// project is a file of a folder that was read last.
type project struct {
	content []byte
	rules   []*rule
	err     error
}

// rules returns all rules for a session in a folder, for a call of it or for its commands.
// The error says which are not known: then nothing may be allowed without a question.
func (k *Keeper) rules(ctx context.Context, s *session.Session, dir string) (ruleset, error) {
	var set ruleset
	set.add(k.config...)
	_, remembered, err := k.store.load()
	for _, r := range remembered {
		if r.dir == dir {
			set.add(r)
		}
	}
	mine, err2 := k.ofSession(ctx, s)
	set.add(mine...)
	theirs, err3 := k.ofProject(ctx, dir)
	set.add(theirs...)
	return set, inLine(err, err2, err3)
}

// ofSession returns what a session remembers, from its log when it is looked at first. What
// it copied from another session by a fork is not its own.
func (k *Keeper) ofSession(ctx context.Context, s *session.Session) ([]*rule, error) {
	if s == nil {
		return nil, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	rules, known := k.sessions[s.ID()]
	if known {
		return rules, nil
	}
	for e, err := range s.Events(ctx, s.Header().Seed) {
		if err != nil {
			return nil, fmt.Errorf("read the rules of session %s: %w", s.ID(), err)
		}
		if e.Type != RememberedType {
			continue
		}
		var d RememberedData
		if err := json.Unmarshal(e.Data, &d); err != nil {
			return nil, fmt.Errorf("read the rules of session %s: event %d: %w", s.ID(), e.Seq, err)
		}
		if d.Scope != policy.ForSession {
			continue
		}
		r, err := (&Remembered{Rule: d.Rule, Effect: d.Effect, Dir: d.Dir}).parse()
		if err != nil {
			return nil, fmt.Errorf("read the rules of session %s: event %d: %w", s.ID(), e.Seq, err)
		}
		r.source = "this session"
		rules = append(rules, r)
	}
	k.sessions[s.ID()] = rules
	return rules, nil
}

func (k *Keeper) forget(_ context.Context, s *session.Session) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.sessions, s.ID())
	return nil
}

// ofProject returns the rules that a folder brings along, as far as a person trusts them.
func (k *Keeper) ofProject(ctx context.Context, dir string) ([]*rule, error) {
	trust, ok := policy.Trust.Current(k.scope)
	if !ok || dir == "" {
		return nil, nil
	}
	var rules []*rule
	var errs []error
	for _, file := range projectFiles() {
		content, err := trust.Trusted(ctx, dir, file)
		if err != nil {
			errs = append(errs, fmt.Errorf("read the rules in %s: %w", file, err))
			continue
		}
		p := k.read(dir, file, content)
		rules, errs = append(rules, p.rules...), append(errs, p.err)
	}
	return rules, inLine(errs...)
}

// read parses a file of a folder, unless it is as it was.
func (k *Keeper) read(dir, file string, content []byte) *project {
	key := dir + "\x00" + file
	k.mu.Lock()
	defer k.mu.Unlock()
	if p, ok := k.projects[key]; ok && string(p.content) == string(content) {
		return p
	}
	p := &project{content: content}
	if content != nil {
		var notes []string
		p.rules, notes, p.err = parseProject(file, content)
		for _, note := range notes {
			k.scope.Log().Warn(note)
		}
	}
	k.projects[key] = p
	return p
}

// checkTools warns, once, of rules about tools that do not exist, since those do nothing.
func (k *Keeper) checkTools(set ruleset) {
	k.mu.Lock()
	checked := k.checked
	k.checked = true
	k.mu.Unlock()
	if checked {
		return
	}
	for _, r := range slices.Concat(set.deny, set.ask, set.allow) {
		if note := k.missing(r); note != "" {
			k.scope.Log().Warn(fmt.Sprintf("rule %s (%s): %s", r.text, r.source, note))
		}
	}
}

// missing says that a rule is about a tool that does not exist, "" when it is not.
func (k *Keeper) missing(r *rule) string {
	if r.known() {
		return ""
	}
	if _, ok := tool.Tools.Get(k.scope, r.tool); ok {
		return ""
	}
	names := aliases()
	for name := range tool.Tools.Visible(k.scope) {
		names = append(names, name)
	}
	if near := nearest.Name(r.tool, names); near != "" {
		return fmt.Sprintf("there is no tool %s here; did you mean %s?", r.tool, near)
	}
	return fmt.Sprintf("there is no tool %s here", r.tool)
}

// Suggest implements [policy.RuleKeeper]. It returns none either where a rule or the
// destruction guard asks, since no rule that allows goes before those.
func (k *Keeper) Suggest(c *tool.Call, refused []workspace.Refusal) []string {
	scope := k.scope
	if c.Session != nil {
		scope = c.Session.Scope()
	}
	d, ok := tool.Tools.Get(scope, c.Name)
	if !ok {
		return nil
	}
	s := newSubject(c, d.Access(c), k.home)
	set, err := k.rules(k.scope.Context(), c.Session, s.around.dir)
	if err != nil {
		return nil
	}
	if r, _ := s.catch(slices.Concat(set.deny, set.ask)); len(refused) == 0 && (r != nil || s.guard().decision != tool.Allow) {
		return nil
	}
	return s.suggest(refused)
}

// Remember implements [policy.RuleKeeper]. A rule beyond the session is in its file when it
// returns nil, and in the log of the session, if there is one.
func (k *Keeper) Remember(c *tool.Call, scope policy.Scope, effect tool.Decision, text string) error {
	if effect == tool.Confined {
		return fmt.Errorf("remember rule %q: a rule allows, asks or denies", text)
	}
	if c.Workspace == nil {
		return fmt.Errorf("remember rule %q: there is no folder that it could hold in", text)
	}
	e := Remembered{Rule: text, Effect: effect.String(), Dir: c.Workspace.Dir(), Time: time.Now().UTC().Truncate(time.Second)}
	r, err := e.parse()
	if err != nil {
		return err
	}
	switch scope {
	case policy.Once:
		return nil
	case policy.ForSession:
		if c.Session == nil {
			return fmt.Errorf("remember rule %q: there is no session that it could hold in", text)
		}
		r.source = "this session"
		if _, err := k.ofSession(k.scope.Context(), c.Session); err != nil {
			return err
		}
		if err := record(c.Session, scope, &e); err != nil {
			return err
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		k.sessions[c.Session.ID()] = append(slices.Clip(k.sessions[c.Session.ID()]), r)
		return nil
	case policy.ForUser:
		if c.Session != nil {
			e.By = "session " + c.Session.ID()
		}
		if err := k.store.add(k.scope.Context(), e); err != nil {
			return err
		}
		if c.Session == nil {
			return nil
		}
		return record(c.Session, scope, &e)
	}
	return fmt.Errorf("remember rule %q: unknown scope %q", text, scope)
}

func record(s *session.Session, scope policy.Scope, e *Remembered) error {
	_, err := s.Append(session.Draft{Type: RememberedType, Data: RememberedData{Rule: e.Rule, Effect: e.Effect, Scope: scope, Dir: e.Dir}})
	if err != nil {
		return fmt.Errorf("log that rule %q is remembered: %w", e.Rule, err)
	}
	return nil
}

// Hosts implements [policy.RuleKeeper]. Hosts are names, *.name, or * for all. When rules
// cannot be read it allows none and denies all. What a rule asks about is denied where another
// allows it, since commands cannot ask. A session counts once it made a call.
func (k *Keeper) Hosts(id, dir string) (allow, deny []string) {
	set, err := k.rules(k.scope.Context(), nil, dir)
	if err != nil {
		return nil, []string{"*"}
	}
	k.mu.Lock()
	set.add(k.sessions[id]...)
	k.mu.Unlock()
	for _, r := range set.allow {
		if r.kind == tool.AccessNetwork {
			allow = append(allow, r.hostPattern())
		}
	}
	for _, r := range set.deny {
		if r.kind == tool.AccessNetwork {
			deny = append(deny, r.hostPattern())
		}
	}
	for _, r := range set.ask {
		if r.kind == tool.AccessNetwork && slices.ContainsFunc(set.allow, r.meets) {
			deny = append(deny, r.hostPattern())
		}
	}
	return allow, deny
}

// hostPattern is the host of a rule about hosts, * for all.
func (r *rule) hostPattern() string {
	if r.spec == all {
		return "*"
	}
	return r.host
}

// meets reports whether two rules may be about the same host.
func (r *rule) meets(other *rule) bool {
	return other.kind == tool.AccessNetwork && (r.reaches(strings.TrimPrefix(other.host, "*.")) || other.reaches(strings.TrimPrefix(r.host, "*.")) || r.host == other.host)
}

// Fingerprint implements [policy.RuleKeeper].
func (k *Keeper) Fingerprint() string {
	h := sha256.New()
	write := func(rules []*rule) {
		for _, r := range rules {
			fmt.Fprintf(h, "%s %q %q %q\n", r.effect, r.text, r.source, r.dir)
		}
	}
	write(k.config)
	_, remembered, err := k.store.load()
	write(remembered)
	if err != nil {
		fmt.Fprintf(h, "%v\n", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(k.sessions)) {
		if rules := k.sessions[id]; len(rules) > 0 {
			fmt.Fprintf(h, "session %q\n", id)
			write(rules)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(k.projects)) {
		if p := k.projects[key]; p.content != nil {
			fmt.Fprintf(h, "project %q %x\n", key, sha256.Sum256(p.content))
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Listed is a rule as lists show it.
type Listed struct {
	Rule   string `json:"rule"`
	Effect string `json:"effect"`
	Source string `json:"source"` // the configuration, a file of the folder, or remembered
	// Number is what a remembered rule is called in its list, from 1; 0 for others.
	Number int        `json:"number,omitempty"`
	Dir    string     `json:"dir,omitempty"` // the folder that a remembered rule holds in
	Time   *time.Time `json:"time,omitempty"`
	By     string     `json:"by,omitempty"`
	Note   string     `json:"note,omitempty"` // why it does nothing
}

// List returns the rules that hold in the folder dir, absolute and without links, and the
// remembered ones of other folders behind them. Rules of sessions are not among them: they
// are in their logs.
func (k *Keeper) List(ctx context.Context, dir string) ([]Listed, error) {
	theirs, err := k.ofProject(ctx, dir)
	kept, rules, err2 := k.store.load()
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	var list, others []Listed
	for _, r := range slices.Concat(k.config, theirs) {
		list = append(list, Listed{Rule: r.text, Effect: r.effect.String(), Source: r.source, Note: k.missing(r)})
	}
	for i, e := range kept {
		l := Listed{Rule: e.Rule, Effect: e.Effect, Source: "remembered", Number: i + 1, Dir: e.Dir, Time: &e.Time, By: e.By, Note: k.missing(rules[i])}
		if e.Dir == dir {
			list = append(list, l)
		} else {
			others = append(others, l)
		}
	}
	return append(list, others...), nil
}

// Forget removes remembered rules: the one of that number in [Keeper.List], or, with number 0, those with that text that hold in
// dir. It returns what was removed, and fails when there is none.
func (k *Keeper) Forget(ctx context.Context, number int, text, dir string) ([]Remembered, error) {
	var gone []Remembered
	err := k.store.change(ctx, func(list []Remembered) ([]Remembered, error) {
		var left []Remembered
		for i, e := range list {
			if number == i+1 || number == 0 && e.Rule == strings.TrimSpace(text) && e.Dir == dir {
				gone = append(gone, e)
			} else {
				left = append(left, e)
			}
		}
		switch {
		case len(gone) > 0:
			return left, nil
		case number != 0:
			return nil, fmt.Errorf("there is no remembered rule %d", number)
		}
		return nil, fmt.Errorf("the rule %q is not remembered for %s", text, dir)
	})
	return gone, err
}
