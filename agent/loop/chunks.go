package loop

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/session"
)

// Streamed text is logged when this much of it or this much time has gathered: a crash
// loses no more than that of what somebody saw. An answer that ends sooner is
// logged once, as its message.
const (
	chunkBytes = 16 << 10
	chunkTime  = time.Second
)

// chunkWriter logs the text of one answer while it streams.
type chunkWriter struct {
	session *session.Session
	data    session.ChunkData

	mu     sync.Mutex
	size   int // of what is not logged yet
	texts  []*chunkText
	timer  *time.Timer
	closed bool
	err    error
}

// chunkText is text of one block that is not logged yet.
type chunkText struct {
	index int
	kind  llm.BlockType
	text  strings.Builder
}

func newChunkWriter(s *session.Session, at agent.Step) *chunkWriter {
	return &chunkWriter{session: s, data: session.ChunkData{Turn: at.Turn, Step: at.Step}}
}

// add takes the next chunk. Only text and reasoning are logged before the message.
func (w *chunkWriter) add(c llm.Chunk) {
	if c.Kind != llm.ChunkDelta || c.Text == "" || c.Block != llm.BlockText && c.Block != llm.BlockReasoning {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	last := len(w.texts) - 1
	if last < 0 || w.texts[last].index != c.Index || w.texts[last].kind != c.Block {
		w.texts = append(w.texts, &chunkText{index: c.Index, kind: c.Block})
		last++
	}
	w.texts[last].text.WriteString(c.Text)
	w.size += len(c.Text)
	switch {
	case w.size >= chunkBytes:
		w.writeLocked()
	case w.timer == nil:
		w.timer = time.AfterFunc(chunkTime, w.tick)
	}
}

// tick logs what gathered in a second and makes it durable. It runs on the
// timer's goroutine, which ends with it; close keeps it from touching the log later.
func (w *chunkWriter) tick() {
	w.mu.Lock()
	w.timer = nil
	if w.closed || w.size == 0 {
		w.mu.Unlock()
		return
	}
	w.writeLocked()
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	if err := w.session.Flush(ctx); err != nil {
		w.mu.Lock()
		w.err = err
		w.mu.Unlock()
	}
}

func (w *chunkWriter) writeLocked() {
	data := w.data
	for _, t := range w.texts {
		data.Deltas = append(data.Deltas, session.ChunkText{Index: t.index, Kind: t.kind, Text: t.text.String()})
	}
	w.texts, w.size = nil, 0
	if _, err := w.session.Append(session.Draft{Type: session.AssistantChunk, Data: data}); err != nil && w.err == nil {
		w.err = err
	}
}

// close ends the writing: what is not logged yet comes with the message. It returns what failed.
func (w *chunkWriter) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.timer != nil {
		w.timer.Stop()
	}
	return w.err
}
