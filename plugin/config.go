package plugin

import (
	"context"
	"fmt"
)

// Plugin is what a plugin author writes, once, as a package variable. A plugin
// that can take a new config without a restart calls [OnReconfigure] in Start.
type Plugin[C any] struct {
	Name    string
	Doc     string
	Needs   []Need
	Default func() C // nil means the zero value
	Start   func(ctx context.Context, s *Scope, config C) error
}

// OnReconfigure lets this life of a [Plugin] of config type C take a new config
// while it runs. No start or stop of the plugin happens meanwhile. When take
// returns an error the plugin restarts with the new config instead.
func OnReconfigure[C any](s *Scope, take func(ctx context.Context, config C) error) error {
	t := s.node.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := s.openLocked("reconfigure"); err != nil {
		return err
	}
	s.reconfigure = func(ctx context.Context, config any) error {
		c, ok := config.(C)
		if !ok {
			return fmt.Errorf("the config is a %T, not a %T", config, c)
		}
		return take(ctx, c)
	}
	return nil
}

// Definition is a [Plugin] without its config type, so that plugins of all types
// fit one list. Only [Plugin.Definition] makes one.
type Definition struct {
	name      string
	doc       string
	needs     []Need
	newConfig func() any
	bind      func(config any) (Prepared, error)
}

// Name returns the plugin's name.
func (d Definition) Name() string { return d.name }

// Doc returns the plugin's documentation.
func (d Definition) Doc() string { return d.doc }

// Needs returns the services that the plugin declares.
func (d Definition) Needs() []Need { return d.needs }

// NewConfig returns a pointer to a fresh default config of the plugin's config
// type, to decode into and to derive a schema from.
func (d Definition) NewConfig() any { return d.newConfig() }

// Bind checks config, a pointer that [Definition.NewConfig] returned, and returns
// the plugin ready to start with it. It calls the config's Validate() error, if
// there is one, and has no side effects.
func (d Definition) Bind(config any) (Prepared, error) { return d.bind(config) }

// Prepared is a plugin with a checked config, ready to mount.
type Prepared struct {
	needs []Need
	update
}

// Definition erases the config type.
func (p Plugin[C]) Definition() Definition {
	newConfig := func() any {
		c := new(C)
		if p.Default != nil {
			*c = p.Default()
		}
		return c
	}
	bind := func(config any) (Prepared, error) {
		c, ok := config.(*C)
		if !ok || c == nil {
			return Prepared{}, fmt.Errorf("plugin %s: the config is a %T, not a %T", p.Name, config, c)
		}
		if v, ok := config.(interface{ Validate() error }); ok {
			if err := v.Validate(); err != nil {
				return Prepared{}, err
			}
		}
		bound := *c
		start := func(ctx context.Context, s *Scope) error { return p.Start(ctx, s, bound) }
		return Prepared{p.Needs, update{start, bound}}, nil
	}
	return Definition{p.Name, p.Doc, p.Needs, newConfig, bind}
}
