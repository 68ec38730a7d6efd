// Package tui is the terminal interface: a client of the protocol like any other. What is finished is printed into the terminal's own history;
// below it stand what is under way, the prompt, and a line of status.
//
// [Run] has one goroutine that everything passes through: keys, notifications, answers to calls, the size of the terminal. Nothing runs while nothing
// happens.
package tui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	uv "github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/term"

	"github.com/dsh-harness/dsh/internal/cells"
	"github.com/dsh-harness/dsh/internal/jsonrpc"
	"github.com/dsh-harness/dsh/internal/screen"
	"github.com/dsh-harness/dsh/protocol"
	"github.com/dsh-harness/dsh/surface/client"
)

// Options of [Run].
type Options struct {
	Stream  jsonrpc.Stream // to the agent
	In, Out *os.File       // a terminal
	Getenv  func(name string) string
	Version string

	Dir     string   // the folder of a new session
	AddDirs []string // further folders of it
	Session string   // to open; "" for a new one
	// Model, Effort and Mode are chosen for the session that is opened; "" leaves what it has.
	Model, Effort, Mode string
	Prompt              string // to begin with; "" for none

	Color bool
	// Full draws on all of the terminal's other screen, which scrolls by keys, instead of printing into its history.
	Full bool
	// Reader is for screen readers: what happens is printed line by line, with words for marks, and only the prompt is drawn.
	Reader bool
	// Keys are other keys for actions, by the names of [Actions]; what is not named keeps its own.
	Keys map[string][]string
	// History are earlier prompts, the last one last. Said is called with each new one.
	History []string
	Said    func(prompt string)
}

// ErrTerminal: the terminal cannot be drawn on.
var ErrTerminal = errors.New("this is no terminal that can be drawn on")

const (
	// frame is the least time between two frames while something streams.
	frame = 16 * time.Millisecond
	// callTime bounds a call that a person waits for.
	callTime = 30 * time.Second
)

// Run shows the interface until the person leaves, ctx ends or the connection does. It returns the session that was open last. The terminal is left as
// it was found, also after a panic.
func Run(ctx context.Context, o Options) (sessionID string, err error) {
	if t := o.Getenv("TERM"); t == "dumb" {
		return "", fmt.Errorf("%w (TERM=dumb): use dsh run", ErrTerminal)
	}
	bound, err := bind(o.Keys)
	if err != nil {
		return "", err
	}
	before, err := term.MakeRaw(o.In.Fd())
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrTerminal, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	u := &ui{o: o, ctx: ctx, bound: bound, cooked: before, results: make(chan func(), 64), hungUp: make(chan struct{}), came: make(chan struct{}, 1), keys: make(chan uv.Event, 64),
		focused: true, history: o.History, calls: map[string]*call{}, deliveries: map[string]string{}}
	u.past = len(u.history)
	defer u.tasks.Wait()
	defer cancel()
	width, height, err := term.GetSize(o.Out.Fd())
	if err != nil || width <= 0 || height <= 0 {
		width, height = 80, 24
	}
	u.s = screen.New(o.Out, screen.Options{Width: width, Height: height, Color: o.Color, Full: o.Full && !o.Reader})
	defer func() {
		p := recover()
		_ = u.s.Leave() // the terminal may be gone
		if restored := term.Restore(o.In.Fd(), before); restored != nil && err == nil && p == nil {
			err = fmt.Errorf("give the terminal back: %w", restored)
		}
		if p != nil {
			_, _ = fmt.Fprintf(o.Out, "dsh: a mistake in the interface: %v\n%s", p, debug.Stack())
			panic(p)
		}
	}()
	if err := u.frame(); err != nil { // the prompt is there before anything else is ready
		return "", err
	}
	c, err := client.Connect(ctx, o.Stream, client.Options{Name: "terminal", Version: o.Version, OnNote: u.note})
	if err != nil {
		return "", err
	}
	defer c.Close()
	defer u.stopKeys()
	defer cancel() // who waits for a call stops before the connection is closed
	u.c = c
	if err := u.open(o.Session); err != nil {
		return "", err
	}
	for option, value := range map[string]string{"model": o.Model, "effort": o.Effort, "mode": o.Mode} {
		if value == "" || o.Session == "" {
			continue // a new session has them from the start
		}
		raw, err := json.Marshal(value)
		if err != nil {
			return "", err
		}
		ask(u, protocol.MethodSetConfigOption, protocol.SetConfigOptionParams{SessionID: u.session, ConfigID: option, Value: raw}, func(r protocol.SetConfigOptionResult) {
			u.choose(r.ConfigOptions)
		})
	}
	if o.Prompt != "" {
		u.deliver(o.Prompt, false)
	}
	return u.session, u.loop()
}

// note is a notification.
type note struct {
	method string
	params json.RawMessage
}

// note takes a notification, on the goroutine that reads. It never waits: the loop may be waiting for an answer that comes behind it.
func (u *ui) note(method string, params json.RawMessage) {
	u.notesMu.Lock()
	u.notes = append(u.notes, note{method, params})
	u.notesMu.Unlock()
	select {
	case u.came <- struct{}{}:
	default:
	}
}

// startKeys begins to read the keyboard.
func (u *ui) startKeys() error {
	in, err := uv.NewCancelReader(u.o.In)
	if err != nil {
		return fmt.Errorf("read the keyboard: %w", err)
	}
	ctx, cancel := context.WithCancel(u.ctx)
	var reading sync.WaitGroup
	reading.Go(func() {
		_ = uv.NewTerminalReader(in, u.o.Getenv("TERM")).StreamEvents(ctx, u.keys)
		if ctx.Err() == nil {
			close(u.hungUp) // nobody sits at the other end any more
		}
	})
	u.stopReading = func() {
		cancel()
		in.Cancel()
		reading.Wait()
		_ = in.Close()
	}
	return nil
}

func (u *ui) stopKeys() {
	if u.stopReading != nil {
		u.stopReading()
		u.stopReading = nil
	}
}

// loop is the goroutine that everything passes through.
func (u *ui) loop() error {
	if err := u.startKeys(); err != nil {
		return err
	}
	resized := make(chan os.Signal, 1)
	notifyResize(resized)
	defer signal.Stop(resized)
	var later, clock <-chan time.Time
	var drawn time.Time
	for !u.left {
		urgent := false
		select {
		case <-u.ctx.Done():
			return nil
		case <-u.hungUp:
			return nil
		case <-u.c.Done():
			return errors.New("the connection to the agent has ended")
		case k := <-u.keys:
			u.key(k)
			urgent = true
		case <-u.came:
			u.drain()
		case f := <-u.results:
			f()
			urgent = true
		case <-resized:
			if width, height, err := term.GetSize(u.o.Out.Fd()); err == nil && width > 0 && height > 0 {
				if err := u.s.Resize(width, height); err != nil {
					return err
				}
			}
			urgent = true
		case <-later:
			later, urgent = nil, true
		case <-clock:
			clock, urgent = nil, true
		}
		if clock == nil && u.running && !u.o.Reader {
			clock = time.After(time.Second)
		}
		if wait := frame - time.Since(drawn); !urgent && wait > 0 {
			if later == nil {
				later = time.After(wait)
			}
			continue
		}
		if err := u.frame(); err != nil {
			return err
		}
		drawn = time.Now()
		if u.failed != nil {
			return u.failed
		}
	}
	return nil
}

// drain takes the notifications that have come, so that one frame shows them all.
func (u *ui) drain() {
	u.notesMu.Lock()
	all := u.notes
	u.notes = nil
	u.notesMu.Unlock()
	for _, n := range all {
		u.notice(n)
	}
}

// frame draws.
func (u *ui) frame() error {
	finished := u.finished
	u.finished = nil
	region, cursor := u.region()
	return u.s.Draw(finished, region, cursor)
}

// task runs f beside the loop, and then what it returns on the loop.
func (u *ui) task(f func(ctx context.Context) func()) {
	u.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(u.ctx, callTime)
		defer cancel()
		then := f(ctx)
		if then == nil {
			return
		}
		select {
		case u.results <- then:
		case <-u.ctx.Done():
		}
	})
}

// ask calls a method beside the loop; what went wrong is shown.
func ask[R any](u *ui, method string, params any, then func(R)) {
	u.task(func(ctx context.Context) func() {
		r, err := client.Ask[R](ctx, u.c, method, params)
		return func() {
			switch {
			case err != nil && !errors.Is(err, context.Canceled):
				u.problem(err)
			case err == nil && then != nil:
				then(r)
			}
		}
	})
}

// problem prints what went wrong.
func (u *ui) problem(err error) {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		u.print(cells.Styled(u.word("x ", "failed: ")+line, cells.Style{Fg: cells.Red}))
	}
}

// open opens a session, and has what is and what happens there told.
func (u *ui) open(id string) error {
	ctx, cancel := context.WithTimeout(u.ctx, callTime)
	defer cancel()
	p := protocol.OpenParams{SessionID: id, Cwd: u.o.Dir, AdditionalDirectories: u.o.AddDirs, MCPServers: []protocol.MCPServer{}}
	method := protocol.MethodSessionNew
	if id != "" {
		method = protocol.MethodSessionResume
	}
	r, err := client.Ask[protocol.OpenResult](ctx, u.c, method, p)
	if err != nil {
		return err
	}
	if id == "" {
		id = r.SessionID
	}
	if u.watch != "" {
		if err := u.c.Call(ctx, protocol.MethodUnwatch, protocol.UnwatchParams{Watch: u.watch}, nil); err != nil {
			return err
		}
		if err := u.c.Call(ctx, protocol.MethodSessionClose, protocol.SessionParams{SessionID: u.session}, nil); err != nil {
			return err
		}
	}
	u.reset(id)
	if r.Modes != nil {
		u.mode = r.Modes.CurrentModeID
		u.modes = nil
		for _, m := range r.Modes.AvailableModes {
			u.modes = append(u.modes, m.ID)
		}
	}
	u.choose(r.ConfigOptions)
	commands, err := client.Ask[protocol.CommandsResult](ctx, u.c, protocol.MethodCommands, protocol.SessionParams{SessionID: id})
	if err != nil {
		return err
	}
	u.commands = commands.Commands
	watch, err := client.Ask[protocol.WatchResult](ctx, u.c, protocol.MethodWatch, protocol.WatchParams{SessionID: id, From: -recent})
	if err != nil {
		return err
	}
	u.watch = watch.Watch
	u.running = watch.Status == "running"
	if watch.From > 0 {
		u.print(cells.Styled(fmt.Sprintf("(%d earlier events: dsh sessions show %s)", watch.From, id), cells.Style{Dim: true}))
	}
	return nil
}

// recent is how many events of a session are shown when it is opened.
const recent = 400

// choose takes what is chosen.
func (u *ui) choose(options []protocol.ConfigOption) {
	u.model, u.effort = "", ""
	for _, o := range options {
		value, _ := o.CurrentValue.(string)
		switch o.ID {
		case "model":
			u.model = value
		case "effort":
			u.effort = value
		}
	}
}
