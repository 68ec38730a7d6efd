package plugin

import (
	"fmt"
	"strings"
)

// Row is one line of the composed configuration: a plugin to mount.
type Row struct {
	ID       string   // unique among the rows
	Plugin   string   // the name of the plugin; a row that changes it is mounted afresh
	Prepared Prepared // the plugin with its config; not looked at when Disabled

	// Fingerprint stands for the config. An equal one says that the row did not change.
	Fingerprint string

	Required bool // nothing runs without it
	Disabled bool // it is not mounted
}

// Outcome is what became of a row in [Loader.Apply].
type Outcome string

// Outcomes of a row.
const (
	RowKept         Outcome = "kept"         // it did not change
	RowStarted      Outcome = "started"      // it did not run before
	RowRestarted    Outcome = "restarted"    // for its new config, or for a service that was replaced
	RowReconfigured Outcome = "reconfigured" // it took the new config while running
	RowStopped      Outcome = "stopped"      // it ran before
	RowDisabled     Outcome = "disabled"     // it did not run before either
	RowPending      Outcome = "pending"      // it waits for services
	RowFailed       Outcome = "failed"
)

// RowReport says what became of one row.
type RowReport struct {
	ID      string
	Plugin  string
	Outcome Outcome
	Err     error    // why it failed
	Missing []string // the services that it waits for, when it is pending
}

// String returns the report in one line.
func (r RowReport) String() string {
	text := fmt.Sprintf("%s %s", r.ID, r.Outcome)
	if len(r.Missing) > 0 {
		text += ": it waits for " + strings.Join(r.Missing, ", ")
	}
	if r.Err != nil {
		text += ": " + r.Err.Error()
	}
	return text
}

// Report says what became of each row: first those that were applied, in their order,
// then those that are no longer there.
type Report struct {
	Rows []RowReport
	// Restored says that the rows before were put back, so that the outcomes are
	// those of the attempt.
	Restored bool
}
