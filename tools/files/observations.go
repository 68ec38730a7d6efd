package files

import (
	"fmt"
	"hash/maphash"
	"sync"

	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/tool"
)

// observations remembers, for each session, what content its files had when it last read
// or wrote them.
type observations struct {
	seed maphash.Seed

	mu       sync.Mutex
	sessions map[string]map[string]uint64 // by session and path without links
}

func newObservations() *observations {
	return &observations{seed: maphash.MakeSeed(), sessions: map[string]map[string]uint64{}}
}

// hash returns an empty hash of the kind that is remembered.
func (o *observations) hash() *maphash.Hash {
	h := new(maphash.Hash)
	h.SetSeed(o.seed)
	return h
}

func (o *observations) sum(content []byte) uint64 { return maphash.Bytes(o.seed, content) }

// remember notes what s has seen.
func (o *observations) remember(s *session.Session, path string, sum uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	id := idOf(s)
	files := o.sessions[id]
	if files == nil {
		files = map[string]uint64{}
		o.sessions[id] = files
	}
	files[path] = sum
}

// check refuses content that s has not seen as it is.
func (o *observations) check(s *session.Session, name, path string, content []byte) *tool.Result {
	o.mu.Lock()
	sum, known := o.sessions[idOf(s)][path]
	o.mu.Unlock()
	var refused tool.Result
	switch {
	case !known:
		refused = tool.Failure(codeNotRead, fmt.Sprintf("%s exists and was not read since this session was started or resumed: read it, then try again", name))
	case sum != o.sum(content):
		refused = stale(name)
	default:
		return nil
	}
	return &refused
}

func stale(name string) tool.Result {
	return tool.Failure(codeStale, name+" has changed since it was read: read it again, then try again")
}

func (o *observations) forget(session string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.sessions, session)
}

// idOf allows for calls without a session, which programs may make.
func idOf(s *session.Session) string {
	if s == nil {
		return ""
	}
	return s.ID()
}
