package session

// Version is the format of the logs that this program writes. It reads this one
// and refuses a newer one with a [*VersionError].
const Version = 1

// Header is what a log says about itself. It is no event, never changes, and
// never reaches the model. Values are copied; there is nothing to guard.
type Header struct {
	Version int
	ID      string
	Created int64  // Unix milliseconds
	Cwd     string // the session's folder, absolute, links resolved; "" when it has none
	Parent  string // the session that this one was forked from, or that asked for it
	Seed    int64  // how many events were copied from Parent by a fork
	Origin  string // "" for a person's own session, "subagent" for one that an agent asked for
	Depth   int    // how many agents stand between this session and a person
}

// OriginSubagent marks a session that an agent asked for; lists leave it out.
const OriginSubagent = "subagent"
