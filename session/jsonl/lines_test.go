package jsonl

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dsh-harness/dsh/session"
)

func readLines(t tb, l *lines) (got []line, texts []string) {
	t.Helper()
	for {
		v, err := l.next()
		if errors.Is(err, io.EOF) {
			return got, texts
		}
		if err != nil {
			t.Fatal(err)
		}
		got, texts = append(got, v), append(texts, string(v.bytes))
	}
}

type tb interface {
	Helper()
	Fatal(args ...any)
}

func TestLinesAreThoseOfTheFileWhateverTheBlock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		content := rapid.StringMatching(`([a-z]{0,9}\n){0,6}[a-z]{0,9}`).Draw(t, "content")
		from := rapid.IntRange(0, len(content)).Draw(t, "from")
		l := &lines{
			f: strings.NewReader(content), limit: int64(len(content)), start: int64(from),
			block: rapid.IntRange(1, 12).Draw(t, "block"), reuse: rapid.Bool().Draw(t, "reuse"),
		}
		got, texts := readLines(t, l)
		want := strings.Split(content[from:], "\n")
		if want[len(want)-1] == "" {
			want = want[:len(want)-1]
		}
		at := int64(from)
		for i, v := range got {
			if i >= len(want) || texts[i] != want[i] || v.start != at || v.long {
				t.Fatalf("line %d is %q at %d, want %q at %d", i, texts[i], v.start, want[min(i, len(want)-1)], at)
			}
			at = v.next
		}
		if len(got) != len(want) || at != int64(len(content)) {
			t.Fatalf("there are %d lines up to byte %d, want %d up to %d", len(got), at, len(want), len(content))
		}
		if n := len(got); n > 0 && got[n-1].whole != strings.HasSuffix(content, "\n") {
			t.Fatalf("the last line is whole: %v", got[n-1].whole)
		}
	})
}

// endless is a file without line feeds, with one line behind it.
type endless struct{ size int64 }

func (e endless) ReadAt(p []byte, off int64) (int, error) {
	n := min(int64(len(p)), e.size-off)
	clear(p[:n])
	for _, at := range []int64{e.size - 3, e.size - 1} {
		if off <= at && at < off+n {
			p[at-off] = '\n'
		}
	}
	if n < int64(len(p)) {
		return int(n), io.EOF
	}
	return int(n), nil
}

func TestALineLongerThanAnyOfOursIsSkippedInBoundedMemory(t *testing.T) {
	f := endless{5 * session.MaxLine}
	for _, reuse := range []bool{true, false} {
		l := &lines{f: f, limit: f.size, block: readBlock, reuse: reuse}
		got, texts := readLines(t, l)
		if len(got) != 2 || !got[0].long || got[0].next != f.size-2 || texts[1] != "\x00" || got[1].long {
			t.Fatalf("there are %d lines", len(got))
		}
		if cap(l.buf) > 2*session.MaxLine+readBlock {
			t.Errorf("%d bytes are in memory", cap(l.buf))
		}
	}
	// Within a log it is damage like any other.
	d := newMemDisk()
	content, _ := sixEvents(t)
	d.put(logPath("s"), append(append(content, bytes.Repeat([]byte{'x'}, session.MaxLine+readBlock)...), '\n'))
	if got := openLog(t, d); got.err != nil || len(got.lines) != 6 || got.opening.Copy == "" {
		t.Errorf("opening gives %d events, %+v, %v", len(got.lines), got.opening, got.err)
	}
}
