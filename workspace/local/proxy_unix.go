//go:build unix

package local

import (
	"context"
	"net"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/dsh-harness/dsh/workspace"
)

// proxyPort is where commands find the proxy, on the loopback of their sandbox.
const proxyPort = 3128

// proxyEnv tells programs where the proxy is, in all spellings that they know.
func proxyEnv() []string {
	const proxy = "http://127.0.0.1:3128"
	const direct = "localhost,127.0.0.1,::1"
	return []string{
		"HTTP_PROXY=" + proxy, "HTTPS_PROXY=" + proxy, "ALL_PROXY=" + proxy, "http_proxy=" + proxy, "https_proxy=" + proxy, "all_proxy=" + proxy,
		"NO_PROXY=" + direct, "no_proxy=" + direct,
	}
}

// inherited drops from what the harness hands on where a proxy is: a confined command does not reach it.
func (m *confined) inherited(env []string) []string {
	if m.spec == nil {
		return env
	}
	return slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		switch strings.ToLower(name) {
		case "http_proxy", "https_proxy", "all_proxy", "no_proxy":
			return true
		}
		return false
	})
}

// socketPair returns two connected sockets; the first is ours and has deadlines.
func socketPair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, err
	}
	unix.CloseOnExec(fds[0])
	unix.CloseOnExec(fds[1])
	if err := unix.SetNonblock(fds[0], true); err != nil {
		_, _ = unix.Close(fds[0]), unix.Close(fds[1]) // nothing was written to them
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "listener"), os.NewFile(uintptr(fds[1]), "listener"), nil
}

// serve takes the listener that the guardian made and has the network answer what comes.
func (r *run) serve(ctx context.Context) []workspace.Refusal {
	listener := r.takeListener()
	if listener == nil {
		return nil // the command did not start, and its error says why
	}
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	return r.network.Serve(ctx, listener)
}

func (r *run) takeListener() net.Listener {
	raw, err := r.listener.SyscallConn()
	if err != nil {
		return nil
	}
	fd := -1
	oob := make([]byte, unix.CmsgSpace(4))
	err = raw.Read(func(socket uintptr) (done bool) {
		n, oobn, _, _, err := unix.Recvmsg(int(socket), make([]byte, 1), oob, 0)
		if err == unix.EAGAIN {
			return false
		}
		if err != nil || n == 0 {
			return true
		}
		messages, err := unix.ParseSocketControlMessage(oob[:oobn])
		if err == nil && len(messages) == 1 {
			if fds, err := unix.ParseUnixRights(&messages[0]); err == nil && len(fds) == 1 {
				fd = fds[0]
			}
		}
		return true
	})
	if err != nil || fd < 0 {
		return nil
	}
	unix.CloseOnExec(fd)
	file := os.NewFile(uintptr(fd), "proxy")
	defer func() { _ = file.Close() }() // the listener has a copy
	listener, err := net.FileListener(file)
	if err != nil {
		return nil
	}
	return listener
}
