package server

import (
	"log/slog"
	"sync"
	"time"
)

// refusalsLogged bounds the refusals that are logged in one minute: whoever knocks may not fill the disk.
const refusalsLogged = 20

// refusals logs who was turned away.
type refusals struct {
	log *slog.Logger

	mu     sync.Mutex
	since  time.Time
	logged int
	silent int
}

func newRefusals(log *slog.Logger) *refusals { return &refusals{log: log} }

func (r *refusals) note(what string, err error) {
	r.mu.Lock()
	now := time.Now()
	silent := 0
	if now.Sub(r.since) > time.Minute {
		silent = r.silent
		r.since, r.logged, r.silent = now, 0, 0
	}
	quiet := r.logged >= refusalsLogged
	if quiet {
		r.silent++
	} else {
		r.logged++
	}
	r.mu.Unlock()
	if silent > 0 {
		r.log.Warn("more was refused than was logged", "count", silent)
	}
	if !quiet {
		r.log.Warn("refused "+what, "err", err)
	}
}
