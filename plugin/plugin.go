package plugin

import (
	"context"
	"fmt"
	"time"
)

// Plugin is what a plugin author writes, once, as a value: a name, what it needs, and
// how it starts with a config of type C. There is no registry to enter it in; a
// program lists the definitions that it knows, see [Plugin.Definition].
type Plugin[C any] struct {
	// Name is what a row of the configuration calls the plugin.
	Name string
	// Doc says in a sentence or more what the plugin is for, for the reference pages.
	Doc string
	// Needs are the services that the plugin looks up. Looking up another panics.
	Needs []Need
	// Default returns a fresh default config; nil stands for the zero value.
	Default func() C
	// Start begins a life with a config; see [StartFunc] for what it may expect. It
	// must not change what the config points to.
	Start func(ctx context.Context, s *Scope, config C) error
	// StartTimeout bounds Start, and what takes a new config in [OnReconfigure]; 0
	// means [DefaultStartTimeout].
	StartTimeout time.Duration
}

// OnReconfigure lets this life of a [Plugin] with config type C take a new config
// while it runs; call it in Start. The plugin neither starts nor stops while take
// runs, and take has as long as a start. When it returns an error, or ignores the end of
// its context, the plugin restarts with the new config instead. The last call in a
// life counts.
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

// Definition is a [Plugin] without its config type, so that plugins of all types fit
// one list. Only [Plugin.Definition] makes one.
type Definition struct {
	name      string
	doc       string
	needs     []Need
	newConfig func() any
	bind      func(config any) (Prepared, error)
}

// Definition erases the config type. It panics when the plugin has no name or no Start.
func (p Plugin[C]) Definition() Definition {
	if p.Name == "" || p.Start == nil {
		panic(fmt.Sprintf("plugin %q lacks a name or a Start", p.Name))
	}
	return Definition{name: p.Name, doc: p.Doc, needs: p.Needs, newConfig: p.newConfig, bind: p.bind}
}

func (p Plugin[C]) newConfig() any {
	c := new(C)
	if p.Default != nil {
		*c = p.Default()
	}
	return c
}

func (p Plugin[C]) bind(config any) (Prepared, error) {
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
	return Prepared{
		plugin:  p.Name,
		needs:   p.Needs,
		timeout: p.StartTimeout,
		update: update{
			start:  func(ctx context.Context, s *Scope) error { return p.Start(ctx, s, bound) },
			config: bound,
		},
	}, nil
}

// Name returns the plugin's name.
func (d Definition) Name() string { return d.name }

// Doc returns the plugin's documentation.
func (d Definition) Doc() string { return d.doc }

// Needs returns the services that the plugin declares. The caller must not change them.
func (d Definition) Needs() []Need { return d.needs }

// NewConfig returns a pointer to a fresh default config of the plugin's config type, to
// decode into and to derive a schema from.
func (d Definition) NewConfig() any { return d.newConfig() }

// Bind checks config, a pointer as [Definition.NewConfig] returns, and returns the
// plugin ready to start with it. If the config has a method Validate() error it is
// called, and its error is returned as it is. Bind has no side effects. What the
// config points to must not change afterwards.
func (d Definition) Bind(config any) (Prepared, error) { return d.bind(config) }

// Prepared is a plugin with a checked config, ready to mount as often as needed. Only
// [Definition.Bind] makes one.
type Prepared struct {
	plugin  string
	needs   []Need
	timeout time.Duration
	update
}

// Child returns the prepared plugin as a child to mount by hand; rows go through a
// [Loader].
func (p Prepared) Child(name string) Child {
	return Child{Name: name, Needs: p.needs, Start: p.start, StartTimeout: p.timeout, plugin: p.plugin}
}
