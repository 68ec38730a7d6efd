package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dsh-harness/dsh/internal/uuid7"
	"github.com/dsh-harness/dsh/plugin"
)

// StorePlugin provides the store of sessions. With a plugin that provides
// sessionPersistence, such as session-jsonl, sessions are kept; that row stands before
// this one, so that it outlasts it when the tree closes. It has no configuration:
//
//	# cordis.yml
//	- id: session-jsonl
//	  plugin: session-jsonl
//	- id: sessions
//	  plugin: sessions
var StorePlugin = plugin.Plugin[struct{}]{
	Name:  "sessions",
	Doc:   "Makes sessions and knows the live ones; a session is the log of one conversation.",
	Needs: []plugin.Need{PersistenceService.Optional()},
	Start: func(_ context.Context, s *plugin.Scope, _ struct{}) error {
		return Service.Provide(s, newStore(s))
	},
}

// store is the [Store].
type store struct {
	scope    *plugin.Scope
	now      func() time.Time
	encoders sync.Pool // of *encoder

	mu      sync.Mutex
	live    map[string]*Session // by lower-case id
	entries uint64
}

func newStore(s *plugin.Scope) *store {
	return &store{
		scope: s, now: time.Now, live: map[string]*Session{},
		encoders: sync.Pool{New: func() any { return newEncoder() }},
	}
}

func (st *store) Prepare(ctx context.Context, o PrepareOptions) (*Session, error) {
	h, err := st.newHeader(o.ID)
	if err != nil {
		return nil, err
	}
	h.Parent, h.Origin, h.Depth = o.Parent, o.Origin, o.Depth
	if h.Cwd, err = resolve(o.Cwd); err != nil {
		return nil, fmt.Errorf("prepare session %s: %w", h.ID, err)
	}
	var log Log
	if p, ok := PersistenceService.Current(st.scope); ok && !o.NoPersist {
		if log, err = p.Create(ctx, h, nil); err != nil {
			return nil, fmt.Errorf("prepare session %s: %w", h.ID, err)
		}
	}
	return st.build(h, log, fold{}, Recovery{})
}

// newHeader returns the header of a session that is to be, whose id is not live.
func (st *store) newHeader(id string) (Header, error) {
	if id == "" {
		id = uuid7.New()
	}
	if err := ValidID(id); err != nil {
		return Header{}, err
	}
	if other, ok := st.Get(id); ok {
		return Header{}, fmt.Errorf("session %s: %w", other.ID(), ErrExists)
	}
	return Header{Version: Version, ID: id, Created: st.now().UnixMilli()}, nil
}

// resolve returns dir as an absolute path without links, so that one folder has one name.
func resolve(dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// build makes a session out of its parts and gives it a place in the store's
// scope, so that it is closed at the latest when the store stops.
func (st *store) build(h Header, log Log, f fold, r Recovery) (*Session, error) {
	f.seed = h.Seed
	s := &Session{
		store: st, header: h, recovery: r, scope: st.scope, fold: f, log: log, quit: make(chan struct{}),
		tail: tail{next: f.next, durable: f.next, told: f.next},
	}
	var err error
	if s.close, err = st.scope.Defer("session "+h.ID, s.teardown); err != nil {
		if log != nil {
			err = errors.Join(err, log.Close())
		}
		return nil, err
	}
	return s, nil
}

func (st *store) Restore(ctx context.Context, id string, o RestoreOptions) (*Session, error) {
	p, ok := PersistenceService.Current(st.scope)
	if !ok {
		return nil, fmt.Errorf("restore session %s: %w", id, ErrNoPersistence)
	}
	if _, ok := st.Get(id); ok {
		return nil, fmt.Errorf("restore session %s: it is live here: %w", id, ErrExists)
	}
	v := new(loader)
	log, opening, err := p.Open(ctx, id, v)
	if err != nil && v.refused != nil {
		location := id
		if view, err := p.Load(ctx, id); err == nil {
			location = view.Location
		}
		err = refused(location, v.at, v.refused)
	}
	if err != nil {
		return nil, fmt.Errorf("restore session %s: %w", id, err)
	}
	s, err := st.build(v.header, log, v.fold, Recovery{Opening: opening})
	if err != nil {
		return nil, err
	}
	if err := s.mend(ctx, o); err != nil {
		return nil, errors.Join(fmt.Errorf("restore session %s: %w", id, err), s.Close(ctx))
	}
	return s, nil
}

// loader folds a log while it is opened.
type loader struct {
	header  Header
	fold    fold
	at      Event // the event that does not fit, without its bytes
	refused error // and why
}

func (l *loader) Header(h Header) error {
	l.header, l.fold.seed = h, h.Seed
	return nil
}

func (l *loader) Event(e Event) error {
	l.refused = l.fold.apply(&e, nil)
	if l.refused != nil {
		l.at = Event{Seq: e.Seq, Type: e.Type}
	}
	return l.refused
}

// mend completes a turn that a crash left open, and makes that durable.
func (s *Session) mend(ctx context.Context, o RestoreOptions) error {
	state := s.fold.state // nobody else has the session yet
	if !state.TurnOpen || o.ContinueTurn && !state.StepOpen {
		return nil
	}
	var turn []Event
	for e, err := range s.log.Events(ctx, s.fold.turnAt) {
		if err != nil {
			return err
		}
		turn = append(turn, e)
	}
	drafts, err := closers(turn, s.fold.header, o.ContinueTurn)
	if err != nil {
		return err
	}
	events := make([]Event, len(drafts))
	enc := s.store.encoder()
	defer s.store.release(enc)
	for i, d := range drafts {
		data, err := enc.encode(d.Data)
		if err != nil {
			return err
		}
		events[i] = d.event(data)
		if d.Type == ToolResult {
			s.recovery.Calls++
		}
	}
	s.recovery.Turn = state.Turn
	// The time of the last event: two repairs of one log are equal.
	if err := s.append(events, turn[len(turn)-1].Time); err != nil {
		return err
	}
	s.mu.Lock()
	s.tail.told = s.tail.next // what happened before this life is not told
	s.mu.Unlock()
	return s.save(ctx, s.Next())
}

func (st *store) Enter(s *Session) (detach func(context.Context) error, err error) {
	if s.store != st {
		return nil, fmt.Errorf("enter session %s: it was prepared by another store", s.ID())
	}
	// A new session's id may have been taken on disk since it was prepared.
	if p, ok := PersistenceService.Current(st.scope); ok && s.isNew() {
		taken, err := p.Has(st.scope.Context(), s.ID())
		if err == nil && taken {
			err = ErrExists
		}
		if err != nil {
			return nil, fmt.Errorf("enter session %s: %w", s.ID(), err)
		}
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	key := strings.ToLower(s.ID())
	if st.live[key] != nil {
		return nil, fmt.Errorf("enter session %s: %w", s.ID(), ErrExists)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state >= closing {
		return nil, fmt.Errorf("enter session %s: %w", s.ID(), ErrClosed)
	}
	st.entries++
	s.entered = st.entries
	st.live[key] = s
	return s.Close, nil
}

// isNew reports whether the session is to be kept and is not yet on disk.
func (s *Session) isNew() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log != nil && s.tail.durable == 0
}

func (st *store) Announce(ctx context.Context, s *Session) error {
	s.mu.Lock()
	if s.state != prepared || s.entered == 0 {
		s.mu.Unlock()
		return fmt.Errorf("announce session %s: it is not live, or was announced before", s.ID())
	}
	s.state = announcing
	s.mu.Unlock()
	// The kernel logs what listeners fail with.
	_ = Created.Emit(ctx, s.Scope(), s)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == announcing {
		s.state = announced
	}
	s.startTelling()
	return nil
}

func (st *store) Get(id string) (*Session, bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	s, ok := st.live[strings.ToLower(id)]
	return s, ok
}

func (st *store) List() []*Session {
	st.mu.Lock()
	defer st.mu.Unlock()
	all := make([]*Session, 0, len(st.live))
	for _, s := range st.live {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *Session) int { return cmp.Compare(a.entered, b.entered) })
	return all
}

// Close makes the session durable, lets its listeners hear the rest of its events, gives
// the log back and, if it was announced, tells [Gone]. Every caller, also a later one, returns
// only after all that, with the same error; when ctx ends first, with its cause, and the
// closing goes on. A listener of the session's own [Committed] does not wait. It must be
// called for every session, also one that was never entered.
func (s *Session) Close(ctx context.Context) error {
	if !s.isTelling(ctx) {
		return s.close(ctx)
	}
	// The closing waits for the listener, so the listener must not wait for it.
	now, cancel := context.WithCancel(ctx)
	cancel()
	_ = s.close(now) // it says only that now has ended
	return nil
}

// teardown closes the session. The kernel runs it once.
func (s *Session) teardown(ctx context.Context) error {
	s.restateMeta()
	s.mu.Lock()
	told := s.state > prepared
	s.state = closing
	close(s.quit)
	s.mu.Unlock()

	err := s.save(ctx, s.Next())
	if told {
		err = errors.Join(err, s.tellRest(ctx))
	}

	s.mu.Lock()
	for s.saving {
		if waited := s.wait(ctx); waited != nil {
			err = errors.Join(err, waited)
			break
		}
	}
	s.state = closed
	s.notify()
	log := s.log
	s.mu.Unlock()

	if log != nil {
		err = errors.Join(err, log.Close())
	}
	st := s.store
	st.mu.Lock()
	if key := strings.ToLower(s.ID()); st.live[key] == s {
		delete(st.live, key)
	}
	st.mu.Unlock()
	if told {
		// The kernel logs what listeners fail with.
		_ = Gone.Emit(context.WithoutCancel(ctx), s.Scope(), s)
	}
	return err
}

// restateMeta writes what the session is called again when that stands where no
// list looks for it.
func (s *Session) restateMeta() {
	s.mu.Lock()
	f := &s.fold
	state := f.state
	lost := s.log != nil && s.failed == nil && f.metaAt > Window/2 && f.size-f.metaAt > Window/2
	s.mu.Unlock()
	if lost {
		// It only makes lists right, so its failure does not keep the session from closing.
		_, _ = s.Append(Draft{Type: Meta, Data: MetaData{Title: &state.Title, Archived: &state.Archived, Labels: &state.Labels}})
	}
}

// tellRest waits until the listeners have heard everything.
func (s *Session) tellRest(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.telling {
		if err := s.wait(ctx); err != nil {
			return fmt.Errorf("session %s: its listeners have not heard everything: %w", s.ID(), err)
		}
	}
	if s.tail.told < s.tail.next {
		s.telling = true
		s.mu.Unlock()
		s.tell(ctx)
		s.mu.Lock()
	}
	return nil
}
