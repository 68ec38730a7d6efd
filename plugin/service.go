package plugin

import (
	"context"
	"fmt"
	"slices"
	"time"
)

type keyID struct{ name string }

// Key names a service of type T. Declare one per service, as a package variable
// next to the interface:
//
//	var Service = plugin.NewKey[Registry]("tools")
type Key[T any] struct{ id *keyID }

// NewKey returns a new key. Two keys are never equal, whatever their names; the name is
// for people.
func NewKey[T any](name string) Key[T] { return Key[T]{&keyID{name}} }

// Need is a service that a plugin declares before it starts. A child may use what the
// nodes above it declared.
type Need struct {
	key  *keyID
	bond bond
}

// Service returns the name of the needed service.
func (n Need) Service() string { return n.key.name }

// bond says how a plugin's life hangs on a service.
type bond int

const (
	required bond = iota
	optional
	tracked
)

// Required makes a plugin wait for the service. The plugin has stopped before an older
// effect of the provider is undone, and starts again with the next provider.
func (k Key[T]) Required() Need { return Need{k.id, required} }

// Optional lets a plugin look the service up when it uses it, see [Key.Current].
// Its coming and going restarts nobody.
func (k Key[T]) Optional() Need { return Need{k.id, optional} }

// Tracked is for a plugin that builds on the service when it is there and does
// without when it is not: it starts either way, and starts again when that changes.
// When the provider itself depends on the plugin, the two would restart each other for
// ever: the plugin fails, with an error that names the cycle. A provider that
// stands below the plugin is none for it.
func (k Key[T]) Tracked() Need { return Need{k.id, tracked} }

// From returns the service of a required need. It panics when the need was not
// declared, or was not declared as required and is not met: that is a mistake in the
// plugin, not a condition to handle.
func (k Key[T]) From(s *Scope) T {
	v, ok := k.Current(s)
	if !ok {
		panic(fmt.Sprintf("%s uses service %q, which need not be there; ask with Current", s.node.path(), k.id.name))
	}
	return v
}

// Current returns the service of a declared need: of a required or tracked one
// what this life started with, of an optional one what is provided right now.
// It reports false when there is none, and panics when the need was not declared.
//
// Nobody waits for the users of an optional service, so use the value at once
// and do not keep it.
func (k Key[T]) Current(s *Scope) (v T, ok bool) {
	need, declared := s.declarationOf(k.id)
	if declared == nil {
		panic(fmt.Sprintf("%s uses service %q without declaring it", s.node.path(), k.id.name))
	}
	p := declared.deps[need]
	if declared.node.needs[need].bond == optional {
		t := s.node.tree
		t.mu.Lock()
		p = t.findLocked(declared.node, k.id)
		t.mu.Unlock()
	}
	if p == nil {
		return v, false
	}
	return p.value.(T), true
}

// declarationOf finds the need for key in s or a scope that it stands in.
func (s *Scope) declarationOf(key *keyID) (need int, by *Scope) {
	for ; s != nil; s = s.node.parent {
		need = slices.IndexFunc(s.node.needs, func(n Need) bool { return n.key == key })
		if need >= 0 {
			return need, s
		}
	}
	return -1, nil
}

// Provide offers v under the key, in the realm of s, until s ends. Plugins that need it
// see it once this plugin is active, and have stopped before its older effects are
// undone. It is an error to provide what is provided in the same realm already, or nil.
func (k Key[T]) Provide(s *Scope, v T) error {
	if any(v) == nil {
		return fmt.Errorf("%s provides nil as service %q", s.node.path(), k.id.name)
	}
	t, r := s.node.tree, s.node.realm
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := r.providers[k.id]; p != nil {
		return fmt.Errorf("%s cannot provide service %q: %s does already", s.node.path(), k.id.name, p.life.node.path())
	}
	p := &provider{key: k.id, value: v, life: s, users: set[*Node]{}}
	if err := s.addLocked(p); err != nil {
		return err
	}
	if r.providers == nil {
		r.providers = map[*keyID]*provider{}
	}
	r.providers[k.id] = p
	s.provides = append(s.provides, k.id)
	t.notifyLocked(r, k.id)
	return nil
}

// provider is one service on offer.
type provider struct {
	effect
	key   *keyID
	value any
	life  *Scope

	// Guarded by tree.mu.
	users     set[*Node] // whose life was given it
	withdrawn bool
}

func (p *provider) name() string { return "provide " + p.key.name }

func (p *provider) undoLocked(context.Context, time.Duration) {
	n := p.life.node
	p.withdrawn = true
	delete(n.realm.providers, p.key)
	n.tree.notifyLocked(n.realm, p.key)
}

// undoneLocked waits until nobody holds the service.
func (p *provider) undoneLocked(ctx context.Context, _ time.Duration) error {
	releasedLocked := func(n *Node) bool { return n.life == nil || !slices.Contains(n.life.deps, p) }
	if err := waitLocked(ctx, releasedLocked, p.users.sorted(compareRows)...); err != nil {
		return fmt.Errorf("service %q is still used: %w", p.key.name, err)
	}
	return nil
}

// offeredLocked reports whether a life that starts now could be given p.
func (p *provider) offeredLocked() bool {
	n := p.life.node
	return !p.withdrawn && n.state == Active && !n.restart && !p.life.shut
}

// findLocked returns the provider that n would get: the nearest realm's, if it is
// active, is not about to stop, and does not stand below n itself.
func (t *Tree) findLocked(n *Node, key *keyID) *provider {
	for r := n.realm; r != nil; r = r.parent {
		if p := r.providers[key]; p != nil && p.offeredLocked() && !n.encloses(p.life.node) {
			return p
		}
		if r.isolates(key) {
			return nil
		}
	}
	return nil
}

// notifyLocked tells those who may see r that these services changed there.
func (t *Tree) notifyLocked(r *realm, keys ...*keyID) {
	for _, key := range keys {
		for n := range r.needers[key] {
			n.reconcileLocked()
		}
	}
}
