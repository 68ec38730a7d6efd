package sessiontest

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dsh-harness/dsh/session"
)

// Memory is a backend that keeps logs as long as the process lives.
type Memory struct {
	mu   sync.Mutex
	logs map[string]*memoryLog
	tick int64
}

// NewMemory returns an empty backend.
func NewMemory() *Memory { return &Memory{logs: map[string]*memoryLog{}} }

// memoryLog is one log. What is stored of it is guarded by Memory.mu.
type memoryLog struct {
	header   session.Header
	events   []session.Event
	held     bool
	modified int64
}

// handle is one opening of a log.
type handle struct {
	m      *Memory
	log    *memoryLog
	next   int64
	closed bool
}

// Create is [session.Persistence.Create].
func (m *Memory) Create(ctx context.Context, h session.Header, seed iter.Seq2[session.Event, error]) (session.Log, error) {
	if err := session.ValidID(h.ID); err != nil {
		return nil, err
	}
	taken, err := m.Has(ctx, h.ID)
	if err == nil && taken {
		err = fmt.Errorf("session %s: %w", h.ID, session.ErrExists)
	}
	if err != nil {
		return nil, err
	}
	l := &handle{m: m, log: &memoryLog{header: h}}
	if seed == nil {
		return l, nil
	}
	var events []session.Event
	for e, err := range seed {
		if err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	return l, l.Append(ctx, events)
}

// Open is [session.Persistence.Open].
func (m *Memory) Open(ctx context.Context, id string, v session.Visitor) (session.Log, session.Opening, error) {
	l, err := m.take(ctx, id)
	if err != nil {
		return nil, session.Opening{}, err
	}
	if v != nil {
		err = v.Header(l.log.header)
		for i := 0; err == nil && i < len(l.log.events); i++ {
			err = v.Event(l.log.events[i])
		}
	}
	if err != nil {
		_ = l.Close() // it never fails
		return nil, session.Opening{}, err
	}
	return l, session.Opening{}, nil
}

func (m *Memory) take(ctx context.Context, id string) (*handle, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	log := m.logs[id]
	if log == nil {
		return nil, fmt.Errorf("session %s: %w", id, session.ErrNotFound)
	}
	if log.held {
		return nil, &session.LockedError{ID: id}
	}
	log.held = true
	return &handle{m: m, log: log, next: int64(len(log.events))}, nil
}

// Load is [session.Persistence.Load].
func (m *Memory) Load(ctx context.Context, id string) (session.View, error) {
	if err := ctx.Err(); err != nil {
		return session.View{}, context.Cause(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	log := m.logs[id]
	if log == nil {
		return session.View{}, fmt.Errorf("session %s: %w", id, session.ErrNotFound)
	}
	return session.NewView(log.header, "memory:"+id, func(ctx context.Context, from int64) iter.Seq2[session.Event, error] {
		return m.read(ctx, log, from)
	}), nil
}

func (m *Memory) read(ctx context.Context, log *memoryLog, from int64) iter.Seq2[session.Event, error] {
	return func(yield func(session.Event, error) bool) {
		m.mu.Lock()
		events := log.events[min(max(from, 0), int64(len(log.events))):len(log.events):len(log.events)]
		m.mu.Unlock()
		for _, e := range events {
			if ctx.Err() != nil {
				yield(session.Event{}, context.Cause(ctx))
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// List is [session.Persistence.List].
func (m *Memory) List(ctx context.Context, f session.Filter) iter.Seq2[session.Info, error] {
	return func(yield func(session.Info, error) bool) {
		m.mu.Lock()
		var logs []*memoryLog
		for _, l := range m.logs {
			logs = append(logs, l)
		}
		slices.SortFunc(logs, func(a, b *memoryLog) int { return int(b.modified - a.modified) })
		m.mu.Unlock()
		shown := 0
		for _, l := range logs {
			if ctx.Err() != nil {
				yield(session.Info{}, context.Cause(ctx))
				return
			}
			info := session.Info{Header: l.header, Modified: time.UnixMilli(l.modified)}
			view, err := m.Load(ctx, l.header.ID)
			if err != nil {
				continue // deleted meanwhile
			}
			sum, err := view.Summary(ctx)
			info.Title, info.Archived, info.Labels, info.Err = sum.State.Title, sum.State.Archived, sum.State.Labels, err
			if f.Cwd != "" && l.header.Cwd != f.Cwd || !f.IncludeSubagents && l.header.Origin == session.OriginSubagent ||
				!f.IncludeArchived && info.Archived {
				continue
			}
			if !yield(info, nil) {
				return
			}
			if shown++; shown == f.Limit {
				return
			}
		}
	}
}

// Has is [session.Persistence.Has].
func (m *Memory) Has(ctx context.Context, id string) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, context.Cause(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hasLocked(id), nil
}

func (m *Memory) hasLocked(id string) bool {
	for other := range m.logs {
		if strings.EqualFold(id, other) {
			return true
		}
	}
	return false
}

// Delete is [session.Persistence.Delete].
func (m *Memory) Delete(ctx context.Context, id string) error {
	l, err := m.take(ctx, id)
	if err != nil {
		return err
	}
	m.mu.Lock()
	delete(m.logs, id)
	m.mu.Unlock()
	return l.Close()
}

// Update is [session.Persistence.Update].
func (m *Memory) Update(ctx context.Context, id string, d session.MetaData) error {
	l, err := m.take(ctx, id)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }() // it never fails
	e, err := session.Draft{Type: session.Meta, Data: d}.Event(l.Next(), time.Now().UnixMilli())
	if err != nil {
		return err
	}
	return l.Append(ctx, []session.Event{e})
}

// Append is [session.Log.Append].
func (l *handle) Append(ctx context.Context, events []session.Event) error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	switch {
	case l.closed:
		return session.ErrClosed
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case len(events) == 0:
		return nil
	}
	for i, e := range events {
		if e.Seq != l.next+int64(i) {
			return fmt.Errorf("event %d, %s, does not follow on event %d", e.Seq, e.Type, l.next+int64(i)-1)
		}
	}
	if l.next == 0 {
		if l.m.hasLocked(l.log.header.ID) {
			return fmt.Errorf("session %s: %w", l.log.header.ID, session.ErrExists)
		}
		l.log.held = true
		l.m.logs[l.log.header.ID] = l.log
	}
	l.log.events = append(l.log.events, events...)
	l.next += int64(len(events))
	l.m.tick++
	l.log.modified = l.m.tick
	return nil
}

// Events is [session.Log.Events].
func (l *handle) Events(ctx context.Context, from int64) iter.Seq2[session.Event, error] {
	return l.m.read(ctx, l.log, from)
}

// Next is [session.Log.Next].
func (l *handle) Next() int64 {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	return l.next
}

// Dir is [session.Log.Dir].
func (l *handle) Dir() string { return "" }

// Close is [session.Log.Close].
func (l *handle) Close() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if !l.closed {
		l.closed = true
		l.log.held = false
	}
	return nil
}
