package workspace

import (
	"context"
	"net"

	"github.com/dsh-harness/dsh/plugin"
)

// Confining decides what a command may touch, right before it starts:
// workspace/confine. It is dispatched on the scope that the workspace was opened
// with. The innermost answer is what the roots allow; listeners change what they are
// given, call next, and return it. An error keeps the command from starting.
var Confining = plugin.NewWaterfall[*Confinement, *Confinement]("workspace/confine")

// Confinement is what one command may touch. All paths are absolute and without
// links; everything else that exists may be read and not be written. One goroutine
// has it at a time.
type Confinement struct {
	Session string  // id of the session of the workspace, "" when there is none
	Dir     string  // the folder of the workspace
	Command Command // what will run; changing it has no effect

	// Write holds the files and folders that may be written, at first the roots.
	Write []string
	// Protect holds what may not be changed although it lies below Write, or is listed there. What does
	// not exist yet is removed when the command makes it, and reported as refused.
	Protect []string
	// Reserve is as Protect, but the kernel keeps what does not exist from coming into being.
	Reserve []string
	// Mask holds what is neither read nor written, below Write too. A path that does
	// not exist is no error.
	Mask []string
	// Network is how the command reaches other machines, nil when it does not.
	Network Network
	// Unconfined, when not empty, says who wants the command to run outside of any
	// sandbox; nothing else counts then.
	Unconfined string
}

// Network connects a confined command with other machines.
type Network interface {
	// Serve answers the connections that the command makes to its proxy, until l
	// is closed, and returns once all of them are over; ctx ends with the command. It returns
	// what it refused. The command finds the proxy in HTTP_PROXY and its like.
	Serve(ctx context.Context, l net.Listener) []Refusal
}

// Refusal is something that a command wanted and the sandbox did not let it do.
type Refusal struct {
	Kind   RefusalKind `json:"kind"`
	Target string      `json:"target"`          // host:port, or a path
	Rule   string      `json:"rule,omitempty"`  // what refused it, for people
	Final  bool        `json:"final,omitempty"` // no grant would change it, so nobody need be asked
}

// RefusalKind tells what was refused.
type RefusalKind string

const (
	RefusedNetwork RefusalKind = "network"
	RefusedWrite   RefusalKind = "write"
)

// Grant is what a person allowed one call beyond its confinement. It travels in the
// context of [Exec.Run] to the listeners of [Confining], which apply what is theirs.
type Grant struct {
	Write []string // paths that may be written, also where they are protected
	Hosts []string // host:port that may be reached
}

type grantKey struct{}

// WithGrant returns a context in which commands may do what g says, beside what
// ctx has granted already.
func WithGrant(ctx context.Context, g Grant) context.Context {
	before := GrantOf(ctx)
	g.Write = append(before.Write[:len(before.Write):len(before.Write)], g.Write...)
	g.Hosts = append(before.Hosts[:len(before.Hosts):len(before.Hosts)], g.Hosts...)
	return context.WithValue(ctx, grantKey{}, g)
}

// GrantOf returns what was granted in ctx.
func GrantOf(ctx context.Context) Grant {
	g, _ := ctx.Value(grantKey{}).(Grant)
	return g
}
