package jsonl

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/session"
)

// List looks at each folder once for the time of its log, and then reads the logs, as
// far as they are asked for: the first line, and what a [session.Window] at either end says.
func (b *backend) List(ctx context.Context, f session.Filter) iter.Seq2[session.Info, error] {
	return func(yield func(session.Info, error) bool) {
		logs, err := b.newestFirst()
		if err != nil {
			yield(session.Info{}, fmt.Errorf("list the sessions in %s: %w", b.dir, err))
			return
		}
		cwd := f.Cwd
		if resolved, err := filepath.EvalSymlinks(cwd); err == nil {
			cwd = resolved
		}
		shown := 0
		for _, l := range logs {
			if ctx.Err() != nil {
				yield(session.Info{}, context.Cause(ctx))
				return
			}
			info, ok := b.inspect(l, func(h session.Header) bool {
				return (f.Cwd == "" || h.Cwd == cwd) && (f.IncludeSubagents || h.Origin != session.OriginSubagent)
			})
			if !ok || info.Archived && !f.IncludeArchived {
				continue
			}
			if !yield(info, nil) {
				return
			}
			if shown++; shown == f.Limit {
				return
			}
		}
	}
}

// stored is a log that is there.
type stored struct {
	id       string
	modified time.Time
	size     int64
}

func (b *backend) newestFirst() ([]stored, error) {
	entries, err := b.disk.readDir(b.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	logs := make([]stored, 0, len(entries))
	for _, e := range entries {
		if session.ValidID(e.Name()) != nil {
			continue
		}
		_, path := b.place(e.Name())
		info, err := b.disk.stat(path)
		if err != nil {
			continue // no session, or one that is being made or deleted
		}
		logs = append(logs, stored{e.Name(), info.ModTime(), info.Size()})
	}
	slices.SortFunc(logs, func(a, b stored) int {
		return cmp.Or(b.modified.Compare(a.modified), cmp.Compare(b.id, a.id))
	})
	return logs, nil
}

// inspect reads what lists show of a log, unless wanted says no to its header.
func (b *backend) inspect(l stored, wanted func(session.Header) bool) (session.Info, bool) {
	info := session.Info{Header: session.Header{ID: l.id}, Modified: l.modified, Size: l.size}
	_, path := b.place(l.id)
	f, err := b.disk.open(path, os.O_RDONLY)
	if err != nil {
		info.Err = err
		return info, wanted(info.Header)
	}
	defer func() { _ = f.Close() }() // nothing was written
	head := &events{path: path, lines: lines{f: f, limit: min(l.size, session.Window), block: firstBlock}}
	h, err := head.readHeader()
	info.Err = err
	if h.ID != "" {
		info.Header = h
	}
	if !wanted(info.Header) {
		return info, false
	}
	head.block = session.Window
	for err == nil {
		err = head.glance(&info)
	}
	if from := l.size - session.Window; from > 0 {
		tail := &events{path: path, lines: lines{f: f, start: max(from, session.Window), limit: l.size, block: session.Window}}
		_, err := tail.lines.next() // most likely the end of a line
		for err == nil {
			err = tail.glance(&info)
		}
	}
	return info, true
}

// firstBlock is how much is read for the header alone.
const firstBlock = 1 << 10

// glance takes what lists show from the next line.
func (r *events) glance(info *session.Info) error {
	l, err := r.lines.next()
	if err != nil || !l.whole || l.long {
		if err == nil {
			err = errUnfinished
		}
		return err
	}
	// Most lines are of no interest, and parsing them costs more than reading.
	kind := l.bytes[:min(len(l.bytes), 128)]
	isMeta := bytes.Contains(kind, []byte(`"type":"`+session.Meta+`"`))
	isPrompt := info.Prompt == "" && (bytes.Contains(kind, []byte(`"type":"`+session.InboxQueued+`"`)) ||
		bytes.Contains(kind, []byte(`"type":"`+session.UserMessage+`"`)))
	if !isMeta && !isPrompt {
		return nil
	}
	e, err := session.ParseLine(l.bytes)
	if err != nil {
		return nil // resuming and verify tell; a list goes on
	}
	if isMeta {
		var m session.MetaData
		if json.Unmarshal(e.Data, &m) == nil {
			m.Update(info)
		}
		return nil
	}
	info.Prompt = prompt(e)
	return nil
}

var errUnfinished = errors.New("the line is not whole")

// promptLength is how many characters of a prompt lists get.
const promptLength = 200

// prompt returns the beginning of what a person said, on one line.
func prompt(e session.Event) string {
	var content []llm.Block
	var source llm.Source
	if e.Type == session.InboxQueued {
		var d session.InboxData
		if json.Unmarshal(e.Data, &d) != nil {
			return ""
		}
		content, source = d.Message.Content, d.Message.Source
	} else {
		var d session.InputData
		if json.Unmarshal(e.Data, &d) != nil {
			return ""
		}
		content, source = d.Content, d.Source
	}
	if source.Kind != "" && source.Kind != "user" {
		return ""
	}
	text := strings.Join(strings.Fields(llm.PlainText(content)), " ")
	if runes := []rune(text); len(runes) > promptLength {
		text = string(runes[:promptLength]) + "…"
	}
	return text
}
