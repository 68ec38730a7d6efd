// Package sessiontest helps to test what has to do with sessions: a store in a
// tree of its own, a backend in memory, and the contract that every backend keeps. It is
// for tests only; what it returns may be used from any goroutine unless it says otherwise.
package sessiontest

import (
	"context"
	"testing"
	"time"

	"github.com/dsh-harness/dsh/plugin"
	"github.com/dsh-harness/dsh/session"
)

// Env is a store that runs in a tree of its own.
type Env struct {
	Store session.Store
	// Scope may use the store and the backend, and is where a test registers its listeners.
	Scope *plugin.Scope
	tree  *plugin.Tree
	t     testing.TB

	forgiven bool
}

// Run starts a store over p, which may be nil. It is closed with the test.
func Run(t testing.TB, p session.Persistence) *Env {
	t.Helper()
	return start(t, func(s *plugin.Scope) error {
		if p == nil {
			return nil
		}
		_, err := s.Mount("backend", nil, func(_ context.Context, s *plugin.Scope) error {
			return session.PersistenceService.Provide(s, p)
		})
		return err
	})
}

// RunPlugin starts a store over the backend that a plugin provides, with the config
// that configure has filled in. It is closed with the test.
func RunPlugin[C any](t testing.TB, p plugin.Plugin[C], configure func(*C)) *Env {
	t.Helper()
	return start(t, func(s *plugin.Scope) error {
		var config C
		configure(&config)
		_, err := s.Mount(p.Name, p.Needs, func(ctx context.Context, s *plugin.Scope) error {
			return p.Start(ctx, s, config)
		})
		return err
	})
}

func start(t testing.TB, backend func(*plugin.Scope) error) *Env {
	t.Helper()
	e := &Env{tree: plugin.New(nil), t: t}
	t.Cleanup(e.Close)
	root := e.tree.Root()
	if err := backend(root); err != nil {
		t.Fatal(err)
	}
	store := session.StorePlugin
	_, err := root.Mount(store.Name, store.Needs, func(ctx context.Context, s *plugin.Scope) error {
		return store.Start(ctx, s, struct{}{})
	})
	if err != nil {
		t.Fatal(err)
	}
	needs := []plugin.Need{session.Service.Required(), session.PersistenceService.Optional()}
	if _, err := root.Mount("test", needs, func(_ context.Context, s *plugin.Scope) error {
		e.Store, e.Scope = session.Service.From(s), s
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := e.tree.Settle(ctx); err != nil {
		t.Fatal(err)
	}
	return e
}

// Close stops everything, which closes all sessions. Again does nothing.
func (e *Env) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := e.tree.Close(ctx); err != nil && !e.forgiven {
		e.t.Errorf("close the store: %v", err)
	}
}

// Persistence returns the backend.
func (e *Env) Persistence() session.Persistence {
	p, ok := session.PersistenceService.Current(e.Scope)
	if !ok {
		e.t.Fatal("there is no backend")
	}
	return p
}

// New prepares, enters and announces a session.
func (e *Env) New(o session.PrepareOptions) *session.Session {
	e.t.Helper()
	s, err := e.Store.Prepare(e.t.Context(), o)
	if err != nil {
		e.t.Fatal(err)
	}
	e.Go(s)
	return s
}

// Resume restores, enters and announces a session.
func (e *Env) Resume(id string, o session.RestoreOptions) *session.Session {
	e.t.Helper()
	s, err := e.Store.Restore(e.t.Context(), id, o)
	if err != nil {
		e.t.Fatal(err)
	}
	e.Go(s)
	return s
}

// Go enters and announces a session.
func (e *Env) Go(s *session.Session) {
	e.t.Helper()
	if _, err := e.Store.Enter(s); err != nil {
		e.t.Fatal(err)
	}
	if err := e.Store.Announce(e.t.Context(), s); err != nil {
		e.t.Fatal(err)
	}
}

// forgive makes Close accept that something could not be saved.
func (e *Env) forgive() { e.forgiven = true }
