//go:build !linux

package server

import "net"

// sameUser relies on the mode of the socket and of its folder here.
func sameUser(net.Conn) error { return nil }
