package network

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/workspace"
)

// rule names hosts: one, or those below it, or all; at one port or at each.
type rule struct {
	text  string
	host  host
	below bool   // *.name: what is below the name, not itself
	all   bool   // *
	port  uint16 // 0 for each
}

func parseRule(text string) (rule, error) {
	r := rule{text: text}
	name := text
	if i := strings.LastIndexByte(text, ':'); i >= 0 && (strings.Count(text, ":") == 1 || strings.Contains(text, "]:")) {
		port, err := parsePort(text[i+1:])
		if err != nil {
			return rule{}, err
		}
		name, r.port = text[:i], port
	}
	if name == "*" {
		r.all = true
		return r, nil
	}
	name, r.below = strings.CutPrefix(name, "*.")
	h, err := parseHost(name)
	if err != nil {
		return rule{}, err
	}
	if r.below && h.addr.IsValid() {
		return rule{}, fmt.Errorf("%.80q: nothing is below an address", text)
	}
	r.host = h
	return r, nil
}

func (r *rule) matches(t target) bool {
	switch {
	case r.port != 0 && r.port != t.port:
		return false
	case r.all:
		return true
	case r.below:
		return strings.HasSuffix(t.name, "."+r.host.name)
	}
	return r.host == t.host
}

// opens reports whether the rule names exactly this address and port, which may be private then.
func (r *rule) opens(at netip.AddrPort) bool {
	if r.port != at.Port() || r.all || r.below {
		return false
	}
	return r.host.addr == at.Addr() || r.host.name == "localhost" && at.Addr().IsLoopback()
}

// ruleset is what may be reached. What is denied is denied whatever allows it.
type ruleset struct {
	allow, deny []rule
	granted     []rule // by a person, for one call
	broken      string // a rule that denies and was not understood
}

// add adds rules of others. One that allows and is not understood allows nothing; with one that denies, all is denied.
func (s *ruleset) add(allow, deny []string) {
	for _, text := range allow {
		if r, err := parseRule(text); err == nil {
			s.allow = append(s.allow, r)
		}
	}
	for _, text := range deny {
		r, err := parseRule(text)
		if err != nil {
			s.broken = text
		}
		s.deny = append(s.deny, r)
	}
}

func (s *ruleset) grant(hosts []string) {
	for _, text := range hosts {
		if r, err := parseRule(text); err == nil && r.port != 0 && !r.all && !r.below {
			s.granted = append(s.granted, r)
		}
	}
}

// check decides about a host by its name, before anything is looked up.
func (s *ruleset) check(t target) *policy.RefusedError {
	if s.broken != "" {
		return refused(t, fmt.Sprintf("the rule that denies %.80q is not understood, so all is denied", s.broken), "correct the rule", true)
	}
	if r := first(s.deny, t); r != nil {
		return refused(t, "the rule that denies "+r.text, "remove the rule", true)
	}
	if t.addr.IsValid() && !isPublic(t.addr) {
		return s.private(t, t.addr)
	}
	if first(s.allow, t) == nil && first(s.granted, t) == nil {
		return refused(t, "no rule allows this host", "the rule WebFetch(domain:"+t.host.String()+"), or "+t.String()+" in the list allow of the plugin network", false)
	}
	return nil
}

// private decides about an address that is not public, of t or of what its name led to.
func (s *ruleset) private(t target, addr netip.Addr) *policy.RefusedError {
	at := netip.AddrPortFrom(addr, t.port)
	for _, rules := range [][]rule{s.allow, s.granted} {
		for i := range rules {
			if rules[i].opens(at) {
				return nil
			}
		}
	}
	if t.addr.IsValid() {
		return refused(t, "the address is private or reserved", at.String()+" in the list allow of the plugin network", false)
	}
	return refused(t, "the name leads to "+addr.String()+", which is private or reserved", at.String()+" in the list allow of the plugin network", t.name != "localhost")
}

// resolved decides about an address that the name of t led to.
func (s *ruleset) resolved(t target, addr netip.Addr) *policy.RefusedError {
	if r := first(s.deny, target{host{addr: addr}, t.port}); r != nil {
		return refused(t, "the name leads to "+addr.String()+", and a rule denies "+r.text, "remove the rule", true)
	}
	if isPublic(addr) {
		return nil
	}
	return s.private(t, addr)
}

// isGranted reports whether a person allowed t for this very call.
func (s *ruleset) isGranted(t target) bool { return first(s.granted, t) != nil }

func first(rules []rule, t target) *rule {
	for i := range rules {
		if rules[i].matches(t) {
			return &rules[i]
		}
	}
	return nil
}

func refused(t target, rule, allow string, final bool) *policy.RefusedError {
	return &policy.RefusedError{
		Refusal: workspace.Refusal{Kind: workspace.RefusedNetwork, Target: t.String(), Rule: rule, Final: final},
		Allow:   allow,
	}
}
