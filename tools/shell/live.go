package shell

import (
	"bytes"
	"strings"
	"sync"
	"time"
)

const (
	// liveEvery is how often a surface hears of new output at most.
	liveEvery = 100 * time.Millisecond
	// liveBytes is how much it hears each time; of more it hears the end.
	liveBytes = 8 << 10
)

// live passes output on to surfaces at a rate that they can follow.
type live struct {
	send func(string)

	mu      sync.Mutex
	pending []byte
	timer   *time.Timer // runs while something is pending
	closed  bool
}

func (l *live) write(p []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = append(l.pending, p...)
	if n := len(l.pending) - liveBytes; n > 0 {
		kept := l.pending[n:]
		kept = kept[bytes.IndexByte(kept, '\n')+1:]
		l.pending = append(l.pending[:0], kept...)
	}
	if l.timer == nil && len(l.pending) > 0 {
		l.timer = time.AfterFunc(liveEvery, l.flush)
	}
}

func (l *live) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer = nil
	l.pass()
}

func (l *live) pass() {
	if len(l.pending) > 0 && !l.closed {
		l.send(strings.ToValidUTF8(string(l.pending), "\ufffd"))
		l.pending = l.pending[:0]
	}
}

// close passes on what is pending. Nothing is sent after it.
func (l *live) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
	}
	l.pass()
	l.closed = true
}
