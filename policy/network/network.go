// Package network is the way to other machines: for confined commands a proxy that lets
// through what rules allow, and for tools the HTTP client [policy.Web]. It is the plugin "network":
//
//	# cordis.yml
//	- id: network
//	  plugin: network
//	  config:
//	    allow: [proxy.example.org, "*.example.com", "git.example.net:22", "127.0.0.1:8080"]
//	    deny: [uploads.example.com]
//	    maxUpload: 1048576
//
// A rule is a host, *.host for what is below it, or *, each with :port behind it or
// without. What is denied is denied whatever allows it. To the rules of the configuration come those of
// [policy.Rules], such as WebFetch(domain:example.com), and what a person allowed one call. Nothing is
// allowed without a rule.
//
// A host is plain ASCII; other letters are refused rather than translated. Names are looked up here,
// after the check, and a name that leads to a private or reserved address (this machine, its
// neighbours, the metadata of a cloud) is refused. Such an address is reached only where a rule names exactly it with its port, or
// localhost with a port. Commands are told to reach 127.0.0.1 without the proxy, which is the loopback of their
// sandbox: a mirror on this machine needs a program that ignores NO_PROXY.
//
// A command finds the proxy in HTTP_PROXY and its like. It takes CONNECT, and requests for http. In a tunnel the name that TLS asks for has to be the
// one that was checked. What it cannot see: what is inside TLS, so which host of those behind one server a request is for,
// when the name is left out of the handshake or is encrypted with the right outer name.
//
// It takes part in [workspace.Confining]. The proxy runs for as long as a command does, on goroutines that end with it.
package network

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/policy"
	"github.com/dsh-harness/dsh/workspace"
)

// Plugin connects commands and tools with other machines.
var Plugin = plugin.Plugin[Config]{
	Name:  "network",
	Doc:   "Connects confined commands and tools with the hosts that rules allow.",
	Needs: []plugin.Need{policy.Rules.Optional()},
	Default: func() Config {
		return Config{Proxy: ProxyOn, MaxBytes: 10 << 20, Timeout: 60_000}
	},
	Start: start,
}

// Config is the configuration of the plugin.
type Config struct {
	Allow     []string `json:"allow,omitempty" doc:"hosts that may be reached: a host, *.host or *, each with :port or without; a private address, or localhost, needs its port"`
	Deny      []string `json:"deny,omitempty" doc:"hosts that may not be reached whatever allows them"`
	Proxy     Proxy    `json:"proxy" doc:"on, or off to leave confined commands without any network"`
	MaxUpload int64    `json:"maxUpload,omitempty" doc:"how many bytes one connection or request may send to a host that nobody allowed for that very call; 0 for no limit"`
	MaxBytes  int64    `json:"maxBytes" doc:"how many bytes of an answer a tool gets, unpacked, at least 1024"`
	Timeout   int64    `json:"timeout" doc:"how long a request of a tool may take, in milliseconds, from 100 to 600000"`
}

// Proxy says whether commands get a proxy.
type Proxy string

const (
	ProxyOn  Proxy = "on"
	ProxyOff Proxy = "off"
)

// Validate reports the first thing that is wrong.
func (c *Config) Validate() error {
	for _, text := range c.Allow {
		r, err := parseRule(text)
		if err == nil && r.port == 0 && (r.host.name == "localhost" || r.host.addr.IsValid() && !isPublic(r.host.addr)) {
			err = fmt.Errorf("%q is private: name the port as well, as in %q", text, target{r.host, 8080})
		}
		if err != nil {
			return fmt.Errorf("allow: %w", err)
		}
	}
	for _, text := range c.Deny {
		if _, err := parseRule(text); err != nil {
			return fmt.Errorf("deny: %w", err)
		}
	}
	switch {
	case c.Proxy != ProxyOn && c.Proxy != ProxyOff:
		return fmt.Errorf("proxy: %q is neither on nor off", c.Proxy)
	case c.MaxUpload < 0:
		return fmt.Errorf("maxUpload: %d is negative", c.MaxUpload)
	case c.MaxBytes < 1024:
		return fmt.Errorf("maxBytes: %d is less than 1024", c.MaxBytes)
	case c.Timeout < 100 || c.Timeout > 600_000:
		return fmt.Errorf("timeout: %d is not from 100 to 600000", c.Timeout)
	}
	return nil
}

func start(_ context.Context, s *plugin.Scope, c Config) error {
	n := &network{scope: s, config: c, dialer: newDialer()}
	err := policy.Web.Provide(s, n.web())
	if c.Proxy == ProxyOn {
		_, err2 := workspace.Confining.On(s, n.confine)
		err = errors.Join(err, err2)
	}
	return err
}

// network is one life of the plugin.
type network struct {
	scope  *plugin.Scope
	config Config
	dialer *dialer
}

// confine gives the command a proxy, also when no host is allowed, so that it is known what it wanted to reach.
func (n *network) confine(ctx context.Context, c *workspace.Confinement, next plugin.Next[*workspace.Confinement, *workspace.Confinement]) (*workspace.Confinement, error) {
	session, dir, granted := c.Session, c.Dir, workspace.GrantOf(ctx).Hosts
	c.Network = &proxy{
		rules:  func() *ruleset { return n.rules(session, dir, granted) },
		dialer: n.dialer, maxUpload: n.config.MaxUpload, limits: standardLimits(),
	}
	return next(ctx, c)
}

// rules returns what may be reached right now: a rule that is revoked does not hold for the
// next connection of a command that runs.
func (n *network) rules(session, dir string, granted []string) *ruleset {
	set := &ruleset{}
	set.add(n.config.Allow, n.config.Deny)
	if keeper, ok := policy.Rules.Current(n.scope); ok {
		set.add(keeper.Hosts(session, dir))
	}
	set.grant(granted)
	return set
}

func (n *network) web() *web {
	return &web{rules: n.rules, dialer: n.dialer, maxBytes: n.config.MaxBytes, maxUpload: n.config.MaxUpload, timeout: time.Duration(n.config.Timeout) * time.Millisecond}
}
