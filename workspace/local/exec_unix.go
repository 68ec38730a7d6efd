//go:build unix

package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dsh-harness/dsh/workspace"
	"github.com/dsh-harness/dsh/workspace/sandbox"
)

const (
	defaultGrace = 2 * time.Second
	// guardianBound is how long after the last kill a guardian has to report.
	guardianBound = killBound + 2*time.Second
	// drainBound is how long output may still come when the command and all that it
	// started have ended: somebody else holds the pipe then.
	drainBound = 500 * time.Millisecond
)

// Run implements [workspace.Exec]. It also ends, as canceled, when the workspace is closed.
func (w *local) Run(ctx context.Context, c workspace.Command) (workspace.Result, error) {
	result, err := w.run(ctx, c)
	if err != nil {
		name := "nothing"
		if len(c.Args) > 0 {
			name = filepath.Base(c.Args[0])
		}
		return result, fmt.Errorf("run %s: %w", name, err)
	}
	return result, nil
}

func (w *local) run(ctx context.Context, c workspace.Command) (workspace.Result, error) {
	if len(c.Args) == 0 {
		return workspace.Result{}, errors.New("no program was given")
	}
	if !guarded.Load() {
		return workspace.Result{}, errors.New("this program cannot watch commands: its main function must call Guard first")
	}
	dir, err := w.workingFolder(c.Dir)
	if err != nil {
		return workspace.Result{}, err
	}
	if err := w.files.makeTemp(); err != nil {
		return workspace.Result{}, fmt.Errorf("make the temporary folder: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return workspace.Result{}, context.Cause(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.scope.Context(), cancel)()
	conf, err := w.confine(ctx, dir, c)
	if err != nil {
		return workspace.Result{}, err
	}
	defer conf.release()
	r := &run{command: c, grace: c.Grace, spec: conf.spec, network: conf.network, limits: conf.cgroups}
	if r.grace <= 0 {
		r.grace = defaultGrace
	}
	if err := r.start(dir, slices.Concat(conf.inherited(w.env), []string{"TMPDIR=" + w.temp, "PWD=" + dir}, conf.env, c.Env)); err != nil {
		return workspace.Result{}, err
	}
	result, err := r.wait(ctx)
	result.Sandbox = conf.level
	if err == nil {
		result.Refused = append(result.Refused, conf.refused(result, r.heard)...)
		result.Limit = conf.limit(result)
	}
	return result, err
}

// workingFolder says in the error what to do, because a command may remove its own folder.
func (w *local) workingFolder(name string) (string, error) {
	if name == "" {
		name = w.files.dir
	}
	p, info, err := w.files.locate(name)
	if err != nil {
		return "", fmt.Errorf("find the working folder %s: %w", name, err)
	}
	if p.Exists && info == nil {
		info, err = os.Lstat(p.Path)
	}
	if !p.Exists || err != nil {
		return "", fmt.Errorf("%w: %s; run in another folder, or make it again from there", workspace.ErrNoFolder, name)
	}
	if !info.IsDir() {
		return "", fmt.Errorf("%w: %s is a file", workspace.ErrNoFolder, name)
	}
	return p.Path, nil
}

// run is one command that is being run.
type run struct {
	command  workspace.Command
	grace    time.Duration
	began    time.Time
	guardian *exec.Cmd
	pid      int // of the command, once it has started

	orders  *os.File   // to the guardian
	reports *os.File   // from it
	outputs []*os.File // what the command writes, stdout first
	stdin   *os.File   // nil when it reads nothing

	output sync.Mutex // so that calls of command.Output do not overlap
	heard  messages   // what the output says that was refused

	spec     *sandbox.Spec // nil when the command is not confined
	network  workspace.Network
	limits   cgroups
	listener *os.File // where the listener of the proxy comes from, if there is one
}

func (r *run) start(dir string, env []string) (err error) {
	var ours, theirs []*os.File
	pipe := func() (read, write *os.File) {
		if err != nil {
			return nil, nil
		}
		read, write, err = os.Pipe()
		return read, write
	}
	ordersRead, ordersWrite := pipe()
	reportsRead, reportsWrite := pipe()
	outRead, outWrite := pipe()
	ours, theirs = []*os.File{ordersWrite, reportsRead, outRead}, []*os.File{ordersRead, reportsWrite, outWrite}
	r.orders, r.reports, r.outputs = ordersWrite, reportsRead, []*os.File{outRead}
	errWrite := outWrite
	if !r.command.Merged {
		var errRead *os.File
		errRead, errWrite = pipe()
		r.outputs = append(r.outputs, errRead)
		ours, theirs = append(ours, errRead), append(theirs, errWrite)
	}
	var stdin *os.File
	if len(r.command.Stdin) > 0 {
		stdin, r.stdin = pipe()
		ours, theirs = append(ours, r.stdin), append(theirs, stdin)
	}
	extra := []*os.File{ordersRead, reportsWrite}
	if r.network != nil && err == nil {
		var theirEnd *os.File
		if r.listener, theirEnd, err = socketPair(); err == nil {
			ours, theirs, extra = append(ours, r.listener), append(theirs, theirEnd), append(extra, theirEnd)
		}
	}
	attr := &syscall.SysProcAttr{Setsid: true}
	if r.spec != nil {
		attr = sandbox.Attr(r.spec.Level)
	}
	if err == nil {
		r.began = time.Now()
		r.guardian = &exec.Cmd{
			Path: self(),
			Args: append([]string{guardianName, strconv.FormatInt(r.grace.Milliseconds(), 10)}, r.command.Args...),
			Dir:  dir, Env: env,
			Stdout: outWrite, Stderr: errWrite,
			ExtraFiles:  extra,
			SysProcAttr: attr,
		}
		if stdin != nil {
			r.guardian.Stdin = stdin
		}
		err = r.guardian.Start()
	}
	closeAll(theirs)
	if err != nil {
		closeAll(ours)
		if errors.Is(err, syscall.E2BIG) {
			return errors.New("the command line or the environment is too long for the system (about 128 kB for one argument); put the text into a file")
		}
		if r.spec != nil {
			return fmt.Errorf("%w: start a guardian: %w", workspace.ErrSandbox, err)
		}
		return fmt.Errorf("start a guardian: %w", err)
	}
	err = r.limits.add(r.guardian.Process.Pid)
	if err == nil {
		_ = r.orders.SetWriteDeadline(time.Now().Add(guardianBound)) // pipes have deadlines
		err = writeSpec(r.orders, r.spec)
	}
	if err != nil {
		r.killAll()
		closeAll(ours)
		_ = r.guardian.Wait() // it was killed
		return fmt.Errorf("%w: tell the guardian how to confine it: %w", workspace.ErrSandbox, err)
	}
	return nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close() // pipes have nothing to lose
		}
	}
}

// wait returns when everything has ended.
func (r *run) wait(ctx context.Context) (workspace.Result, error) {
	var workers sync.WaitGroup
	reports, over := make(chan report), make(chan struct{})
	workers.Go(func() { r.readReports(reports, over) })
	for i, out := range r.outputs {
		workers.Go(func() { r.copyOutput(out, i > 0) })
	}
	if r.stdin != nil {
		workers.Go(func() {
			_, _ = r.stdin.Write(r.command.Stdin) // a command need not read all of it
			_ = r.stdin.Close()
		})
	}
	proxied := make(chan []workspace.Refusal, 1)
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	if r.listener != nil {
		workers.Go(func() { proxied <- r.serve(serving) })
	}
	result, err := r.follow(ctx, reports)
	stopServing()
	close(over)
	result.Duration = time.Since(r.began)
	late := time.Now().Add(drainBound)
	for _, out := range r.outputs {
		_ = out.SetReadDeadline(late) // pipes have deadlines
	}
	if r.stdin != nil {
		_ = r.stdin.SetWriteDeadline(late)
	}
	_ = r.reports.SetReadDeadline(late)
	_ = r.orders.Close() // the guardian needs none any more
	if r.listener != nil {
		_ = r.listener.SetReadDeadline(late)
	}
	workers.Wait()
	if r.listener != nil {
		result.Refused = <-proxied
		_ = r.listener.Close() // nothing was written to it
	}
	closeAll(append(r.outputs, r.reports))
	_ = r.guardian.Wait() // what it has to say is in its reports
	return result, err
}

// follow reads reports to the last one and asks for the end when it is time.
func (r *run) follow(ctx context.Context, reports <-chan report) (workspace.Result, error) {
	var result workspace.Result
	var timeout, giveUp <-chan time.Time
	if r.command.Timeout > 0 {
		timer := time.NewTimer(r.command.Timeout)
		defer timer.Stop()
		timeout = timer.C
	}
	done := ctx.Done()
	end := func() {
		timeout, done = nil, nil
		_, _ = r.orders.Write([]byte{1}) // a guardian that is gone needs no order
		giveUp = time.After(r.grace + guardianBound)
	}
	for {
		select {
		case rep, ok := <-reports:
			switch {
			case !ok:
				r.killAll()
				return result, errors.New("its guardian died, so that something that it started may still run; whatever was in its process group was killed")
			case rep.Sandbox:
				return result, fmt.Errorf("%w: %s", workspace.ErrSandbox, rep.Error)
			case rep.Error != "":
				if rep.Missing {
					return result, fmt.Errorf("%w: %s", exec.ErrNotFound, rep.Error)
				}
				return result, errors.New(rep.Error)
			case rep.PID > 0:
				if r.spec == nil || r.spec.Level != workspace.SandboxFull { // else it is a number of another namespace
					r.pid = rep.PID
				}
				continue
			}
			result.Code, result.Leftover = rep.Code, rep.Leftover
			if rep.Signal != 0 {
				result.Signal = unix.SignalName(syscall.Signal(rep.Signal))
			}
			if rep.Alive > 0 {
				return result, fmt.Errorf("%d processes could not be killed and may still run", rep.Alive)
			}
			return result, nil
		case <-timeout:
			result.TimedOut = true
			end()
		case <-done:
			result.Canceled = true
			end()
		case <-giveUp:
			r.killAll()
			return result, errors.New("its guardian did not answer and was killed, so that something that it started may still run")
		}
	}
}

func (r *run) killAll() {
	_ = r.guardian.Process.Kill() // at worst it is gone already
	if r.pid > 0 {
		_ = syscall.Kill(-r.pid, syscall.SIGKILL)
	}
}

func (r *run) readReports(to chan<- report, over <-chan struct{}) {
	defer close(to)
	from := json.NewDecoder(r.reports)
	for {
		var rep report
		if err := from.Decode(&rep); err != nil {
			return
		}
		select {
		case to <- rep:
		case <-over:
			return
		}
	}
}

func (r *run) copyOutput(from *os.File, stderr bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && r.command.Output != nil {
			r.output.Lock()
			r.command.Output(buf[:n], stderr)
			r.output.Unlock()
		}
		if n > 0 && r.spec != nil {
			r.output.Lock()
			r.heard.write(buf[:n])
			r.output.Unlock()
		}
		if err != nil { // io.EOF, or the deadline
			return
		}
	}
}
