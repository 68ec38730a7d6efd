package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Loader keeps what is mounted on a scope equal to a list of rows.
type Loader struct {
	scope *Scope
	turn  chan struct{} // holds a token while a change is applied

	// Guarded by turn.
	good []Row // applied last with success
	rows []Row // being applied
	live map[string]*Node
}

// NewLoader returns a loader that mounts rows below s, where nothing else should be
// mounted. It lasts as long as s.
func NewLoader(s *Scope) *Loader {
	return &Loader{scope: s, turn: make(chan struct{}, 1), live: map[string]*Node{}}
}

// Apply makes rows what runs, as a transaction.
//
// Rows that did not change keep running, untouched; those with another fingerprint
// take their new config while running or restart where they are; those that are
// gone, disabled, or of another plugin are stopped first. The order of listeners and
// entries becomes that of rows, as if all had been mounted afresh. Apply then waits for what
// the change touched: the changed rows, what stands below them, and who
// restarts for their services. Failures elsewhere are none of its business.
//
// A touched row that fails, or waits for a service, is reported and the rest runs. But
// when it is required, or failed now and ran before, the change fails: the rows
// that were applied before are restored, Apply returns an error that names the row,
// and the report says what had become of each.
//
// Calls take turns. The work is done in a goroutine of the loader's scope, so that a row
// may ask for a change that restarts itself: when ctx ends first, Apply returns the
// cause of that and the change goes on. From within a start or stop of one of its
// rows Apply would wait for itself, and returns [ErrWouldDeadlock] before it changes
// anything. When the loader's scope ends meanwhile, nothing is restored.
func (l *Loader) Apply(ctx context.Context, rows []Row) (Report, error) {
	if err := checkRows(rows); err != nil {
		return Report{}, err
	}
	if err := l.begin(ctx); err != nil {
		return Report{}, err
	}
	type result struct {
		report Report
		err    error
	}
	done := make(chan result, 1)
	rows = slices.Clone(rows)
	err := l.scope.Go("apply rows", func(ctx context.Context) error {
		defer l.end()
		report, err := l.apply(ctx, rows)
		done <- result{report, err}
		return nil
	})
	if err != nil {
		l.end()
		return Report{}, err
	}
	select {
	case r := <-done:
		return r.report, r.err
	case <-ctx.Done():
		return Report{}, fmt.Errorf("the rows are still being applied: %w", context.Cause(ctx))
	}
}

func checkRows(rows []Row) error {
	seen := map[string]bool{}
	for _, r := range rows {
		switch {
		case r.ID == "":
			return errors.New("a row has no id")
		case seen[r.ID]:
			return fmt.Errorf("two rows have the id %q", r.ID)
		case !r.Disabled && r.Prepared.start == nil:
			return fmt.Errorf("row %q has no prepared plugin", r.ID)
		}
		seen[r.ID] = true
	}
	return nil
}

// begin waits for the loader's turn.
func (l *Loader) begin(ctx context.Context) error {
	t, at := l.scope.node.tree, l.scope.node
	t.mu.Lock()
	busy := busyFrameLocked(ctx)
	t.mu.Unlock()
	if busy != nil && busy != at && at.encloses(busy) {
		return fmt.Errorf("%s waits for rows to be applied: %w", busy.path(), ErrWouldDeadlock)
	}
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("rows are being applied already: %w", context.Cause(ctx))
	}
}

func (l *Loader) end() { <-l.turn }

func (l *Loader) apply(ctx context.Context, rows []Row) (Report, error) {
	old, before := l.rows, l.lives()
	touched, err := l.swap(ctx, rows)
	report := l.report(old, before)
	if err == nil {
		err = l.judge(report, before, touched)
	}
	if err == nil {
		l.good = rows
		return report, nil
	}
	if l.scope.ctx.Err() != nil {
		return report, err
	}
	report.Restored = true
	old, now := l.rows, l.lives()
	touched, restoring := l.swap(ctx, l.good)
	if restoring == nil {
		restoring = l.judge(l.report(old, now), before, touched)
	}
	if restoring != nil {
		err = join(err, fmt.Errorf("restoring the rows before: %w", restoring))
	}
	return report, err
}

// life is what a row was at some time.
type life struct {
	row    Row
	node   *Node
	scope  *Scope // nil when it did not run
	active bool
}

// lives returns what the rows are now.
func (l *Loader) lives() map[string]life {
	t := l.scope.node.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	all := map[string]life{}
	for _, r := range l.rows {
		was := life{row: r}
		if n := l.live[r.ID]; n != nil && n.state != Closed {
			was = life{r, n, n.life, n.state == Active}
		}
		all[r.ID] = was
	}
	return all
}

// swap changes what is mounted from l.rows to rows, waits for what that touches, and
// returns it.
func (l *Loader) swap(ctx context.Context, rows []Row) (set[*Node], error) {
	t := l.scope.node.tree
	before, old := l.lives(), l.rows
	l.rows = rows
	now := map[string]Row{}
	for _, r := range rows {
		now[r.ID] = r
	}
	touched := reach{t, set[*Node]{}}

	var doomed, settling []*Node
	updates := map[*Node]update{}
	for _, was := range old {
		n, r := before[was.ID].node, now[was.ID]
		switch {
		case n == nil:
			delete(l.live, was.ID) // it was disabled, or has closed itself
		case r.ID == "" || r.Disabled || r.Plugin != was.Plugin:
			delete(l.live, was.ID)
			doomed = append(doomed, n)
		case r.Fingerprint != was.Fingerprint:
			updates[n] = r.Prepared.update
			settling = append(settling, n)
		}
	}
	touched.grow(slices.Concat(doomed, settling)...) // while they still provide
	for _, n := range slices.Backward(doomed) {
		if err := n.Close(ctx); err != nil {
			return touched.nodes, err
		}
	}

	var added []Child
	t.mu.Lock()
	for i, r := range rows {
		switch n := l.live[r.ID]; {
		case r.Disabled:
		case n == nil:
			c := r.Prepared.Child(r.ID)
			c.row, c.required = i+1, r.Required
			added = append(added, c)
		default:
			n.arrangeLocked(i+1, r.Required)
		}
	}
	t.mu.Unlock()
	nodes, err := l.scope.MountAll(added...)
	if err != nil {
		return touched.nodes, err
	}
	for i, n := range nodes {
		l.live[added[i].Name] = n
	}
	t.reconfigure(updates)
	return touched.nodes, touched.settle(ctx, slices.Concat(settling, nodes))
}

// report says what became of the rows, and of the old ones that are gone, compared
// with what they were before.
func (l *Loader) report(old []Row, before map[string]life) (report Report) {
	t := l.scope.node.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	here := map[string]bool{}
	for _, r := range l.rows {
		here[r.ID] = true
		report.Rows = append(report.Rows, l.outcomeLocked(r, before[r.ID]))
	}
	for _, r := range old {
		if !here[r.ID] && before[r.ID].node != nil {
			report.Rows = append(report.Rows, RowReport{ID: r.ID, Plugin: r.Plugin, Outcome: RowStopped})
		}
	}
	return report
}

func (l *Loader) outcomeLocked(r Row, was life) RowReport {
	report := RowReport{ID: r.ID, Plugin: r.Plugin}
	n := l.live[r.ID]
	switch {
	case n == nil && was.node == nil:
		report.Outcome = RowDisabled
	case n == nil || n.state == Closed:
		report.Outcome = RowStopped
	case n.state == Failed:
		report.Outcome, report.Err = RowFailed, n.err
	case n.state == Pending && !n.busyLocked():
		report.Outcome, report.Missing = RowPending, n.lackingLocked()
	case n == was.node && n.busyLocked(): // on its own account, or it would have been awaited
		report.Outcome = RowKept
	case n != was.node || !was.active:
		report.Outcome = RowStarted
	case n.life != was.scope:
		report.Outcome = RowRestarted
	case r.Fingerprint != was.row.Fingerprint:
		report.Outcome = RowReconfigured
	default:
		report.Outcome = RowKept
	}
	return report
}

// judge returns why the change must not stand, if it must not.
func (l *Loader) judge(report Report, before map[string]life, touched set[*Node]) error {
	var errs []error
	for i, r := range l.rows {
		if r.Disabled || !touched.has(l.live[r.ID]) {
			continue
		}
		what := fmt.Sprintf("row %q", r.ID)
		if r.Required {
			what = "required " + what
		}
		switch now := report.Rows[i]; now.Outcome {
		case RowFailed:
			if r.Required || before[r.ID].active {
				errs = append(errs, fmt.Errorf("%s failed: %w", what, now.Err))
			}
		case RowPending:
			if r.Required {
				errs = append(errs, fmt.Errorf("%s waits for %s, which nothing provides", what, strings.Join(now.Missing, ", ")))
			}
		case RowStopped:
			if r.Required {
				errs = append(errs, fmt.Errorf("%s has closed itself", what))
			}
		case RowKept, RowStarted, RowRestarted, RowReconfigured, RowDisabled:
		}
	}
	return join(errs...)
}

// arrangeLocked moves n to a new row.
func (n *Node) arrangeLocked(row int, required bool) {
	n.required = required
	if n.row != row {
		n.row = row
		n.tree.arranged++
	}
}

// reconfigure gives nodes new configs, all at once, and does not wait.
func (t *Tree) reconfigure(updates map[*Node]update) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for n, u := range updates {
		n.reconfigureLocked(u)
	}
	for n := range updates {
		n.reconcileLocked()
	}
}
