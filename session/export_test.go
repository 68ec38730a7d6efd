package session

import "time"

// SetClock replaces the clock of the store that made s.
func SetClock(s *Session, now func() time.Time) { s.store.now = now }

// Busy reports whether the session holds a goroutine.
func Busy(s *Session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lagging || s.telling
}

// InMemory returns how many events the session keeps in memory.
func InMemory(s *Session) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tail.events)
}

// SaveDelay is how long an event may wait for a flush.
const SaveDelay = saveDelay
