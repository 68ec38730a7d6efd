package server

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// sameUser refuses the processes of other users; see SO_PEERCRED in unix(7).
func sameUser(c net.Conn) error {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return errors.New("it is no unix socket")
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var asked error
	if err := raw.Control(func(fd uintptr) { peer, asked = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return err
	}
	if asked != nil {
		return asked
	}
	if int(peer.Uid) != os.Getuid() {
		return fmt.Errorf("it belongs to user %d", peer.Uid)
	}
	return nil
}
