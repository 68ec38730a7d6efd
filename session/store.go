package session

import (
	"context"

	"github.com/dsh-harness/dsh/plugin"
)

// Service is the key of the store.
var Service = plugin.NewKey[Store]("sessions")

// What sessions tell, dispatched at [Session.Scope]. A listener that fails reaches nobody else.
var (
	// Created tells that a session is known: session/created.
	Created = plugin.NewEmit[*Session]("session/created")
	// Gone tells that a session that was announced is closed: session/disposed.
	Gone = plugin.NewEmit[*Session]("session/disposed")
	// Committed tells each event of a session, in order, after it is in the log's
	// memory: session/event. It runs on a goroutine of the session, never on the one that
	// appended; listeners may append. It may not be durable yet: what leaves the
	// process uses [Session.Follow].
	Committed = plugin.NewEmit[EventNotice]("session/event")
	// Flushing is the barrier: session/flush. [Session.Flush] returns when all
	// listeners have made durable what they know of the session.
	Flushing = plugin.NewParallel[*Session]("session/flush")
)

// EventNotice is what [Committed] tells.
type EventNotice struct {
	Session *Session
	Event   Event
}

// Store makes sessions and knows the live ones. It is used by many goroutines.
type Store interface {
	// Prepare builds a session that nobody sees yet. A taken id is an [ErrExists].
	Prepare(ctx context.Context, o PrepareOptions) (*Session, error)
	// Restore prepares a stored session for going on: it takes the log, and closes what a crash
	// left open. Without persistence it fails with [ErrNoPersistence]; see
	// [Persistence.Open] for the other errors, and [*UnknownTypeError].
	Restore(ctx context.Context, id string, o RestoreOptions) (*Session, error)
	// Enter makes a prepared session live, unless its id has become taken
	// meanwhile ([ErrExists]). Detach undoes this one entry and closes the session, see
	// [Session.Close]; it never touches a later session of the same id.
	Enter(s *Session) (detach func(context.Context) error, err error)
	// Announce tells [Created], once; from then on [Committed] tells the session's events.
	Announce(ctx context.Context, s *Session) error
	// Get returns the live session of that id.
	Get(id string) (*Session, bool)
	// List returns the live sessions in the order in which they were entered.
	List() []*Session
	// Fork copies a session up to an event into a new one that is stored, not live.
	Fork(ctx context.Context, o ForkOptions) (Header, error)
	// Update changes the title, the archive mark or the labels of a session, live or stored.
	Update(ctx context.Context, id string, m MetaData) error
	// Verify reads a stored session and reports everything that is wrong with it.
	// The error is for what kept it from reading.
	Verify(ctx context.Context, id string) (Report, error)
	// Repair copies what is sound of a damaged session into a new one and leaves
	// the original as it is.
	Repair(ctx context.Context, id string) (Repaired, error)
}

// PrepareOptions describe a new session.
type PrepareOptions struct {
	ID     string // "" for a new UUIDv7; see [ValidID]
	Cwd    string // made absolute, links resolved
	Parent string
	Origin string
	Depth  int
	// NoPersist keeps the session in memory only.
	NoPersist bool
}

// RestoreOptions say how a session goes on.
type RestoreOptions struct {
	// ContinueTurn leaves a turn that a crash cut off open, with all its calls
	// answered, so that it goes on at its next step.
	ContinueTurn bool
}

// ForkOptions say what to copy.
type ForkOptions struct {
	ID string // of the source, live or stored
	// At is the last event that is copied; nil is the last one there is. It
	// must not lie within a turn.
	At    *int64
	NewID string // "" for a new UUIDv7
}
