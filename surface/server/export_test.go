package server

import (
	"log/slog"
	"net"
)

// Routes lists the paths of the table, for tests that go through all of them.
func Routes() []string {
	var all []string
	for _, r := range routes() {
		all = append(all, r.path)
	}
	return all
}

// Limit bounds the connections of a listener, for tests that cannot open as many as a server takes.
func Limit(l net.Listener, n int) net.Listener {
	return limit(l, n, newRefusals(slog.New(slog.DiscardHandler)))
}
