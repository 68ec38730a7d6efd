package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Row is one line of the composed config: a plugin to mount.
type Row struct {
	ID          string
	Plugin      string
	Prepared    Prepared
	Fingerprint string // equal fingerprints mean an unchanged row
	Required    bool
	Disabled    bool
}

// Report says what became of each row, in the order of the rows.
type Report struct{ Rows []RowReport }

// RowReport says what became of one row.
type RowReport struct {
	ID      string
	Outcome Outcome
	Err     error    // why it failed
	Missing []string // the services that it waits for
}

// Outcome is what [Loader.Apply] did to a row.
type Outcome string

// Outcomes of a row.
const (
	Kept         Outcome = "kept"
	Started      Outcome = "started"
	Restarted    Outcome = "restarted"
	Reconfigured Outcome = "reconfigured"
	Stopped      Outcome = "stopped"
	Broken       Outcome = "failed"
	Waits        Outcome = "pending"
)

// Loader keeps a scope's children equal to a list of rows.
type Loader struct {
	scope *Scope
	rows  []Row
	nodes map[string]*Node
}

// NewLoader returns a loader that mounts rows below s.
func NewLoader(s *Scope) *Loader {
	return &Loader{scope: s, nodes: map[string]*Node{}}
}

// Apply makes rows the running config, or leaves the old one running. Rows that
// did not change keep running, those with a new fingerprint are reconfigured or
// restarted where they are, and the order of listeners and sets becomes that of
// rows, as if they had been mounted afresh.
func (l *Loader) Apply(ctx context.Context, rows []Row) (Report, error) {
	old := l.rows
	err := l.swap(ctx, rows)
	report := l.report(rows)
	if err == nil || len(old) == 0 {
		return report, nil
	}
	return report, errors.Join(err, l.swap(ctx, old))
}

func (l *Loader) report(rows []Row) (report Report) {
	waiting := l.scope.node.tree.Waiting()
	for _, r := range rows {
		rr := RowReport{ID: r.ID, Outcome: Stopped}
		if n := l.nodes[r.ID]; n != nil {
			switch st, err := n.State(); st {
			case Failed:
				rr.Outcome, rr.Err = Broken, err
			case Pending:
				rr.Outcome, rr.Missing = Waits, waiting[n.path()]
			default:
				rr.Outcome = Started
			}
		}
		report.Rows = append(report.Rows, rr)
	}
	return report
}

func (l *Loader) swap(ctx context.Context, rows []Row) error {
	t, old := l.scope.node.tree, l.rows
	l.rows = slices.Clone(rows)
	byID := map[string]Row{}
	for _, r := range rows {
		if _, dup := byID[r.ID]; dup {
			return fmt.Errorf("two rows have the id %q", r.ID)
		}
		byID[r.ID] = r
	}
	changed := map[string]bool{}
	for _, r := range slices.Backward(old) {
		n, now := l.nodes[r.ID], byID[r.ID]
		switch {
		case n == nil:
		case now.Disabled || now.Plugin != r.Plugin:
			delete(l.nodes, r.ID)
			if err := n.Close(ctx); err != nil {
				return err
			}
		default:
			changed[r.ID] = now.Fingerprint != r.Fingerprint
		}
	}
	places, updates := map[*Node]int{}, map[*Node]update{}
	var added []Child
	for i, r := range rows {
		switch n := l.nodes[r.ID]; {
		case r.Disabled:
		case n == nil:
			added = append(added, Child{Name: r.ID, Needs: r.Prepared.needs, Start: r.Prepared.start, row: i + 1})
		default:
			places[n] = i + 1
			if changed[r.ID] {
				updates[n] = r.Prepared.update
			}
		}
	}
	t.arrange(places)
	nodes, err := l.scope.MountAll(added...)
	if err != nil {
		return err
	}
	for i, n := range nodes {
		l.nodes[added[i].Name] = n
	}
	t.reconfigure(updates)
	return t.Settle(ctx)
}
