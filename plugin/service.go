package plugin

import (
	"context"
	"fmt"
	"slices"
)

type keyID struct{ name string }

// Key names a service of type T. Declare one per service, as a package variable
// next to the interface: var Service = plugin.NewKey[Registry]("tools").
type Key[T any] struct{ id *keyID }

// NewKey returns a new key. Two keys are never equal, whatever their names.
func NewKey[T any](name string) Key[T] { return Key[T]{&keyID{name}} }

// Need is a service that a plugin declares before it starts.
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

// Required makes a plugin wait for the service, and start again when its provider is replaced.
func (k Key[T]) Required() Need { return Need{k.id, required} }

// Optional lets a plugin look the service up when it uses it, see [Key.Current].
// Its coming and going restarts nobody.
func (k Key[T]) Optional() Need { return Need{k.id, optional} }

// Tracked is for a plugin that builds on the service when it is there and does
// without when it is not: it starts either way, and starts again when that changes.
// It must not itself provide, directly or not, for the provider of that service:
// the two would restart each other for ever.
func (k Key[T]) Tracked() Need { return Need{k.id, tracked} }

// From returns the service of a required need. It panics when the need was not
// declared: that is a mistake in the plugin, not a condition to handle.
func (k Key[T]) From(s *Scope) T {
	v, ok := k.Current(s)
	if !ok {
		panic(fmt.Sprintf("plugin: %s uses service %q, which need not be there; ask with Current", s.node.path(), k.id.name))
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
		panic(fmt.Sprintf("plugin: %s uses service %q without declaring it", s.node.path(), k.id.name))
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

// declarationOf finds the need for key: a child may use what its parents declared.
func (s *Scope) declarationOf(key *keyID) (need int, by *Scope) {
	for ; s != nil; s = s.node.parent {
		need = slices.IndexFunc(s.node.needs, func(n Need) bool { return n.key == key })
		if need >= 0 {
			return need, s
		}
	}
	return -1, nil
}

// provider is one service on offer.
type provider struct {
	key   *keyID
	value any
	life  *Scope
	users set[*Node] // whose life was given it; guarded by tree.mu
}

// Provide offers v under the key until the scope stops. Plugins that need it
// start once this plugin is active, and have stopped before its older effects are undone.
func (k Key[T]) Provide(s *Scope, v T) error {
	t, r := s.node.tree, s.node.realm
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := r.providers[k.id]; p != nil {
		return fmt.Errorf("plugin: service %q is already provided by %s", k.id.name, p.life.node.path())
	}
	p := &provider{key: k.id, value: v, life: s, users: set[*Node]{}}
	_, err := s.addLocked(&effect{label: "provide " + k.id.name, cleanup: func(ctx context.Context) error {
		return t.withdraw(ctx, r, p)
	}})
	if err != nil {
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

// findLocked returns the provider n would get: the nearest realm, and only
// active providers that are not about to stop and not below n itself.
func (t *Tree) findLocked(n *Node, key *keyID) *provider {
	for r := n.realm; r != nil; r = r.parent {
		if p := r.providers[key]; p != nil && p.life.lastingLocked() && !n.encloses(p.life.node) {
			return p
		}
		if r.isolates(key) {
			return nil
		}
	}
	return nil
}

func (s *Scope) lastingLocked() bool {
	return s.node.state == Active && !s.node.restart && !s.shut
}

// notifyLocked tells those who may see r that these services changed there.
func (t *Tree) notifyLocked(r *Realm, keys ...*keyID) {
	for _, key := range keys {
		for n := range r.needers[key] {
			n.reconcileLocked()
		}
	}
}

// withdraw removes p and waits until nobody holds it.
func (t *Tree) withdraw(ctx context.Context, r *Realm, p *provider) error {
	t.mu.Lock()
	delete(r.providers, p.key)
	t.notifyLocked(r, p.key)
	users := p.users.sorted(compareRows)
	t.mu.Unlock()
	for _, n := range users {
		err := n.wait(ctx, func() bool { return n.life == nil || !slices.Contains(n.life.deps, p) })
		if err != nil {
			return fmt.Errorf("service %q is still used by %s: %w", p.key.name, n.path(), err)
		}
	}
	return nil
}
