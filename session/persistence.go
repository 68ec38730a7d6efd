package session

import (
	"context"
	"iter"
	"time"

	"github.com/dsh-harness/dsh/plugin"
)

// PersistenceService is the key of the backend that keeps logs. The store works
// without one; then sessions end with the process.
var PersistenceService = plugin.NewKey[Persistence]("sessionPersistence")

// Persistence keeps logs. It is used by many goroutines. A call whose context is
// over returns the context's cause and has changed nothing.
type Persistence interface {
	// Create returns the log of a new session. With a nil seed nothing is stored
	// before the first Append, so an abandoned session leaves nothing behind. With a
	// seed the log is stored at once, whole or not at all. An id that is taken, also
	// in another case, is an [ErrExists].
	Create(ctx context.Context, h Header, seed iter.Seq2[Event, error]) (Log, error)
	// Open takes a stored log for writing and shows it to v, which may be nil. When
	// v fails, or the log is damaged before its end ([*DamageError]), newer than
	// this program ([*VersionError]), held by another writer ([*LockedError]) or
	// absent ([ErrNotFound]), nothing is changed. What a crash left half written
	// at the end is cut off, and Opening tells.
	Open(ctx context.Context, id string, v Visitor) (Log, Opening, error)
	// Load reads a stored log as it is, without taking it.
	Load(ctx context.Context, id string) (View, error)
	// List returns what is stored, the last changed first. A session without
	// events is not stored. Breaking out early costs no more than what was seen.
	List(ctx context.Context, f Filter) iter.Seq2[Info, error]
	// Has reports whether id is taken, also in another case.
	Has(ctx context.Context, id string) (bool, error)
	// Delete removes a stored session with all that belongs to it. It takes the
	// log first, so a session in use is a [*LockedError].
	Delete(ctx context.Context, id string) error
	// Update changes what may change of a stored session by appending a
	// session/meta event. It takes the log for that long.
	Update(ctx context.Context, id string, m MetaData) error
}

// Visitor sees a log while it is opened: its header, then each event in order. An
// error ends the opening and is returned as it is. The bytes of an event are only valid during
// the call.
type Visitor interface {
	Header(Header) error
	Event(Event) error
}

// Log is a log that this process writes. Append and Close are called by one
// goroutine at a time, Events by any.
type Log interface {
	// Append makes events durable, all or none: when it returns nil they survive
	// the loss of power. The first must follow on what is stored, each on the one before
	// it. After a [*PoisonedError] every call fails; after another error the log is as before and the
	// same events may be tried again. After Close, also when the backend went away, it returns
	// [ErrClosed]. The first Append of a new log may find the id taken meanwhile: [ErrExists].
	Append(ctx context.Context, events []Event) error
	// Events returns the stored events beginning with from, also after Close.
	Events(ctx context.Context, from int64) iter.Seq2[Event, error]
	// Next is the sequence number that the next event must have.
	Next() int64
	// Dir is the folder for what belongs to the session beside the log, or "". It
	// exists once an event is stored.
	Dir() string
	// Close gives the log back. It is idempotent.
	Close() error
}

// Opening tells what [Persistence.Open] found at the end of a log.
type Opening struct {
	// Cut is how many bytes were cut off the end because a write was not complete,
	// so nobody was told that it was.
	Cut int64
	// Copy names the copy of the log that was made because its last line was
	// complete and wrong: it may have been acknowledged before it was damaged.
	Copy string
}

// Window is how many bytes at either end of a log a backend looks through for
// what lists show. When a session is closed, a session/meta is written again that would
// be too far from both.
const Window = 64 << 10

// Filter chooses sessions.
type Filter struct {
	Cwd              string // only sessions of this folder, links resolved; "" is any
	IncludeArchived  bool
	IncludeSubagents bool
	Limit            int // at most so many; 0 is no limit
}

// Info is a stored session as lists show it.
type Info struct {
	Header   Header
	Modified time.Time // of the last change
	Size     int64     // bytes of the log
	Title    string
	Prompt   string // the beginning of the first prompt of a person
	Archived bool
	Labels   []string
	// Err tells why the session cannot be resumed, as far as its header shows; then the rest may be empty.
	Err error
}
