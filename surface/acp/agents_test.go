package acp_test

import (
	"github.com/dsh-harness/dsh/agent"
	"github.com/dsh-harness/dsh/surface/live/livetest"
)

// agents are those that the registry knows.
func agents(w *livetest.World) map[string]agent.Agent {
	all := map[string]agent.Agent{}
	if registry, ok := agent.Service.Current(w.Harness.Scope()); ok {
		for _, a := range registry.List() {
			all[a.ID()] = a
		}
	}
	return all
}
