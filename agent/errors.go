package agent

import "errors"

var (
	// ErrNoFactory: no loop is mounted, so nobody can make an agent.
	ErrNoFactory = errors.New("no agent loop is running")
	// ErrDisposed: the agent is gone.
	ErrDisposed = errors.New("the agent is disposed")
	// ErrExists: a live agent has that name.
	ErrExists = errors.New("an agent of that name is live")
)
