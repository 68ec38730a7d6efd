package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dsh-harness/dsh/llm"
	"github.com/dsh-harness/dsh/session/trajectory"
)

// barWidth is how many cells the time line of a row has, where there is room.
const barWidth = 24

// timeline writes what happened when, a row a line.
func (s *sessions) timeline(w io.Writer, t trajectory.Trajectory) error {
	paint := s.painter(s.stdout).paint
	wide := 100
	if f, ok := s.stdout.Writer.(*os.File); ok && s.stdout.terminal {
		wide = width(f)
	}
	bar := barWidth
	if wide < 80 {
		bar = 0 // what was done says more than when
	}
	var b strings.Builder
	for _, r := range trajectory.Rows(t) {
		left := strings.Repeat("  ", r.Depth) + plain(r.Name)
		note := plain(r.Note)
		room := wide - utf8.RuneCountInString(left) - utf8.RuneCountInString(note) - 3
		if bar > 0 {
			room -= bar + 1
		}
		text := oneLine(r.Text, max(room, 10))
		line := left
		switch {
		case r.Bad:
			line = paint(red, left)
		case r.Kind == trajectory.RowTurn:
			line = "\n" + paint(bold, left)
		case r.Kind == trajectory.RowAsked:
			line = paint(yellow, left)
		case r.Kind == trajectory.RowCall:
			line = paint(cyan, left)
		}
		line += " " + text
		if pad := room - utf8.RuneCountInString(text); pad > 0 && bar > 0 {
			line += strings.Repeat(" ", pad)
		}
		if bar > 0 {
			line += " " + paint(dim, drawBar(r.From, r.To, bar))
		}
		fmt.Fprintf(&b, "%s %s\n", line, paint(dim, note))
	}
	if len(t.Turns) == 0 {
		b.WriteString("there was no turn yet\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// drawBar draws when something was within its turn.
func drawBar(from, to float64, cells int) string {
	start := min(int(from*float64(cells)), cells-1)
	end := max(start+1, min(int(to*float64(cells)+0.999), cells))
	return strings.Repeat(".", start) + strings.Repeat("=", end-start) + strings.Repeat(".", cells-end)
}

// request is a request of a session: turn.step or turn.step.attempt.
type requestAt struct{ turn, step, attempt int }

func parseRequest(text string) (at requestAt, err error) {
	parts := strings.Split(text, ".")
	numbers := []*int{&at.turn, &at.step, &at.attempt}
	if len(parts) < 2 || len(parts) > 3 {
		return at, fmt.Errorf("--request is turn.step, such as 3.2, or turn.step.attempt, and not %q", text)
	}
	for i, part := range parts {
		if *numbers[i], err = strconv.Atoi(part); err != nil || *numbers[i] < 1 {
			return at, fmt.Errorf("--request is turn.step, such as 3.2, or turn.step.attempt, each from 1, and not %q", text)
		}
	}
	return at, nil
}

// writeRequest writes the bytes of a request as it was sent.
func (s *sessions) writeRequest(ctx context.Context, store *storage, id, which string) error {
	at, err := parseRequest(which)
	if err != nil {
		return err
	}
	view, err := s.view(ctx, store, id)
	if err != nil {
		return err
	}
	r, err := trajectory.Request(ctx, view, at.turn, at.step, at.attempt)
	if errors.Is(err, trajectory.ErrNoRequest) {
		return fmt.Errorf("%w; dsh sessions show --timeline %s lists them", err, view.Header.ID)
	}
	if err != nil {
		return failed(err)
	}
	body, exact, err := trajectory.Body(r, func(name string) (llm.Provider, bool) { return llm.Providers.Get(store.harness.Scope(), name) })
	if err != nil {
		return failed(err)
	}
	if !exact {
		s.note("the provider %s is not configured here: this is the request in dsh's own form", plain(r.Header.Provider))
	}
	if _, err := s.stdout.Write(body); err != nil {
		return failed(err)
	}
	if s.stdout.terminal {
		_, err = io.WriteString(s.stdout, "\n")
	}
	return failed(err)
}
