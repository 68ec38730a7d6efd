package jsonl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/dsh-harness/dsh/session"
)

// backend is the [session.Persistence].
type backend struct {
	dir  string // of all sessions
	disk disk
	now  func() time.Time

	mu      sync.Mutex
	open    map[*log]bool
	closed  bool
	address string // where this process is reached; "" for nowhere
}

func newBackend(dir string, d disk, now func() time.Time) *backend {
	return &backend{dir: dir, disk: d, now: now, open: map[*log]bool{}}
}

// close gives all logs back.
func (b *backend) close() error {
	b.mu.Lock()
	b.closed = true
	var open []*log
	for l := range b.open {
		open = append(open, l)
	}
	b.mu.Unlock()
	var errs []error
	for _, l := range open {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// own remembers l until it is closed.
func (b *backend) own(l *log) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return fmt.Errorf("session %s: the backend has stopped: %w", l.header.ID, session.ErrClosed)
	}
	b.open[l] = true
	return nil
}

func (b *backend) disown(l *log) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, l)
}

func (b *backend) Create(ctx context.Context, h session.Header, seed iter.Seq2[session.Event, error]) (session.Log, error) {
	if err := session.ValidID(h.ID); err != nil {
		return nil, err
	}
	if err := b.free(ctx, h.ID); err != nil {
		return nil, err
	}
	l := &log{backend: b, header: h}
	l.dir, l.path = b.place(h.ID)
	if err := b.own(l); err != nil {
		return nil, err
	}
	if seed == nil {
		return l, nil
	}
	if err := l.create(ctx, seed); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (b *backend) Load(ctx context.Context, id string) (session.View, error) {
	if err := ctx.Err(); err != nil {
		return session.View{}, context.Cause(ctx)
	}
	if err := session.ValidID(id); err != nil {
		return session.View{}, err
	}
	_, path := b.place(id)
	r, done, err := b.read(id, path)
	if err != nil {
		return session.View{}, err
	}
	defer done()
	h, err := r.readHeader()
	if err != nil {
		return session.View{}, err
	}
	return session.NewView(h, path, func(ctx context.Context, from int64) iter.Seq2[session.Event, error] {
		return b.eventsOf(ctx, id, path, from)
	}), nil
}

// readBlock is how much of a log is read at a time.
const readBlock = 256 << 10

// read opens a log for reading.
func (b *backend) read(id, path string) (*events, func(), error) {
	f, err := b.disk.open(path, os.O_RDONLY)
	if err != nil {
		return nil, nil, found(id, err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	r := &events{path: path, lines: lines{f: f, limit: info.Size(), block: int(min(readBlock, info.Size()))}}
	return r, func() { _ = f.Close() }, nil // nothing was written, so nothing is lost
}

func (b *backend) eventsOf(ctx context.Context, id, path string, from int64) iter.Seq2[session.Event, error] {
	return func(yield func(session.Event, error) bool) {
		r, done, err := b.read(id, path)
		if err != nil {
			yield(session.Event{}, err)
			return
		}
		defer done()
		if _, err := r.readHeader(); err != nil {
			yield(session.Event{}, err)
			return
		}
		r.readFrom(ctx, from, yield)
	}
}

func (b *backend) Has(ctx context.Context, id string) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, context.Cause(ctx)
	}
	_, path := b.place(id)
	switch _, err := b.disk.stat(path); {
	case err == nil:
		return true, nil
	case !errors.Is(err, os.ErrNotExist):
		return false, err
	case isUUID(id):
		return false, nil // its letters are lower-case, as all of ours
	}
	entries, err := b.disk.readDir(b.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, err
	}
	for _, e := range entries {
		if !strings.EqualFold(e.Name(), id) {
			continue
		}
		_, path := b.place(e.Name())
		if _, err := b.disk.stat(path); err == nil {
			return true, nil
		}
	}
	return false, nil
}

// free returns an error unless id is free.
func (b *backend) free(ctx context.Context, id string) error {
	taken, err := b.Has(ctx, id)
	if err == nil && taken {
		err = fmt.Errorf("session %s: %w", id, session.ErrExists)
	}
	return err
}

// isUUID reports whether id has the form of the ids that we make.
func isUUID(id string) bool {
	if len(id) != 36 {
		return false
	}
	for i := range len(id) {
		switch b := id[i]; {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if b != '-' {
				return false
			}
		case '0' <= b && b <= '9' || 'a' <= b && b <= 'f':
		default:
			return false
		}
	}
	return true
}

func (b *backend) Delete(ctx context.Context, id string) error {
	unlock, err := b.take(ctx, id)
	if err != nil {
		return err
	}
	defer func() { _ = unlock() }() // the file is gone with its folder
	dir, path := b.place(id)
	// The log goes first: a session is there or not, whatever happens to the rest.
	if err := b.disk.removeAll(path); err != nil {
		return err
	}
	if err := b.disk.removeAll(dir); err != nil {
		return err
	}
	return b.disk.syncDir(b.dir)
}

// take locks a stored session.
func (b *backend) take(ctx context.Context, id string) (unlock func() error, err error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if err := session.ValidID(id); err != nil {
		return nil, err
	}
	dir, path := b.place(id)
	if _, err := b.disk.stat(path); err != nil {
		return nil, found(id, err)
	}
	return b.lock(id, dir)
}

// lock takes the lock in dir.
func (b *backend) lock(id, dir string) (unlock func() error, err error) {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	owner, err := json.Marshal(session.Owner{PID: os.Getpid(), Host: host, Address: b.address, Since: b.now().Truncate(time.Second)})
	if err != nil {
		return nil, err
	}
	unlock, holder, err := b.disk.lock(dir+string(os.PathSeparator)+lockName, append(owner, '\n'))
	if err != nil {
		return nil, fmt.Errorf("lock session %s: %w", id, found(id, err))
	}
	if unlock == nil {
		locked := &session.LockedError{ID: id}
		if json.Unmarshal(holder, &locked.Owner) != nil {
			locked.Owner = session.Owner{} // it is only for the message
		}
		return nil, locked
	}
	return unlock, nil
}

func (b *backend) Update(ctx context.Context, id string, m session.MetaData) error {
	l, _, err := b.Open(ctx, id, nil)
	if err != nil {
		return err
	}
	e, err := session.Draft{Type: session.Meta, Data: m}.Event(l.Next(), b.now().UnixMilli())
	if err == nil {
		err = l.Append(ctx, []session.Event{e})
	}
	return errors.Join(err, l.Close())
}

func (b *backend) Open(ctx context.Context, id string, v session.Visitor) (session.Log, session.Opening, error) {
	unlock, err := b.take(ctx, id)
	if err != nil {
		return nil, session.Opening{}, err
	}
	l := &log{backend: b, unlock: unlock}
	l.dir, l.path = b.place(id)
	opening, err := l.open(ctx, id, v)
	if err == nil {
		err = b.own(l)
	}
	if err != nil {
		return nil, session.Opening{}, errors.Join(err, l.release())
	}
	return l, opening, nil
}

// open reads the whole log, shows it to v, and mends its end.
func (l *log) open(ctx context.Context, id string, v session.Visitor) (session.Opening, error) {
	f, err := l.backend.disk.open(l.path, os.O_RDWR|os.O_APPEND)
	if err != nil {
		return session.Opening{}, found(id, err)
	}
	l.file = f
	if l.info, err = f.Stat(); err != nil {
		return session.Opening{}, err
	}
	r := &events{
		path: l.path, visited: v != nil,
		lines: lines{f: f, limit: l.info.Size(), block: int(min(readBlock, l.info.Size())), reuse: true},
	}
	if l.header, err = r.readHeader(); err != nil {
		return session.Opening{}, err
	}
	if l.header.ID != id {
		return session.Opening{}, &session.DamageError{
			Path: l.path, Kind: session.DamageHeader, Line: 1, Next: -1,
			Detail: fmt.Sprintf("the header names session %s: copy a session with fork", l.header.ID),
		}
	}
	if v != nil {
		if err := v.Header(l.header); err != nil {
			return session.Opening{}, err
		}
	}
	end, err := l.visit(ctx, r, v)
	if err != nil {
		return session.Opening{}, err
	}
	l.size = r.after
	l.next.Store(r.expect)
	return l.mend(end)
}

// visit shows the events to v and returns what is wrong at the very end, nil
// when nothing is. Damage before that is an error.
func (l *log) visit(ctx context.Context, r *events, v session.Visitor) (end *session.DamageError, err error) {
	for n := 0; ; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		e, err := r.next()
		if errors.Is(err, io.EOF) {
			return end, nil
		}
		if err != nil {
			if end, err = r.endsWith(end, err); err != nil {
				return nil, err
			}
			continue
		}
		l.index.add(e.Seq, r.sound)
		if v != nil {
			if err := v.Event(e); err != nil {
				return nil, err
			}
		}
	}
}

// endsWith returns the damage at the very end of the log, when err is that: a
// last line that is bad, one that is torn, or both, of which the first counts.
func (r *events) endsWith(end *session.DamageError, err error) (*session.DamageError, error) {
	var d *session.DamageError
	switch {
	case !errors.As(err, &d):
		return nil, err
	case d.Kind != session.DamageTorn && (d.Next >= 0 || r.badRows > 1):
		return nil, d
	case end != nil:
		return end, nil
	}
	return d, nil
}
