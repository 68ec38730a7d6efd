package jsonl

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/session/sessiontest"
)

// FuzzOpen opens any file as a log. Nothing sound is lost, a second opening finds nothing to
// mend, and a log that is refused stays as it is.
func FuzzOpen(f *testing.F) {
	content, events := sixEvents(f)
	f.Add(content)
	f.Add(content[:len(content)-7])
	f.Add([]byte{})
	f.Add([]byte("\n\n\n"))
	f.Add(bytes.Replace(content, []byte("turn/start"), []byte("turn/stunt"), 1))
	f.Add(bytes.Replace(content, events[2].Line(), nil, 1))
	f.Add(append(bytes.Clone(content), "garbage\n"...))
	f.Add(append(bytes.Clone(content), "garbage\ntail"...))
	f.Add(append(append(bytes.Clone(content), events[5].Line()...), '\n'))
	f.Fuzz(func(t *testing.T, content []byte) {
		d := newMemDisk()
		d.put(logPath("s"), content)
		first := openLog(t, d)
		after := d.content(logPath("s"))
		if first.err != nil {
			if !bytes.Equal(after, content) {
				t.Fatal("a log that was refused was changed")
			}
			read(t, d)
			return
		}
		if !bytes.HasPrefix(content, after) || int64(len(content)-len(after)) != first.opening.Cut {
			t.Fatalf("opening cut %d bytes and says %d", len(content)-len(after), first.opening.Cut)
		}
		if first.opening.Copy != "" && !bytes.Equal(d.content(first.opening.Copy), content) {
			t.Fatal("the copy is not the damaged file")
		}
		second := openLog(t, d)
		if second.err != nil || second.opening != (session.Opening{}) || len(second.lines) != len(first.lines) {
			t.Fatalf("the second opening gives %d events instead of %d, %+v, %v", len(second.lines), len(first.lines), second.opening, second.err)
		}
		if n := read(t, d); n < len(first.lines) {
			t.Fatalf("a reader finds %d events, the writer %d", n, len(first.lines))
		}
	})
}

// read reads the log as a view does, which must come to an end, and returns how
// many events it has.
func read(t *testing.T, d *memDisk) (n int) {
	v, err := newBackend(dir, d, time.Now).Load(t.Context(), "s")
	if err != nil {
		return 0
	}
	last := int64(-1)
	for e, err := range v.Events(t.Context(), 0) {
		var damage *session.DamageError
		switch {
		case errors.As(err, &damage):
			if damage.Error() == "" || damage.Bytes < 0 || damage.Next >= 0 && damage.Next < damage.Seq {
				t.Fatalf("the damage is %+v", damage)
			}
		case err != nil && !errors.Is(err, io.EOF):
			t.Fatal(err)
		case e.Seq <= last:
			t.Fatalf("event %d comes behind event %d", e.Seq, last)
		default:
			last = e.Seq
			n++
		}
	}
	return n
}

func FuzzList(f *testing.F) {
	content, _ := sixEvents(f)
	title := "x"
	meta, err := session.Draft{Type: session.Meta, Data: session.MetaData{Title: &title}}.Event(6, 1)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(content)
	f.Add(append(append(bytes.Clone(content), meta.Line()...), '\n'))
	f.Add([]byte("{}\n"))
	f.Add(sessiontest.Header("other").Line())
	f.Fuzz(func(t *testing.T, content []byte) {
		d := newMemDisk()
		d.put(logPath("s"), content)
		n := 0
		for info, err := range newBackend(dir, d, time.Now).List(t.Context(), session.Filter{IncludeArchived: true, IncludeSubagents: true}) {
			if err != nil || info.Header.ID == "" {
				t.Fatalf("the list has %+v, %v", info, err)
			}
			n++
		}
		if n != 1 {
			t.Fatalf("the list has %d sessions, want 1", n)
		}
	})
}
