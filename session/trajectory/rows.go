package trajectory

import (
	"fmt"
	"strings"

	"github.com/dsh-harness/dsh/session"
)

// RowKind says what a [Row] is about.
type RowKind string

const (
	RowTurn  RowKind = "turn"
	RowModel RowKind = "model"
	RowAsked RowKind = "asked" // a person was asked
	RowCall  RowKind = "call"
)

// Row is a line of the time line. It is data, so that every surface can draw it.
type Row struct {
	Kind  RowKind
	Depth int
	Name  string // "3", "3.2", or the name of a tool
	Text  string // one line: the prompt, the answer, the arguments
	Note  string // time, tokens, what went wrong
	Bad   bool
	// From and To are where it lies in its turn, from 0 to 1.
	From, To float64
}

// Rows lays a trajectory out as lines.
func Rows(t Trajectory) []Row {
	var rows []Row
	for _, turn := range t.Turns {
		end := turn.End
		if end == 0 {
			end = last(turn)
		}
		whole := Span{turn.Start, end}
		place := func(r Row, s Span) Row {
			if s.End == 0 {
				s.End = end
			}
			length := float64(max(1, whole.Length()))
			r.From = clamp(float64(s.Start-whole.Start) / length)
			r.To = max(r.From, clamp(float64(s.End-whole.Start)/length))
			return r
		}
		note := Duration(whole.Length())
		if turn.Reason != "" && turn.Reason != session.Completed {
			note += " " + string(turn.Reason)
		}
		if turn.Error != nil {
			note += ": " + line(turn.Error.Message)
		}
		rows = append(rows, place(Row{Kind: RowTurn, Name: fmt.Sprint(turn.Turn), Text: line(turn.Prompt), Note: note,
			Bad: turn.Reason == session.Failed}, whole))
		for _, s := range turn.Steps {
			text := line(s.Text)
			if text == "" && len(s.Calls) > 0 {
				text = fmt.Sprintf("%d calls", len(s.Calls))
				if len(s.Calls) == 1 {
					text = "1 call"
				}
			}
			note := Duration(s.Model.Length())
			if s.Usage != nil {
				note += fmt.Sprintf(" %s in %s out", Count(s.Usage.Input+s.Usage.CacheRead+s.Usage.CacheWrite), Count(s.Usage.Output))
			}
			if n := len(s.Retries); n > 0 {
				note += fmt.Sprintf(" %d failed", n)
			}
			rows = append(rows, place(Row{Kind: RowModel, Depth: 1, Name: fmt.Sprintf("%d.%d", turn.Turn, s.Step), Text: text, Note: note}, s.Model))
			for _, c := range s.Calls {
				if c.Asked.Start > 0 {
					rows = append(rows, place(Row{Kind: RowAsked, Depth: 2, Name: "asked", Text: string(c.Outcome), Note: Duration(c.Asked.Length())}, c.Asked))
				}
				rows = append(rows, place(Row{Kind: RowCall, Depth: 2, Name: c.Name, Text: line(c.Arguments),
					Note: Duration(c.Length()) + " " + Count(int64(c.Bytes)) + "B", Bad: c.IsError}, c.Span))
			}
		}
	}
	return rows
}

func clamp(x float64) float64 { return min(1, max(0, x)) }

// last is when something was last seen of a turn that runs.
func last(t Turn) int64 {
	at := t.Start
	for _, s := range t.Steps {
		at = max(at, s.Start, s.Model.End, s.End)
		for _, c := range s.Calls {
			at = max(at, c.Start, c.End, c.Asked.End)
		}
	}
	return at
}

func line(s string) string { return strings.Join(strings.Fields(s), " ") }

// Duration writes milliseconds for people: 850ms, 4.2s, 3m05s.
func Duration(ms int64) string {
	switch {
	case ms < 1000:
		return fmt.Sprintf("%dms", ms)
	case ms < 60_000:
		return fmt.Sprintf("%.1fs", float64(ms)/1000)
	}
	return fmt.Sprintf("%dm%02ds", ms/60_000, ms/1000%60)
}

// Count writes a number for people: 850, 4.2k, 1.3M.
func Count(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprint(n)
	case n < 1_000_000:
		return fmt.Sprintf("%.1fk", float64(n)/1000)
	}
	return fmt.Sprintf("%.1fM", float64(n)/1_000_000)
}
