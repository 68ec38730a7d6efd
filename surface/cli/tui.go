package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/spf13/cobra"

	"github.com/dsh-harness/dsh/internal/jsonrpc"
	"github.com/dsh-harness/dsh/internal/running"
	"github.com/dsh-harness/dsh/protocol"
	"github.com/dsh-harness/dsh/surface/acp"
	"github.com/dsh-harness/dsh/surface/client"
	"github.com/dsh-harness/dsh/surface/server"
	"github.com/dsh-harness/dsh/surface/tui"
)

// interfacing holds the flags of the terminal interface.
type interfacing struct {
	host
	goOn   bool
	resume string
	fork   bool
	reader bool
	full   bool
	prompt string
}

// looks registers how the interface looks.
func (o *interfacing) looks(c *cobra.Command) {
	c.Flags().BoolVar(&o.reader, "screen-reader", false, "print line by line, with words for marks (DSH_SCREEN_READER)")
	c.Flags().BoolVar(&o.full, "full", false, "draw on the whole screen, instead of printing into the terminal's history (DSH_FULL)")
}

func (o *interfacing) register(c *cobra.Command) {
	o.host.register(c.Flags())
	o.looks(c)
}

// atTerminal reports whether a person sits at both ends.
func (p *program) atTerminal() bool {
	return p.stdout.terminal && isTerminal(p.stdin)
}

// show opens the interface on a composition of its own, which others reach by a socket.
func (p *program) show(ctx context.Context, o *interfacing) error {
	dirs, err := p.home()
	if err != nil {
		return err
	}
	socket := filepath.Join(dirs.State, "running", fmt.Sprint(os.Getpid(), ".sock"))
	var set []string
	if len(socket) > longestSocket {
		socket = "" // nobody reaches it then
	} else {
		set = []string{"session-jsonl.address=unix:" + socket}
	}
	o.asks, o.verbose = true, false // what is told on standard error would stand in the middle of what is drawn; --log-file has it
	return p.host(ctx, &o.host, 0, set, func(ctx context.Context, h hosted) error {
		t := &task{goOn: o.goOn, resume: o.resume, fork: o.fork}
		chosen := h.defaults
		if err := t.choose(ctx, h.harness, &chosen); err != nil {
			return err
		}
		if chosen.Resume != "" && chosen.Dir == "" {
			store, err := storageOf(h.harness)
			if err != nil {
				return err
			}
			view, err := store.kept.Load(ctx, chosen.Resume)
			if err != nil {
				return err
			}
			chosen.Dir = view.Header.Cwd
		}
		options := p.connection(&o.host, h)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var serving sync.WaitGroup
		defer serving.Wait()
		if socket != "" {
			s, err := server.Listen(server.Options{Socket: socket, Logger: h.logger, Serve: func(ctx context.Context, s jsonrpc.Stream) error {
				return acp.Serve(ctx, s, options)
			}})
			if err != nil {
				return err
			}
			serving.Go(func() {
				if err := s.Serve(ctx); err != nil && h.logger != nil {
					h.logger.Warn("others cannot reach this interface", "err", err)
				}
			})
			process := running.Process{Dir: chosen.Dir, Address: "unix:" + socket, Version: thisBuild().Version, Interface: true}
			if err := p.reloadable(h.harness, process); err != nil {
				return err
			}
		}
		near, far := jsonrpc.Pipe()
		options.EndTurns = true
		var failed error
		serving.Go(func() { failed = acp.Serve(ctx, far, options) })
		err := p.face(ctx, near, o, chosen.Dir, chosen.Resume)
		cancel()
		_ = near.Close() // the other end sees that we are gone
		serving.Wait()
		if ctx.Err() == nil {
			err = errors.Join(err, failed)
		}
		return err
	})
}

// face shows the interface on a stream, and says at its end how to go on. A session that another process has is opened there.
func (p *program) face(ctx context.Context, s jsonrpc.Stream, o *interfacing, dir, id string) error {
	dirs, err := p.home()
	if err != nil {
		return err
	}
	history := tui.History{Path: filepath.Join(dirs.State, "history.jsonl")}
	past, err := history.Read()
	if err != nil {
		p.note("%v", err)
	}
	keys, err := readKeys(filepath.Join(dirs.Config, "keys.yml"))
	if err != nil {
		return err
	}
	out, ok := p.stdout.Writer.(*os.File)
	if !ok {
		return errors.New("the interface needs a terminal")
	}
	show := tui.Options{
		Model: o.agent.Model, Effort: o.agent.Effort, Mode: o.mode, Keys: keys,
		Stream: s, In: p.stdin, Out: out, Getenv: p.get, Version: thisBuild().Version, Dir: dir, AddDirs: o.agent.AddDirs, Session: id, Prompt: o.prompt,
		Color: p.get("NO_COLOR") == "", Full: o.full || p.get("DSH_FULL") != "",
		Reader: o.reader || p.get("DSH_SCREEN_READER") != "", History: past,
		Said: func(prompt string) { _ = history.Add(prompt) }, // a prompt that is not remembered is no reason to stop
	}
	session, err := tui.Run(ctx, show)
	if address := heldAt(err); address != "" {
		p.note("another process has the session: it is opened there, at %s", address)
		far, err := p.find(ctx, address)
		if err != nil {
			return err
		}
		show.Stream = far
		session, err = tui.Run(ctx, show)
		_ = far.Close() // the interface is over
		return p.leave(session, err)
	}
	return p.leave(session, err)
}

// heldAt is where a session can be reached that another process has, "" when that is not what went wrong.
func heldAt(err error) string {
	var refused *jsonrpc.Error
	var problem protocol.Problem
	if !errors.As(err, &refused) || json.Unmarshal(refused.Data, &problem) != nil || problem.Locked == nil {
		return ""
	}
	return problem.Locked.Address
}

func (p *program) leave(session string, err error) error {
	if session != "" {
		p.note("go on with dsh -r %s", session)
	}
	return failed(err)
}

func (p *program) attachCommand() *cobra.Command {
	o := &interfacing{}
	c := &cobra.Command{
		Use:   "attach [flags] [address]",
		Short: "Open the terminal interface on a server, or on another interface",
		Long: `Opens the terminal interface on the sessions of a server that runs, see dsh serve, or of another terminal interface. Without an address it is the
one that was started last. Without --session it is the session of this folder that was changed last, or a new one.`,
		Example: `  dsh attach
  dsh attach --session 0193c5
  dsh attach ws://127.0.0.1:4321/v1/connect`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			address := ""
			if len(args) > 0 {
				address = args[0]
			}
			return p.attach(cmd.Context(), o, address)
		},
	}
	o.composition.register(c.Flags())
	o.looks(c)
	c.Flags().StringVar(&o.resume, "session", "", "the session of this `id`, or of an id that begins so; new for a new one")
	for _, unused := range []string{"profile", "patch", "set"} {
		_ = c.Flags().MarkHidden(unused) // they are there
	}
	return c
}

func (p *program) attach(ctx context.Context, o *interfacing, address string) error {
	if !p.atTerminal() {
		return errors.New("dsh attach opens the terminal interface, and this is no terminal: dsh acp --attach connects a program")
	}
	dir, err := o.real()
	if err != nil {
		return err
	}
	id, dir, err := p.sessionAt(ctx, address, dir, o.resume)
	if err != nil {
		return err
	}
	s, err := p.find(ctx, address)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // the interface is over
	return p.face(ctx, s, o, dir, id)
}

// sessionAt finds the session of a server that is meant, and its folder.
func (p *program) sessionAt(ctx context.Context, address, dir, id string) (session, folder string, err error) {
	if id == "new" {
		return "", dir, nil
	}
	s, err := p.find(ctx, address)
	if err != nil {
		return "", "", err
	}
	c, err := client.Connect(ctx, s, client.Options{Name: "terminal", Version: thisBuild().Version})
	if err != nil {
		return "", "", failed(err)
	}
	defer c.Close()
	query := protocol.SearchParams{Cwd: dir, Limit: 1}
	if id != "" {
		query = protocol.SearchParams{Query: id}
	}
	r, err := client.Ask[protocol.SearchResult](ctx, c, protocol.MethodSessionsSearch, query)
	if err != nil {
		return "", "", failed(err)
	}
	var found []protocol.SessionEntry
	for _, one := range r.Sessions {
		if len(one.SessionID) >= len(id) && one.SessionID[:len(id)] == id {
			found = append(found, one)
		}
	}
	switch {
	case len(found) > 1 && id != "":
		return "", "", fmt.Errorf("%d sessions begin with %s: say more of the id", len(found), id)
	case len(found) > 0:
		return found[0].SessionID, found[0].Cwd, nil
	case id != "":
		return "", "", fmt.Errorf("no session there begins with %s", id)
	}
	return "", dir, nil
}

// interfacing is what run and resume show at a terminal when there is no prompt.
func (t *task) interfacing() *interfacing {
	return &interfacing{
		host: host{composition: t.composition, ruleFlags: t.ruleFlags, agent: t.agent, mode: t.mode, addDirs: t.addDirs, logFile: t.logFile},
		goOn: t.goOn, resume: t.resume, fork: t.fork,
	}
}

// talks reports whether a person wants to go on with a session, and has not said how.
func (t *task) talks(p *program, args []string) bool {
	return (t.goOn || t.resume != "") && len(args) == 0 && t.file == "" && !t.print && t.format == formatText && p.atTerminal()
}
