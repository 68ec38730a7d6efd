//go:build unix

package local

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// guardianName is how a guardian is called: its first argument tells it apart from the
// program that it is a copy of, and a person who lists processes what it is for.
const guardianName = "dsh-guardian"

// The descriptors of a guardian beside the command's own three.
const (
	ordersFD = 3 // a byte asks for the command's end; the end of the pipe means that the harness is gone
	reportFD = 4 // a line of JSON, see report
)

// leftoverGrace is how long what a command left behind, or what a dead harness left
// running, has between being asked to end and being killed.
const leftoverGrace = 200 * time.Millisecond

// killBound is how long a guardian tries to kill before it reports what it could not.
const killBound = 3 * time.Second

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
	Error    string `json:"error,omitempty"` // why the command did not start
	Code     int    `json:"code"`
	Signal   int    `json:"signal,omitempty"`
	Leftover int    `json:"leftover,omitempty"`
	Alive    int    `json:"alive,omitempty"` // what could not be killed
}

// guardian watches one command. One goroutine runs it.
type guardian struct {
	pid     int  // of the command; also the id of its process group
	ended   bool // the command has ended and been waited for
	final   report
	asked   bool
	killing bool
	grace   time.Duration
	timer   *time.Timer // to the next, stricter step
	end     time.Time   // when to give up killing
}

func guard(grace string, args []string) int {
	ms, err := strconv.Atoi(grace)
	if err == nil {
		err = unix.SetNonblock(ordersFD, true) // so that closing it ends a read
	}
	if err != nil {
		return 125 // somebody calls a program dsh-guardian
	}
	orders, out := os.NewFile(ordersFD, "orders"), json.NewEncoder(os.NewFile(reportFD, "report"))
	tell := func(r report) { _ = out.Encode(r) } // nobody is left to tell when this fails
	unix.CloseOnExec(ordersFD)
	unix.CloseOnExec(reportFD)
	keepFromCommands()
	becomeReaper()
	signals := make(chan os.Signal, 16)
	// What a command sends to its parent does not end the guardian. Caught, not
	// ignored: an ignored signal would stay ignored in the command.
	signal.Notify(signals, unix.SIGCHLD, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2)
	path, err := exec.LookPath(args[0])
	if err != nil {
		tell(report{Missing: errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist), Error: err.Error()})
		return 0
	}
	pid, err := syscall.ForkExec(path, args, &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: []uintptr{0, 1, 2},
		Sys:   commandAttr(),
	})
	if err != nil {
		tell(report{Error: err.Error()})
		return 0
	}
	tell(report{PID: pid})
	letGo()
	var reader sync.WaitGroup
	asked := make(chan struct{}, 1)
	reader.Go(func() { readOrders(orders, asked) })
	g := &guardian{pid: pid, grace: time.Duration(ms) * time.Millisecond, timer: time.NewTimer(time.Hour)}
	g.watch(signals, asked)
	tell(g.final)
	_ = orders.Close() // ends the reader
	reader.Wait()
	return 0
}

// letGo closes the guardian's copies of the command's output, so that its reader sees
// the end.
func letGo() {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return
	}
	for fd := range 3 {
		_ = dup2(int(null.Fd()), fd) // at worst the reader waits for its bound
	}
	_ = null.Close() // it lives on as the three
}

// readOrders passes on that the end is asked for, and closes asked when the harness is gone.
func readOrders(orders *os.File, asked chan<- struct{}) {
	defer close(asked)
	buf := make([]byte, 1)
	for {
		if n, err := orders.Read(buf); n == 0 || err != nil {
			return
		}
		select {
		case asked <- struct{}{}:
		default: // it is asked for already
		}
	}
}

// watch returns when the command and everything that it started has ended, or cannot be ended.
func (g *guardian) watch(signals <-chan os.Signal, orders <-chan struct{}) {
	for {
		if done := g.reap(); done {
			return
		}
		select {
		case <-signals:
		case _, alive := <-orders:
			if !alive {
				orders, g.grace = nil, min(g.grace, leftoverGrace)
			}
			g.ask(g.grace)
		case <-g.timer.C:
			g.kill()
		}
		if g.killing && time.Now().After(g.end) {
			g.final.Alive = len(g.children())
			return
		}
	}
}

// reap waits for what has ended and reports whether nothing is left.
func (g *guardian) reap() (done bool) {
	for {
		var st syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &st, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil: // there are no children
			return g.ended && g.groupIsGone()
		case pid == 0:
			if g.ended && !g.asked {
				g.ask(leftoverGrace)
			} else if g.killing {
				g.kill() // what the killed ones left has come to us
			}
			return false
		case pid == g.pid:
			g.ended = true
			g.final.Code = st.ExitStatus()
			if st.Signaled() {
				g.final.Code, g.final.Signal = -1, int(st.Signal())
			}
			if g.asked && !g.killing {
				g.ask(leftoverGrace) // the command is gone, its leftovers have less time
			}
		case g.ended && g.asked:
			g.final.Leftover++
		}
	}
}

// ask lets everything end by itself, and sets the time when it will be killed.
func (g *guardian) ask(grace time.Duration) {
	if g.killing {
		return
	}
	g.asked = true
	g.signalAll(syscall.SIGTERM)
	g.timer.Reset(grace)
}

// kill ends what is there. What that leaves behind comes to us and is killed next.
func (g *guardian) kill() {
	if !g.killing {
		g.killing, g.end = true, time.Now().Add(killBound)
	}
	g.signalAll(syscall.SIGKILL)
	g.timer.Reset(20 * time.Millisecond)
}

// signalAll signals the command's group while the command is not waited for, and our own
// children: only of these we know that their ids have not been given to another process.
func (g *guardian) signalAll(sig syscall.Signal) {
	// Whoever has ended meanwhile needs no signal.
	if !g.ended || !reaper {
		_ = syscall.Kill(-g.pid, sig)
	}
	for _, pid := range g.children() {
		if g.ended || pid != g.pid {
			_ = syscall.Kill(pid, sig)
		}
	}
}
