//go:build unix

package local

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dsh-harness/dsh/workspace/sandbox"
)

// guardianName is how a guardian is called: its first argument tells it apart from the
// program that it is a copy of, and a person who lists processes what it is for.
const guardianName = "dsh-guardian"

// The descriptors of a guardian beside the command's own three.
const (
	ordersFD   = 3 // first how to confine the command; then a byte asks for its end; the end of the pipe means that the harness is gone
	reportFD   = 4 // a line of JSON, see report
	listenerFD = 5 // a socket that takes the listener of the proxy, if there is one
)

// probeName is the command of a guardian that only finds out whether it could confine one.
const probeName = ""

const (
	// leftoverGrace is how long what a command left behind, or what a dead harness left
	// running, has between being asked to end and being killed.
	leftoverGrace = 200 * time.Millisecond
	// confineBound is how long a guardian may take to confine itself.
	confineBound = 20 * time.Second
	// killBound is how long a guardian tries to kill before it reports what it could not.
	killBound = 3 * time.Second
	// orphanTick is how often what has been orphaned and has ended is waited for while the
	// command runs, leftoverTick how often while only leftovers do.
	orphanTick   = time.Second
	leftoverTick = 4 * time.Millisecond
)

// guarded tells that this process has called Guard. It is the one fact about a process
// that no value can carry: without the call, a copy of this program would run
// as itself instead of as a guardian.
var guarded atomic.Bool

// Guard turns this process into a guardian when it was started as one, and then never
// returns. Every program that runs commands calls it first in main, and in TestMain:
//
//	func main() {
//		local.Guard()
//		…
//	}
//
// In any other process it returns at once, and commands may be run from then on.
func Guard() {
	if len(os.Args) < 3 || os.Args[0] != guardianName {
		guarded.Store(true)
		return
	}
	// The command is killed when the thread that started it ends: it must be this one.
	runtime.LockOSThread()
	// Not os.Exit, which in a race-enabled test waits a second for late reports.
	syscall.Exit(guard(os.Args[1], os.Args[2:]))
}

// report is what a guardian tells: first that the command has started, then how it
// ended; or once that it did not start.
type report struct {
	PID      int    `json:"pid,omitempty"` // set in the first report only
	Missing  bool   `json:"missing,omitempty"`
	Error    string `json:"error,omitempty"`   // why the command did not start
	Sandbox  bool   `json:"sandbox,omitempty"` // the error is of the sandbox
	Code     int    `json:"code,omitempty"`
	Signal   int    `json:"signal,omitempty"`
	Leftover int    `json:"leftover,omitempty"`
	Alive    int    `json:"alive,omitempty"` // what could not be killed
}

func (r report) send() {
	line, err := json.Marshal(r)
	if err == nil {
		_, _ = syscall.Write(reportFD, append(line, '\n')) // nobody is left to tell when this fails
	}
}

func guard(grace string, args []string) (code int) {
	ms, err := strconv.Atoi(grace)
	if err != nil {
		return 125 // somebody calls a program dsh-guardian
	}
	unix.CloseOnExec(ordersFD)
	unix.CloseOnExec(reportFD)
	keepFromCommands()
	becomeReaper()
	// A harness that is gone is noticed once the command runs; until then there is only this bound.
	bound := time.AfterFunc(confineBound, func() { syscall.Exit(125) })
	err = confine()
	bound.Stop()
	if err != nil {
		report{Sandbox: true, Error: err.Error()}.send()
		return 0
	}
	if args[0] == probeName {
		report{}.send()
		return 0
	}
	// What a command sends to its parent does not end the guardian. Caught and dropped,
	// not ignored: the command would inherit that.
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2)
	path, err := exec.LookPath(args[0])
	if err != nil {
		missing := errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist)
		report{Missing: missing, Error: err.Error()}.send()
		return 0
	}
	pid, err := syscall.ForkExec(path, args, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: commandAttr()})
	if err != nil {
		report{Error: err.Error()}.send()
		return 0
	}
	letGo()
	report{PID: pid}.send()
	g := &guardian{pid: pid, grace: time.Duration(ms) * time.Millisecond, exit: exitFD(pid), orders: ordersFD}
	for !g.reap() && !g.givesUp() {
		g.wait()
	}
	g.final.send()
	return 0
}

// confine reads how the command is to be confined and confines this thread, which starts it.
func confine() error {
	spec, err := readSpec(ordersFD)
	if err != nil {
		return fmt.Errorf("learn how to confine the command: %w", err)
	}
	if spec == nil {
		return nil
	}
	listener, err := sandbox.Enter(*spec)
	if err != nil {
		return err
	}
	if listener >= 0 {
		err := unix.Sendmsg(listenerFD, []byte{0}, unix.UnixRights(listener), nil, 0)
		if err != nil {
			return fmt.Errorf("hand over the listener of the proxy: %w", err)
		}
		_ = unix.Close(listener) // the harness has it
	}
	_ = unix.Close(listenerFD) // it may not be there
	return sandbox.Lock(*spec)
}

// maxSpec is how long a Spec may be in bytes.
const maxSpec = 4 << 20

// writeSpec sends a spec, which may be nil, in front of orders: its length in four bytes, and its JSON.
func writeSpec(w io.Writer, spec *sandbox.Spec) error {
	var text []byte
	if spec != nil {
		var err error
		if text, err = json.Marshal(spec); err != nil {
			return err
		}
		if len(text) > maxSpec {
			return fmt.Errorf("the list of places is too long: it has %d bytes", len(text))
		}
	}
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

func readSpec(fd int) (*sandbox.Spec, error) {
	from := descriptor(fd)
	var size [4]byte
	if _, err := io.ReadFull(from, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n == 0 {
		return nil, nil
	}
	if n > maxSpec {
		return nil, fmt.Errorf("it is said to have %d bytes", n)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(from, text); err != nil {
		return nil, err
	}
	spec := new(sandbox.Spec)
	return spec, json.Unmarshal(text, spec)
}

// descriptor reads without the runtime's poller, which a guardian does not need.
type descriptor int

func (d descriptor) Read(p []byte) (int, error) {
	for {
		n, err := unix.Read(int(d), p)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		}
		return n, nil
	}
}

// letGo closes the guardian's copies of the command's input and output, so that whoever is
// at the other end sees when the command is gone.
func letGo() {
	for fd := range 3 {
		_ = syscall.Close(fd)
	}
}

// guardian watches one command. It has one thread and sleeps in poll, because every
// command pays for it.
type guardian struct {
	pid    int           // of the command; also the id of its process group
	grace  time.Duration // between asking and killing
	orders int           // -1 when the harness is gone
	exit   int           // becomes readable when the command ends; -1 when there is none

	ended bool // the command has ended and been waited for
	asked bool
	next  time.Time // when to kill what was asked
	stop  time.Time // when to give up killing; zero before
	final report
}

// wait sleeps until there may be something to do, and does what is due by order or by time.
func (g *guardian) wait() {
	tick := orphanTick
	if g.ended || g.exit < 0 || !g.stop.IsZero() {
		tick = leftoverTick
	}
	if g.asked && g.stop.IsZero() {
		tick = min(tick, max(time.Until(g.next), 0))
	}
	fds := []unix.PollFd{{Fd: int32(g.orders), Events: unix.POLLIN}, {Fd: int32(g.exit), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, int((tick+time.Millisecond-1)/time.Millisecond))
	if err == nil && n > 0 && fds[0].Revents != 0 {
		var order [16]byte
		if n, err := syscall.Read(ordersFD, order[:]); err != nil || n == 0 {
			g.orders, g.grace = -1, min(g.grace, leftoverGrace)
		}
		g.ask(g.grace)
	}
	if g.asked && !time.Now().Before(g.next) {
		g.kill()
	}
}

// reap waits for what has ended and reports whether nothing is left.
func (g *guardian) reap() (done bool) {
	for {
		var st syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &st, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil: // there are no children
			return g.ended && g.groupIsGone()
		case pid == 0:
			if g.ended && !g.asked {
				g.ask(leftoverGrace)
			}
			return false
		case pid == g.pid:
			g.ended, g.exit = true, -1
			g.final.Code = st.ExitStatus()
			if st.Signaled() {
				g.final.Code, g.final.Signal = -1, int(st.Signal())
			}
			if g.asked && g.stop.IsZero() {
				g.ask(leftoverGrace) // its leftovers have less time than it had
			}
		case g.ended && g.asked:
			g.final.Leftover++
		}
	}
}

// ask lets everything end by itself, and sets the time when it will be killed.
func (g *guardian) ask(grace time.Duration) {
	if !g.stop.IsZero() {
		return
	}
	g.asked, g.next = true, time.Now().Add(grace)
	g.signal(syscall.SIGTERM)
}

// kill ends what is there. What that leaves behind comes to us and is killed next.
func (g *guardian) kill() {
	if g.stop.IsZero() {
		g.stop = time.Now().Add(killBound)
	}
	g.signal(syscall.SIGKILL)
}

func (g *guardian) givesUp() bool {
	if g.stop.IsZero() || time.Now().Before(g.stop) {
		return false
	}
	g.final.Alive = max(len(g.children()), 1)
	return true
}

// signal signals the command's group while the command is not waited for, and our own
// children: only of these we know that their ids have not been given to another
// process. Whoever has ended meanwhile needs no signal.
func (g *guardian) signal(sig syscall.Signal) {
	if !g.ended || !reaper {
		_ = syscall.Kill(-g.pid, sig)
	}
	for _, pid := range g.children() {
		if g.ended || pid != g.pid {
			_ = syscall.Kill(pid, sig)
		}
	}
}
