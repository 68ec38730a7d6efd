// Package running lets a command reach the processes that run a composition, to have
// them read their configuration again. A process keeps an entry in a folder of the state
// directory, locked for its life, so that an entry which a killed process left behind is
// never mistaken for a live one. The request is SIGHUP and the answer a file beside the entry.
//
// An [Entry] belongs to one goroutine; the functions may be called from any. Systems
// without SIGHUP have no entries.
package running

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/dsh-harness/dsh/internal/atomicfile"
)

// ErrUnsupported tells that this system has no signal to ask a process with.
var ErrUnsupported = errors.New("this system cannot signal a running process: restart it instead")

// Process is one running process.
type Process struct {
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	Dir     string    `json:"dir"`               // the folder that it works in
	Session string    `json:"session,omitempty"` // the session that it works on
	Address string    `json:"address,omitempty"` // where a server is reached, such as unix:/path
	URL     string    `json:"url,omitempty"`     // of its WebSocket
	Version string    `json:"version,omitempty"` // of a server
	// Interface says that a person sits before it: it ends with them.
	Interface bool `json:"interface,omitempty"`
}

// Answer is what became of a request to reload.
type Answer struct {
	Count int      `json:"count"`           // of requests that the process has answered, this one included
	Rows  []string `json:"rows,omitempty"`  // what changed, one line each
	Error string   `json:"error,omitempty"` // why nothing changed
}

// Entry makes this process known.
type Entry struct {
	path    string
	lock    *flock.Flock
	answers int
}

// Register makes p, which must be this process, known below dir, which is made if need be.
func Register(ctx context.Context, dir string, p Process) (*Entry, error) {
	if !supported {
		return nil, ErrUnsupported
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, strconv.Itoa(p.PID))
	e := &Entry{path: path, lock: flock.New(path, flock.SetPermissions(0o600))}
	// A list may hold the lock for an instant, to see whether somebody else does.
	if _, err := e.lock.TryLockContext(ctx, time.Millisecond); err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	_ = os.Remove(e.answer()) // of a process that had this number before
	if err := os.WriteFile(path, text, 0o600); err != nil {
		e.Remove()
		return nil, err
	}
	return e, nil
}

// Answer tells who asked what became of it, and counts.
func (e *Entry) Answer(rows []string, failed error) error {
	e.answers++
	a := Answer{Count: e.answers, Rows: rows}
	if failed != nil {
		a.Error = failed.Error()
	}
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return atomicfile.Write(e.answer(), text, 0o600)
}

// Remove makes the process unknown.
func (e *Entry) Remove() {
	// The process ends: who finds a leftover sees that nobody holds its lock.
	_ = os.Remove(e.answer())
	_ = os.Remove(e.path)
	_ = e.lock.Unlock()
}

func (e *Entry) answer() string { return e.path + ".reloaded" }

// List returns the running processes that have an entry below dir, the longest running first, and
// removes entries of processes that are gone. A dir that does not exist has none.
func List(dir string) ([]Process, error) {
	if !supported {
		return nil, ErrUnsupported
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var live []Process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue // an answer
		}
		if p, ok := look(filepath.Join(dir, entry.Name()), pid); ok {
			live = append(live, p)
		}
	}
	slices.SortStableFunc(live, func(a, b Process) int { return a.Started.Compare(b.Started) })
	return live, nil
}

// look reads the entry at path if somebody holds it.
func look(path string, pid int) (Process, bool) {
	lock := flock.New(path, flock.SetFlag(os.O_RDONLY), flock.SetPermissions(0o600))
	free, err := lock.TryRLock()
	if err != nil {
		return Process{}, false // it has gone meanwhile, or is not ours
	}
	if free {
		_ = lock.Unlock()
		if !exists(pid) { // else it may be about to take the lock
			_ = os.Remove(path)
			_ = os.Remove(path + ".reloaded")
		}
		return Process{}, false
	}
	text, err := os.ReadFile(path)
	var p Process
	if err != nil || json.Unmarshal(text, &p) != nil || p.PID != pid {
		return Process{}, false // it has not written yet, so nobody waits for it
	}
	return p, true
}

// Reload asks the process of an entry below dir to read its configuration again, and waits
// for its answer or for the end of ctx.
func Reload(ctx context.Context, dir string, p Process) (Answer, error) {
	path := filepath.Join(dir, strconv.Itoa(p.PID)+".reloaded")
	before := read(path)
	if err := hangup(p.PID); err != nil {
		return Answer{}, fmt.Errorf("ask process %d to reload: %w", p.PID, err)
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if a := read(path); a.Count > before.Count {
			return a, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return Answer{}, fmt.Errorf("process %d was asked to reload and has not answered: %w", p.PID, context.Cause(ctx))
		}
		if !exists(p.PID) {
			return Answer{}, fmt.Errorf("process %d ended before it answered", p.PID)
		}
	}
}

// read returns the answer at path; no answer is one that counts 0.
func read(path string) (a Answer) {
	if text, err := os.ReadFile(path); err == nil {
		if json.Unmarshal(text, &a) != nil {
			return Answer{}
		}
	}
	return a
}

// String returns the process in one line, for people.
func (p Process) String() string {
	parts := []string{fmt.Sprintf("process %d in %s", p.PID, p.Dir)}
	if p.Session != "" {
		parts = append(parts, "session "+p.Session)
	}
	return strings.Join(parts, ", ")
}
