package files

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/tool"
)

//go:embed read.md
var readDoc string

type readInput struct {
	FilePath string `json:"file_path" doc:"Relative to the folder of the session, or absolute; ~ is the home folder."`
	Offset   int    `json:"offset,omitempty" doc:"First line, from 1."`
	Limit    int    `json:"limit,omitempty" doc:"How many lines."`
}

// pathArgument finds the path in arguments that are valid.
func pathArgument(arguments json.RawMessage) string {
	var in struct {
		FilePath string `json:"file_path"`
	}
	_ = json.Unmarshal(arguments, &in) // valid arguments decode
	return in.FilePath
}

func (t *tools) readTool() tool.Definition {
	return tool.New(tool.Spec{
		Name:        "read",
		Description: strings.ReplaceAll(strings.TrimSpace(readDoc), "{lines}", strconv.Itoa(t.config.ReadLines)),
		Effect:      session.EffectRead,
		Parallel:    true,
		Access:      access(tool.AccessRead),
		Present:     presentRead,
	}, t.read)
}

// readTime bounds the way to lines deep in a huge file.
const readTime = 4 * time.Second

func (t *tools) read(ctx context.Context, c *tool.Call, in readInput) (tool.Result, error) {
	if c.Workspace == nil {
		return tool.Result{}, noWorkspace("read")
	}
	if in.Offset < 0 || in.Limit < 0 {
		return tool.Failure(tool.CodeInvalidArgs, "offset and limit count lines from 1: they cannot be negative"), nil
	}
	place, err := c.Workspace.FS().Locate(in.FilePath)
	if err != nil {
		return failure(err), nil
	}
	name := in.FilePath
	if place.Exists {
		name = place.Path // what was located is what is opened
	}
	file, err := c.Workspace.FS().Open(name)
	if err != nil {
		return failure(err), nil
	}
	defer func() { _ = file.Close() }() // it was only read
	info, err := file.Stat()
	if err != nil {
		return failure(err), nil
	}
	if info.IsDir() {
		return isFolder(in.FilePath), nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	r := &reading{
		config: t.config,
		from:   max(in.Offset, 1),
		lines:  t.config.ReadLines,
		source: bufio.NewReaderSize(&patient{ctx: ctx, file: file}, int(min(info.Size()+512, 64<<10))),
	}
	if in.Limit > 0 {
		r.lines = min(in.Limit, r.lines)
	}
	if info.Size() <= editBytes {
		r.sum = t.seen.hash()
	}
	if refused := r.sniff(in.FilePath); refused != nil {
		return *refused, nil
	}
	err = r.run()
	late := errors.Is(err, context.DeadlineExceeded)
	switch {
	case late && r.shown == 0:
		return tool.Failure(tool.CodeTimeout, fmt.Sprintf("line %d of %s could not be reached within %v: use a command such as sed -n", r.from, in.FilePath, readTime)), nil
	case err != nil && !late:
		return failure(fmt.Errorf("read %s: %w", in.FilePath, err)), nil
	}
	if r.sum != nil && r.ended {
		t.seen.remember(c.Session, place.Path, r.sum.Sum64())
	}
	return r.result(in.FilePath), nil
}

// patient is a file that is read until ctx ends.
type patient struct {
	ctx  context.Context
	file io.Reader
}

func (p *patient) Read(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	return p.file.Read(b)
}

// reading copies a window of lines, numbered, and hashes the whole file on the way.
type reading struct {
	config Config
	from   int // first line
	lines  int // how many
	source *bufio.Reader
	sum    hash.Hash64 // nil when the file is too large to be changed

	out     []byte
	line    int  // that was read last
	shown   int  // lines in out
	full    bool // out holds as many bytes as it may
	legacy  bool // bytes that are no UTF-8 were replaced
	ended   bool
	partial bool // the last piece was not the end of its line
}

// sniffed is how much of a file decides whether it is text.
const sniffed = 8 << 10

// sniff refuses what is no text.
func (r *reading) sniff(name string) *tool.Result {
	head, err := r.source.Peek(min(sniffed, r.source.Size()))
	if err != nil && !errors.Is(err, io.EOF) {
		refused := failure(fmt.Errorf("read %s: %w", name, err))
		return &refused
	}
	if kind := binaryKind(head); kind != "" {
		refused := tool.Failure(codeNotText, fmt.Sprintf("%s is %s", name, kind))
		return &refused
	}
	if bytes.HasPrefix(head, bom) {
		r.hash(head[:len(bom)])
		_, _ = r.source.Discard(len(bom)) // they were peeked at
	}
	return nil
}

var bom = []byte("\ufeff")

// binaryKind says what content is that cannot be read as text, or "".
func binaryKind(head []byte) string {
	for _, kind := range []struct{ magic, name string }{
		{"\x89PNG\r\n\x1a\n", "a PNG image: this tool reads text, images cannot be looked at yet"},
		{"\xff\xd8\xff", "a JPEG image: this tool reads text, images cannot be looked at yet"},
		{"GIF8", "a GIF image: this tool reads text, images cannot be looked at yet"},
		{"%PDF-", "a PDF document: convert it with a command, e.g. pdftotext"},
		{"\xff\xfe", "text in UTF-16, or binary: convert it with a command, e.g. iconv -f UTF-16 -t UTF-8"},
		{"\xfe\xff", "text in UTF-16, or binary: convert it with a command, e.g. iconv -f UTF-16 -t UTF-8"},
	} {
		if bytes.HasPrefix(head, []byte(kind.magic)) {
			return kind.name
		}
	}
	switch {
	case len(head) > 12 && string(head[:4]) == "RIFF" && string(head[8:12]) == "WEBP":
		return "a WebP image: this tool reads text, images cannot be looked at yet"
	case bytes.IndexByte(head, 0) >= 0:
		return "a binary file: look at it with a command, e.g. file, strings or xxd"
	}
	return ""
}

func (r *reading) hash(p []byte) {
	if r.sum != nil {
		_, _ = r.sum.Write(p) // a hash takes everything
	}
}

// run reads to the end of the window, and further where that is needed for the hash.
func (r *reading) run() error {
	for r.sum != nil || !r.done() {
		piece, err := r.source.ReadSlice('\n')
		r.hash(piece)
		if len(piece) > 0 {
			r.add(piece)
		}
		switch {
		case errors.Is(err, io.EOF):
			r.ended = true
			return nil
		case errors.Is(err, bufio.ErrBufferFull):
			r.partial = true
		case err != nil:
			return err
		default:
			r.partial = false
		}
	}
	return nil
}

func (r *reading) done() bool { return !r.partial && (r.full || r.line >= r.from+r.lines-1) }

// add takes a line, or a piece of one that is longer than the buffer.
func (r *reading) add(piece []byte) {
	if r.partial {
		return // the line's beginning was shown, and it is marked as cut
	}
	r.line++
	if r.line < r.from || r.line >= r.from+r.lines || r.full {
		return
	}
	text, whole := bytes.CutSuffix(piece, []byte("\n"))
	text = bytes.TrimSuffix(text, []byte("\r"))
	longer := !whole && len(piece) >= r.source.Size()
	if cut := cutRunes(text, r.config.LineLength); longer || len(cut) < len(text) {
		text, longer = cut, true
	}
	start := len(r.out)
	r.out = appendNumber(r.out, r.line)
	r.out = r.appendText(r.out, text)
	if longer {
		r.out = append(r.out, " … [the line goes on]"...)
	}
	r.out = append(r.out, '\n')
	if len(r.out) > r.config.ReadBytes && r.shown > 0 {
		r.out, r.full = r.out[:start], true
		return
	}
	r.shown++
}

// appendText makes text valid.
func (r *reading) appendText(out, text []byte) []byte {
	if utf8.Valid(text) && bytes.IndexByte(text, 0) < 0 {
		return append(out, text...)
	}
	r.legacy = true
	return append(out, bytes.ReplaceAll(bytes.ToValidUTF8(text, []byte("\ufffd")), []byte{0}, []byte("\ufffd"))...)
}

// cutRunes returns the first n characters of text, without one that is cut off.
func cutRunes(text []byte, n int) []byte {
	if len(text) <= n && utf8.Valid(text) {
		return text
	}
	at := 0
	for range n {
		if !utf8.FullRune(text[at:]) {
			break
		}
		_, size := utf8.DecodeRune(text[at:])
		at += size
	}
	return text[:at]
}

// numberWidth is how many characters a line number takes, up to 999,999.
const numberWidth = 7

func appendNumber(out []byte, n int) []byte {
	digits := strconv.Itoa(n)
	for range numberWidth - 1 - len(digits) {
		out = append(out, ' ')
	}
	return append(append(out, digits...), '\t')
}

func (r *reading) result(name string) tool.Result {
	last := r.from + r.shown - 1
	switch {
	case r.line == 0:
		return tool.Text("[The file is empty.]")
	case r.shown == 0:
		return tool.Failure(codeRange, fmt.Sprintf("offset %d is past the end: %s has %d lines", r.from, name, r.line))
	case r.ended && last < r.line:
		r.out = fmt.Appendf(r.out, "[Lines %d-%d of %d. Read on with offset %d.]\n", r.from, last, r.line, last+1)
	case !r.ended:
		r.out = fmt.Appendf(r.out, "[Lines %d-%d; there are more. Read on with offset %d.]\n", r.from, last, last+1)
	}
	if r.legacy {
		r.out = append(r.out, "[The file is not all UTF-8: bytes that are not are shown as \ufffd. Edits keep them.]\n"...)
	}
	return tool.Text(strings.TrimSuffix(string(r.out), "\n"))
}
