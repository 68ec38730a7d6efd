package escape

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// where is what a try has to know of the jail, through the environment: it sees nothing else of it.
type where struct {
	base                         string // the folder with all bait
	other, other6, udp, proxy    int    // ports
	victim, shm                  int    // a process outside and its memory
	runSocket, tmpSocket, secret string
	ninth                        string // where descriptor 9 led at first
}

const (
	pwned   = "PWNED"
	secret  = "TOPSECRET"
	running = "/run/dsh-bait.sock"
	inTmp   = "/tmp/dsh-bait.sock"
	shmFile = "/dev/shm/dsh-bait"
	marker  = "@dsh-bait-abstract"
)

func theJail() where {
	port := func(name string) int { n, _ := strconv.Atoi(os.Getenv("BAIT_" + name)); return n }
	base := os.Getenv("BAIT_BASE")
	return where{
		base: base, other: port("OTHER"), other6: port("OTHER6"), udp: port("UDP"), proxy: 3128, victim: port("VICTIM"), shm: port("SHM"),
		runSocket: running, tmpSocket: inTmp, secret: filepath.Join(base, "home", ".ssh", "id"),
	}
}

func (w where) out(name string) string { return filepath.Join(w.base, "out", name) }

// bait serves what must not be reached, counts who comes, and prints where it is. It lives until its
// standard input ends.
func bait(base string) error {
	var hits atomic.Int64
	hit := func(from string) {
		n := hits.Add(1)
		// The jail reads it at the end.
		_ = os.WriteFile(filepath.Join(base, "hits", fmt.Sprint(n)), []byte(from), 0o644)
	}
	serve := func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		if err != nil {
			return nil, fmt.Errorf("listen on %s: %w", address, err)
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				hit(network + " " + address)
				_, _ = c.Write([]byte(pwned))
				_ = c.Close()
			}
		}()
		return l, nil
	}
	for _, socket := range []string{running, inTmp, marker} {
		if _, err := serve("unix", socket); err != nil {
			return err
		}
		if socket[0] == '/' {
			if err := os.Chmod(socket, 0o777); err != nil {
				return err
			}
		}
	}
	tcp, err := serve("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := serve("tcp4", "127.0.0.9:3128"); err != nil {
		return err
	}
	port6 := 0
	if l, err := serve("tcp6", "[::1]:0"); err == nil {
		port6 = l.Addr().(*net.TCPAddr).Port
	}
	udp, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() {
		for b := make([]byte, 100); ; {
			n, from, err := udp.ReadFrom(b)
			if err != nil {
				return
			}
			hit("udp")
			_, _ = udp.WriteTo(b[:n], from)
		}
	}()
	shm, _, errno := unix.Syscall(unix.SYS_SHMGET, 0x5b5b, 4096, 0o1666)
	if errno != 0 {
		shm = 0
	}
	if err := os.WriteFile(shmFile, []byte(secret), 0o666); err != nil {
		return err
	}
	fmt.Printf("BAIT_OTHER=%d BAIT_OTHER6=%d BAIT_UDP=%d BAIT_VICTIM=%d BAIT_SHM=%d BAIT_BASE=%s\n",
		tcp.Addr().(*net.TCPAddr).Port, port6, udp.LocalAddr().(*net.UDPAddr).Port, os.Getpid(), shm, base)
	_, _ = os.Stdin.Read(make([]byte, 1))
	return nil
}
