package config

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/dsh-harness/dsh/plugin"
)

// Options say what a program is composed of.
type Options struct {
	Layers      []Layer // in the order in which they are laid on one another
	Plugins     []plugin.Definition
	Environment Environment
}

// Check composes and prepares without starting anything. Its error is of type [Errors].
func Check(o Options) (*Composition, error) {
	c, err := Compose(o.Layers)
	if err != nil {
		return nil, err
	}
	if _, err := c.Prepare(o.Plugins, o.Environment); err != nil {
		return nil, err
	}
	return c, nil
}

// Manager keeps the rows of a loader as the layers say. Any goroutine may use it.
type Manager struct {
	loader  *plugin.Loader
	options Options
	turn    chan struct{} // holds one element; whoever takes it may reload
	current atomic.Pointer[Composition]
}

// NewManager returns a manager that has not loaded anything yet. Nobody else may use the loader.
func NewManager(loader *plugin.Loader, o Options) *Manager {
	m := &Manager{loader: loader, options: o, turn: make(chan struct{}, 1)}
	m.turn <- struct{}{}
	return m
}

// Reload reads the layers afresh and makes the loader run what they say; the first call starts the
// program. It is a transaction: when it returns an error, what ran before runs on. An error of
// type [Errors] means that nothing was touched. A row that is not required may fail and only be
// told of in the report, see [plugin.Loader.Apply].
//
// Calls take turns; a row must not wait for one in its start or stop. When ctx ends, Reload gives
// up waiting for its turn. When ctx ends while the rows are applied, Reload returns its cause and
// the change goes on, as Apply says; Current stays behind until the next Reload, which starts from
// what came of it.
func (m *Manager) Reload(ctx context.Context) (plugin.Report, error) {
	select {
	case <-m.turn:
		defer func() { m.turn <- struct{}{} }()
	case <-ctx.Done():
		return plugin.Report{}, fmt.Errorf("wait for another reload to end: %w", context.Cause(ctx))
	}
	c, err := Compose(m.options.Layers)
	if err != nil {
		return plugin.Report{}, err
	}
	rows, err := c.Prepare(m.options.Plugins, m.options.Environment)
	if err != nil {
		return plugin.Report{}, err
	}
	report, err := m.loader.Apply(ctx, rows)
	if err != nil {
		return report, fmt.Errorf("apply the configuration: %w", err)
	}
	m.current.Store(c)
	return report, nil
}

// Current returns what the last successful [Manager.Reload] composed, or nil before the first.
func (m *Manager) Current() *Composition { return m.current.Load() }
