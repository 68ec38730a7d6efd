package session

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrExists: the id of a new session is taken.
	ErrExists = errors.New("a session of that id exists")
	// ErrNotFound: there is no session of that id.
	ErrNotFound = errors.New("there is no session of that id")
	// ErrClosed: the session is closed.
	ErrClosed = errors.New("the session is closed")
	// ErrNoPersistence: no plugin keeps logs.
	ErrNoPersistence = errors.New("no plugin keeps sessions: enable one that provides sessionPersistence, such as session-jsonl")
	// ErrOpenTurn: a fork must not cut through a turn.
	ErrOpenTurn = errors.New("the boundary lies within a turn")
	// ErrBoundary: a fork's boundary is no event of the source.
	ErrBoundary = errors.New("the boundary is no event of the session")
)

// LockedError tells that another writer holds the log.
type LockedError struct {
	ID    string
	Owner Owner // as far as it is known
}

// Owner is who holds a log.
type Owner struct {
	PID     int       `json:"pid,omitempty"`
	Host    string    `json:"host,omitempty"`
	Address string    `json:"address,omitempty"` // where a server that holds it listens
	Since   time.Time `json:"since,omitzero"`
}

func (e *LockedError) Error() string {
	owner := "another process"
	if e.Owner.PID != 0 {
		owner = fmt.Sprintf("process %d on %s since %s", e.Owner.PID, e.Owner.Host, e.Owner.Since.Format(time.RFC3339))
	}
	if e.Owner.Address != "" {
		return fmt.Sprintf("session %s is in use by %s: go on with it there, at %s, or fork the session", e.ID, owner, e.Owner.Address)
	}
	return fmt.Sprintf("session %s is in use by %s: end that one, or fork the session", e.ID, owner)
}

// VersionError tells that a log was written in a newer format.
type VersionError struct {
	Path    string
	Version int
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("%s has format %d and this program reads up to %d: upgrade dsh to use this session", e.Path, e.Version, Version)
}

// UnknownTypeError tells that a log holds an event that must not be skipped and
// that this program does not know. The session can be read, not continued.
type UnknownTypeError struct {
	Type string `json:"type"`
	Seq  int64  `json:"seq"`
	Path string `json:"path"`
}

func (e *UnknownTypeError) Error() string {
	return fmt.Sprintf("%s: event %d has the unknown type %q, written by a newer version of dsh: upgrade dsh to go on with this session, or fork it before that event", e.Path, e.Seq, e.Type)
}

// TooLargeError tells that an event does not fit a line of the log.
type TooLargeError struct {
	Type string
	Size int // bytes
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("an event %s of %d bytes is over the limit of %d: put large content into a file and log its name", e.Type, e.Size, MaxLine)
}

// PoisonedError tells that a log can no longer be written, because nobody knows
// what of the last write is on disk, or somebody else changed the file. Nothing after it is
// acknowledged; close the session and resume it.
type PoisonedError struct {
	Path  string
	Saved string // a file with what was in memory, "" when there was no need
	Err   error
}

func (e *PoisonedError) Error() string {
	if e.Saved != "" {
		return fmt.Sprintf("the log %s can no longer be written: %v; what this process knew of it was saved to %s", e.Path, e.Err, e.Saved)
	}
	return fmt.Sprintf("the log %s can no longer be written: %v; resume the session to go on", e.Path, e.Err)
}

func (e *PoisonedError) Unwrap() error { return e.Err }

// StorageError tells that a session could not be saved. Unless it wraps a
// [*PoisonedError] nothing is lost yet, and saving is tried again with the next
// event or flush.
type StorageError struct {
	ID  string
	Err error
}

func (e *StorageError) Error() string { return fmt.Sprintf("save session %s: %v", e.ID, e.Err) }

func (e *StorageError) Unwrap() error { return e.Err }
