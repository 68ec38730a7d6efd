package search

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/dsh-harness/dsh/session"
	"github.com/dsh-harness/dsh/tool"
	"github.com/dsh-harness/dsh/workspace"
)

//go:embed grep.md
var grepDoc string

type grepInput struct {
	Pattern    string `json:"pattern"`
	Path       string `json:"path,omitempty" doc:"File or folder; by default the folder of the session."`
	Glob       string `json:"glob,omitempty" doc:"Only in files that match, e.g. *.{ts,tsx}."`
	OutputMode string `json:"output_mode,omitempty" enum:"content,files_with_matches,count" doc:"Default: content."`
	Context    int    `json:"context,omitempty" doc:"Lines to show around each match."`
	IgnoreCase bool   `json:"ignore_case,omitempty"`
	Literal    bool   `json:"literal,omitempty" doc:"Take the pattern as plain text."`
}

// The values of output_mode.
const (
	modeFiles = "files_with_matches"
	modeCount = "count"
)

func (t *tools) grepTool() tool.Definition {
	return tool.New(tool.Spec{
		Name:        "grep",
		Description: strings.TrimSpace(grepDoc),
		Effect:      session.EffectRead,
		Parallel:    true,
		Timeout:     t.timeout(),
		Present:     presentGrep,
		Access: func(c *tool.Call) []tool.Access {
			var in grepInput
			_ = json.Unmarshal(c.Arguments, &in) // valid arguments decode
			return []tool.Access{{Kind: tool.AccessRead, Target: cmp.Or(in.Path, ".")}}
		},
	}, t.grep)
}

const (
	// maxContext is how many lines around a match may be asked for.
	maxContext = 20
	// shownRunes is how much of a line is shown, around its first match.
	shownRunes = 400
	// maxLine is how much of a line is searched.
	maxLine = 1 << 20
	// maxText is how many bytes of lines one grep shows.
	maxText = 40_000
	// sniffed is how much of a file decides whether it is text.
	sniffed = 8 << 10
)

func (t *tools) grep(ctx context.Context, c *tool.Call, in grepInput) (tool.Result, error) {
	if c.Workspace == nil {
		return tool.Result{}, errors.New("grep: this agent has no workspace")
	}
	if in.Pattern == "" {
		return tool.Failure(codePattern, "pattern is empty"), nil
	}
	if in.Context < 0 || in.Context > maxContext {
		return tool.Failure(tool.CodeInvalidArgs, fmt.Sprintf("context is %d: it must be 0 to %d", in.Context, maxContext)), nil
	}
	if in.Glob != "" && (!doublestar.ValidatePattern(in.Glob) || strings.HasPrefix(in.Glob, "!")) {
		return tool.Failure(codePattern, fmt.Sprintf("glob %q is not a valid pattern: give one of files to search, e.g. *.{ts,tsx}", in.Glob)), nil
	}
	pattern, err := compile(in.Pattern, in.Literal, in.IgnoreCase)
	if err != nil {
		return tool.Failure(codePattern, err.Error()), nil
	}
	root, info, err := place(c.Workspace, cmp.Or(in.Path, "."))
	if err != nil {
		return failure(err), nil
	}
	ctx, cancel := t.limited(ctx)
	defer cancel()
	s := &search{ctx: ctx, w: c.Workspace, in: in, re: pattern, limit: t.config.Matches}
	if !info.IsDir() {
		if err := s.file(root.Path, true); err != nil {
			return failure(err), nil
		}
		if s.binary > 0 {
			return tool.Failure(codeNotText, in.Path+" is a binary file"), nil
		}
		return tool.Text(s.text()), nil
	}
	l, err := t.list(ctx, query{w: c.Workspace, root: root.Path, named: named(in.Path + "/" + in.Glob), content: pattern.rust})
	if err != nil {
		return failure(err), nil
	}
	s.partial = l.partial
	wanted := []string{"**"}
	if in.Glob != "" {
		wanted = patterns(in.Glob, strings.TrimPrefix(in.Glob, "/"))
	}
	for _, name := range l.files {
		if !matches(wanted, name) {
			continue
		}
		if s.full || s.over() {
			break
		}
		// What cannot be read, or not any more, is not searched.
		_ = s.file(join(root.Path, name), false)
	}
	return tool.Text(s.text()), nil
}

// search is one grep on its way.
type search struct {
	ctx   context.Context
	w     workspace.Workspace
	in    grepInput
	re    compiled
	limit int

	out     strings.Builder
	reader  *bufio.Reader
	long    []byte // a line that is longer than the reader's buffer
	matches int
	files   int // with matches
	binary  int // files that were left out
	large   int // files that were left out
	full    bool
	partial bool
}

// over tells that there is no more time.
func (s *search) over() bool {
	if s.ctx.Err() == nil {
		return false
	}
	s.partial = true
	return true
}

// file searches one file; named says that it is the one that was asked for.
func (s *search) file(abs string, named bool) error {
	file, err := s.w.FS().Open(abs)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !named && info.Size() > maxFile {
		s.large++
		return nil
	}
	if s.reader == nil {
		s.reader = bufio.NewReaderSize(nil, 64<<10)
	}
	s.reader.Reset(file)
	head, err := s.reader.Peek(sniffed)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if bytes.IndexByte(head, 0) >= 0 {
		s.binary++
		return nil
	}
	if bytes.HasPrefix(head, []byte("\ufeff")) {
		_, _ = s.reader.Discard(len("\ufeff")) // it was peeked at
	}
	return s.lines(shown(s.w, abs))
}

// lines searches the file that is being read.
func (s *search) lines(name string) error {
	found := fileMatches{search: s, name: name}
	defer found.end()
	for number := 1; ; number++ {
		line, err := s.next()
		if len(line) > 0 || err == nil {
			found.line(number, line)
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case found.done() || number%1024 == 0 && s.over():
			return nil
		}
	}
}

// next returns the next line without its end, at most maxLine of it.
func (s *search) next() ([]byte, error) {
	line, err := s.reader.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		s.long = append(s.long[:0], line...)
		for errors.Is(err, bufio.ErrBufferFull) && !s.over() {
			line, err = s.reader.ReadSlice('\n')
			if len(s.long) < maxLine {
				s.long = append(s.long, line...)
			}
		}
		line = s.long
		if errors.Is(err, bufio.ErrBufferFull) {
			err = io.EOF // time is over
		}
	}
	return bytes.TrimSuffix(line, []byte("\n")), err
}

// matchAt returns where line matches. A carriage return at its end counts as a part of
// the line end, unless the pattern wants it.
func (s *search) matchAt(line []byte) (at int, ok bool) {
	bare, cr := bytes.CutSuffix(line, []byte("\r"))
	place := s.re.re.FindIndex(bare)
	if place == nil && cr {
		place = s.re.re.FindIndex(line)
	}
	if place == nil {
		return 0, false
	}
	return place[0], true
}

// fileMatches is what is found in one file.
type fileMatches struct {
	*search
	name   string
	count  int
	shown  int      // the last line in out
	before [][]byte // the lines right before this one that were not shown
	after  int      // lines that are still to be shown after a match
}

// done tells that nothing more of the file is wanted.
func (f *fileMatches) done() bool {
	return f.full || f.in.OutputMode == modeFiles && f.count > 0
}

func (f *fileMatches) line(number int, line []byte) {
	at, ok := f.matchAt(line)
	if ok {
		f.match(number, line, at)
		return
	}
	switch {
	case f.in.OutputMode == modeFiles || f.in.OutputMode == modeCount || f.in.Context == 0:
	case f.after > 0:
		f.after--
		f.around(number, line)
	default:
		if len(f.before) == f.in.Context {
			f.before = append(f.before[1:], append(f.before[0][:0], line...))
		} else {
			f.before = append(f.before, bytes.Clone(line))
		}
	}
}

// around shows a line that does not match.
func (f *fileMatches) around(number int, line []byte) {
	f.shown = number
	fmt.Fprintf(&f.out, "%d- %s\n", number, excerpt(line, 0))
}

func (f *fileMatches) match(number int, line []byte, at int) {
	f.count++
	f.matches++
	if f.count == 1 {
		f.files++
	}
	switch f.in.OutputMode {
	case modeFiles:
		if f.count == 1 {
			f.out.WriteString(f.name + "\n")
		}
		f.full = f.full || f.files >= f.limit
		return
	case modeCount:
		return
	}
	if f.count == 1 {
		f.out.WriteString(f.name + "\n")
	}
	first := number - len(f.before)
	if f.count > 1 && f.in.Context > 0 && first > f.shown+1 {
		f.out.WriteString("--\n")
	}
	for i, text := range f.before {
		f.around(first+i, text)
	}
	f.before, f.after, f.shown = nil, f.in.Context, number
	fmt.Fprintf(&f.out, "%d: %s\n", number, excerpt(line, at))
	f.full = f.matches >= f.limit || f.out.Len() > maxText
}

func (f *fileMatches) end() {
	if f.count == 0 {
		return
	}
	switch f.in.OutputMode {
	case modeFiles:
	case modeCount:
		fmt.Fprintf(&f.out, "%s: %d\n", f.name, f.count)
		f.full = f.full || f.files >= f.limit
	default:
		f.out.WriteString("\n")
	}
}

// excerpt returns what is shown of a line: all, or what is around its match.
func excerpt(line []byte, at int) string {
	text := strings.ToValidUTF8(string(bytes.TrimSuffix(line, []byte("\r"))), "\ufffd")
	if len(text) <= shownRunes || utf8.RuneCountInString(text) <= shownRunes {
		return strings.ReplaceAll(text, "\x00", "\ufffd")
	}
	start := 0
	if at > shownRunes/2 {
		start = min(at-shownRunes/4, len(text))
		for start > 0 && start < len(text) && !utf8.RuneStart(text[start]) {
			start--
		}
	}
	end := start
	for range shownRunes {
		_, size := utf8.DecodeRuneInString(text[end:])
		end += size
	}
	cut := strings.ReplaceAll(text[start:end], "\x00", "\ufffd")
	if start > 0 {
		cut = "… " + cut
	}
	if end < len(text) {
		cut += " …"
	}
	return cut
}

func (s *search) text() string {
	var out strings.Builder
	switch {
	case s.matches == 0:
		out.WriteString("No matches found\n")
	case s.in.OutputMode == modeFiles:
		fmt.Fprintf(&out, "Found %s\n", plural(s.files, "file"))
	default:
		fmt.Fprintf(&out, "Found %s in %s\n", plural2(s.matches, "match", "matches"), plural(s.files, "file"))
	}
	out.WriteString(strings.TrimRight(s.out.String(), "\n"))
	if s.matches > 0 {
		out.WriteString("\n")
	}
	if s.full {
		out.WriteString("[There may be more: this is as much as is shown. Search in a folder further down, or for something rarer.]\n")
	}
	if s.partial {
		out.WriteString("[There was not enough time for all files: search in a folder further down.]\n")
	}
	if s.large > 0 {
		fmt.Fprintf(&out, "[%s above %d MiB not searched: name one to search it.]\n", plural(s.large, "file"), maxFile>>20)
	}
	return strings.TrimSuffix(out.String(), "\n")
}

func plural(n int, one string) string { return plural2(n, one, one+"s") }

func plural2(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}
