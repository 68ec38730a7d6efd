package jsonl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/dsh-harness/dsh/session"
)

// log is a [session.Log].
type log struct {
	backend *backend
	header  session.Header
	dir     string
	path    string
	next    atomic.Int64
	index   index

	mu     sync.Mutex
	unlock func() error // nil while the lock is not held
	file   file         // nil before the first append
	info   fs.FileInfo  // which file that is
	size   int64        // of the log as we know it
	buf    []byte
	failed error
	closed bool
}

func (l *log) Next() int64 { return l.next.Load() }
func (l *log) Dir() string { return l.dir }

// Append writes a batch with one write and one sync. Of a failed write nothing
// stays. After a failed sync nobody knows what the disk holds, and asking it again may
// get a wrong answer, so that is the end of this log's writing.
func (l *log) Append(ctx context.Context, batch []session.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return fmt.Errorf("%s: %w", l.path, session.ErrClosed)
	case l.failed != nil:
		return l.failed
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case len(batch) == 0:
		return nil
	}
	for i, e := range batch {
		if e.Seq != l.Next()+int64(i) {
			return fmt.Errorf("%s: event %d, %s, does not follow on event %d", l.path, e.Seq, e.Type, l.Next()+int64(i)-1)
		}
	}
	if l.file == nil {
		return l.create(ctx, func(yield func(session.Event, error) bool) {
			for _, e := range batch {
				if !yield(e, nil) {
					return
				}
			}
		})
	}
	if err := l.unchanged(batch); err != nil {
		return err
	}
	l.buf = l.buf[:0]
	for _, e := range batch {
		l.buf = append(append(l.buf, e.Line()...), '\n')
	}
	if err := l.write(l.buf); err != nil {
		return err
	}
	l.note(batch, l.size)
	l.size += int64(len(l.buf))
	if cap(l.buf) > keptBuffer {
		l.buf = nil
	}
	return nil
}

// keptBuffer is the largest write buffer that is kept for the next batch.
const keptBuffer = 256 << 10

// write appends p to the file, durably.
func (l *log) write(p []byte) error {
	if _, err := l.file.Write(p); err != nil {
		if cut := l.file.Truncate(l.size); cut != nil {
			return l.poison("", errors.Join(err, cut))
		}
		return fmt.Errorf("write %s: %w", l.path, err)
	}
	if err := l.file.sync(); err != nil {
		return l.poison("", err)
	}
	return nil
}

// poison ends the writing of the log for good.
func (l *log) poison(saved string, err error) error {
	l.failed = &session.PoisonedError{Path: l.path, Saved: saved, Err: err}
	return l.failed
}

// note takes events into the index that begin at offset, and counts them.
func (l *log) note(batch []session.Event, offset int64) {
	for _, e := range batch {
		n := int64(len(e.Line())) + 1
		l.index.add(e.Seq, line{start: offset, next: offset + n})
		offset += n
	}
	l.next.Add(int64(len(batch)))
}

// create stores the log with its first events, whole or not at all.
func (l *log) create(ctx context.Context, first iter.Seq2[session.Event, error]) (err error) {
	d := l.backend.disk
	// Another process may have made a session of that id since Create.
	if err := l.backend.free(ctx, l.header.ID); err != nil {
		return err
	}
	if err := d.mkdir(l.dir); err != nil {
		return fmt.Errorf("create session %s: %w", l.header.ID, err)
	}
	if l.unlock == nil {
		if l.unlock, err = l.backend.lock(l.header.ID, l.dir); err != nil {
			return err
		}
	}
	if err := l.backend.free(ctx, l.header.ID); err != nil {
		return err
	}
	temp := l.dir + string(os.PathSeparator) + newName
	f, err := d.open(temp, os.O_CREATE|os.O_TRUNC|os.O_RDWR|os.O_APPEND)
	if err != nil {
		return fmt.Errorf("create session %s: %w", l.header.ID, err)
	}
	events, size, err := l.fill(f, first)
	if err != nil {
		return errors.Join(fmt.Errorf("create session %s: %w", l.header.ID, err), f.Close(), d.removeAll(temp))
	}
	// Closed before it gets its name: Windows renames no file that is open.
	if err := errors.Join(f.sync(), f.Close()); err != nil {
		return l.poison("", err)
	}
	if err := d.rename(temp, l.path); err != nil {
		return errors.Join(fmt.Errorf("create session %s: %w", l.header.ID, err), d.removeAll(temp))
	}
	if l.file, err = d.open(l.path, os.O_RDWR|os.O_APPEND); err == nil {
		l.info, err = l.file.Stat()
	}
	err = errors.Join(err, d.syncDir(l.dir), d.syncDir(l.backend.dir))
	if err != nil {
		return l.poison("", err)
	}
	l.note(events, size.header)
	l.size = size.all
	return nil
}

// createBlock is how much of a copied log is written at a time.
const createBlock = 1 << 20

type sizes struct{ header, all int64 }

// fill writes the header and events to f. It returns the events with nothing but
// what the index needs.
func (l *log) fill(f file, events iter.Seq2[session.Event, error]) (noted []session.Event, size sizes, err error) {
	buf := append(l.header.Line(), '\n')
	size.header = int64(len(buf))
	write := func() {
		if err == nil {
			_, err = f.Write(buf)
			size.all += int64(len(buf))
			buf = buf[:0]
		}
	}
	for e, failed := range events {
		switch {
		case failed != nil:
			return nil, size, failed
		case e.Seq != int64(len(noted)):
			return nil, size, fmt.Errorf("event %d, %s, does not follow on event %d", e.Seq, e.Type, len(noted)-1)
		}
		buf = append(append(buf, e.Line()...), '\n')
		noted = append(noted, e)
		if len(buf) >= createBlock {
			write()
		}
	}
	if len(noted) == 0 {
		return nil, size, errors.New("it has no events")
	}
	write()
	return noted, size, err
}

// mend cuts what is wrong off the end of a log that was just opened, and makes
// durable what is left: it may have been written and not synced before a crash.
func (l *log) mend(end *session.DamageError) (session.Opening, error) {
	var o session.Opening
	if end != nil {
		if end.Kind != session.DamageTorn {
			saved, err := l.save("corrupt", l.info.Size(), nil)
			if err != nil {
				return o, err
			}
			o.Copy = saved
		}
		o.Cut = l.info.Size() - l.size
		if err := l.file.Truncate(l.size); err != nil {
			return o, fmt.Errorf("cut the damaged end off %s: %w", l.path, err)
		}
	}
	if err := l.file.sync(); err != nil {
		return o, fmt.Errorf("sync %s: %w", l.path, err)
	}
	return o, nil
}

// unchanged returns an error when somebody else has changed the file, and saves what
// is known of the session.
func (l *log) unchanged(batch []session.Event) error {
	info, err := l.backend.disk.stat(l.path)
	what := ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		what = "it was deleted"
	case err != nil:
		return fmt.Errorf("look at %s: %w", l.path, err)
	case !l.backend.disk.same(info, l.info):
		what = "it was replaced by another file"
	case info.Size() < l.size:
		what = "it was truncated"
	case info.Size() > l.size:
		what = "another program wrote to it"
	default:
		return nil
	}
	// A file that was deleted can still be read by who has it open.
	saved, err := l.save("rescued", l.size, batch)
	if err != nil {
		return l.poison("", errors.Join(errors.New(what), fmt.Errorf("and what is in memory could not be saved: %w", err)))
	}
	return l.poison(saved, errors.New(what))
}

// save copies the first size bytes of the log, as far as they are there, and
// then batch, to a new file beside it.
func (l *log) save(kind string, size int64, batch []session.Event) (name string, err error) {
	d := l.backend.disk
	if err := d.mkdir(l.dir); err != nil {
		return "", err
	}
	name = fmt.Sprintf("%s.%s-%d", l.path, kind, l.backend.now().UnixMilli())
	f, err := d.open(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(f, io.NewSectionReader(l.file, 0, size))
	for _, e := range batch {
		if err == nil {
			_, err = f.Write(append(e.Line()[:len(e.Line()):len(e.Line())], '\n'))
		}
	}
	if err == nil {
		err = f.sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("save a copy of %s: %w", l.path, err)
	}
	return name, d.syncDir(l.dir)
}

func (l *log) Events(ctx context.Context, from int64) iter.Seq2[session.Event, error] {
	return func(yield func(session.Event, error) bool) {
		at := l.index.find(from)
		if at.offset == 0 {
			for e, err := range l.backend.eventsOf(ctx, l.header.ID, l.path, from) {
				if !yield(e, err) {
					return
				}
			}
			return
		}
		r, done, err := l.backend.read(l.header.ID, l.path)
		if err != nil {
			yield(session.Event{}, err)
			return
		}
		defer done()
		r.start, r.expect, r.inside = at.offset, at.seq, true
		r.readFrom(ctx, from, yield)
	}
}

func (l *log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	l.backend.disown(l)
	return l.release()
}

// release gives the file and the lock back.
func (l *log) release() error {
	var errs []error
	if l.file != nil {
		errs = append(errs, l.file.Close())
	}
	if l.unlock != nil {
		errs = append(errs, l.unlock())
	}
	return errors.Join(errs...)
}

// index knows where some events are in the file, one for each stretch of it.
type index struct {
	mu     sync.Mutex
	points []point
}

type point struct{ seq, offset int64 }

// stretch is how far two points of an index are apart, in bytes.
const stretch = 64 << 10

func (x *index) add(seq int64, l line) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if n := len(x.points); n == 0 || l.start-x.points[n-1].offset >= stretch {
		x.points = append(x.points, point{seq, l.start})
	}
}

// find returns the last point that is not behind seq, zero when there is none.
func (x *index) find(seq int64) point {
	x.mu.Lock()
	defer x.mu.Unlock()
	i := sort.Search(len(x.points), func(i int) bool { return x.points[i].seq > seq })
	if i == 0 {
		return point{}
	}
	return x.points[i-1]
}
