package cli

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/dsh-harness/dsh/internal/atomicfile"
	"github.com/dsh-harness/dsh/internal/jsonrpc"
	"github.com/dsh-harness/dsh/internal/running"
	"github.com/dsh-harness/dsh/surface/acp"
	"github.com/dsh-harness/dsh/surface/server"
)

const (
	// questionWait is how long a question of a server waits for somebody to open its session.
	questionWait = 24 * time.Hour
	// startWait bounds how long a server in the background may take to answer.
	startWait = 20 * time.Second
	// stopWait bounds how long a server may take to end.
	stopWait = 15 * time.Second
	// servingGCPercent is how far the heap of a server grows before it is collected: it lives long and keeps much, so memory counts more than in a run.
	servingGCPercent = 75
	// longestSocket is what the path of a socket may have everywhere, in bytes.
	longestSocket = 100
)

// serving holds the flags of serve.
type serving struct {
	host
	socket     string
	listen     string
	names      []string
	cert, key  string
	insecure   bool
	idle       time.Duration
	background bool
	stop       bool
	status     bool
	json       bool
}

func (p *program) serveCommand() *cobra.Command {
	o := &serving{}
	c := &cobra.Command{
		Use:   "serve",
		Short: "Keep sessions for clients, which come and go",
		Long: `Keeps sessions for clients: they come over a unix socket that only you can open, or over a WebSocket with a token. Several clients may
watch and steer one session; a turn goes on when its client has gone, and a question waits a day for somebody to come back.

With --background the server goes on when its terminal is closed. --status says where it is, --stop ends it, and --idle has it end by itself. Its log and its token are in the
state folder, see dsh config path. Beyond loopback it listens only with a certificate, or with --insecure-listen, when something else protects the way.`,
		Example: `  dsh serve --background
  dsh serve --status
  dsh acp --attach
  dsh serve --stop`,
		Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return p.serve(cmd.Context(), o) },
	}
	o.register(c.Flags())
	c.Flags().StringVar(&o.socket, "socket", "", "`path` of the unix socket; by default in the state folder")
	c.Flags().StringVar(&o.listen, "listen", "127.0.0.1:0", "`address` of the WebSocket; port 0 is any free one, an empty address none")
	c.Flags().StringArrayVar(&o.names, "host", nil, "further `name` by which clients reach the WebSocket; may be repeated")
	c.Flags().StringVar(&o.cert, "tls-cert", "", "`file` with the certificate of the WebSocket")
	c.Flags().StringVar(&o.key, "tls-key", "", "`file` with its key")
	c.Flags().BoolVar(&o.insecure, "insecure-listen", false, "listen beyond loopback without a certificate")
	c.Flags().DurationVar(&o.idle, "idle", 0, "end when there was no client and no turn for this `time`, such as 30m")
	c.Flags().BoolVar(&o.background, "background", false, "go on without this terminal")
	c.Flags().BoolVar(&o.status, "status", false, "say which servers run, and where")
	c.Flags().BoolVar(&o.stop, "stop", false, "end the servers that run")
	c.Flags().BoolVar(&o.json, "json", false, "with --status: write JSON")
	c.MarkFlagsMutuallyExclusive("background", "status", "stop")
	return c
}

func (p *program) serve(ctx context.Context, o *serving) error {
	switch {
	case o.status:
		return p.serverStatus(o.json)
	case o.stop:
		return p.stopServers(ctx)
	case o.background:
		return p.serveInBackground(ctx)
	}
	return p.serveHere(ctx, o)
}

// serveHere serves until a signal comes.
func (p *program) serveHere(ctx context.Context, o *serving) error {
	if o.idle < 0 {
		return errors.New("--idle must be above 0")
	}
	dirs, err := p.home()
	if err != nil {
		return err
	}
	if o.socket == "" {
		if o.socket, err = defaultSocket(dirs.State); err != nil {
			return failed(err)
		}
	} else if o.socket, err = filepath.Abs(o.socket); err != nil {
		return err
	}
	listen := server.Options{Socket: o.socket, Listen: o.listen, Insecure: o.insecure, Hosts: o.names}
	if o.listen != "" {
		if listen.Token, err = tokenOf(dirs.State); err != nil {
			return failed(err)
		}
	}
	if (o.cert == "") != (o.key == "") {
		return errors.New("--tls-cert and --tls-key go together")
	}
	if o.cert != "" {
		pair, err := tls.LoadX509KeyPair(o.cert, o.key)
		if err != nil {
			return fmt.Errorf("read the certificate: %w", err)
		}
		listen.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	dir, err := o.folder()
	if err != nil {
		return err
	}
	if p.get("GOGC") == "" {
		debug.SetGCPercent(servingGCPercent)
	}
	address := "unix:" + o.socket
	set := []string{"session-jsonl.address=" + address}
	return p.host(ctx, &o.host, questionWait, set, func(ctx context.Context, h hosted) error {
		options := p.connection(&o.host, h)
		if listen.Logger = h.logger; listen.Logger == nil {
			// Who was turned away is worth a line in any case, of which there are only so many.
			listen.Logger = slog.New(slog.NewTextHandler(p.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
		}
		listen.Serve = func(ctx context.Context, s jsonrpc.Stream) error { return acp.Serve(ctx, s, options) }
		ctx, end := context.WithCancelCause(ctx)
		defer end(nil)
		if o.idle > 0 {
			i := &idle{after: o.idle}
			listen.Serve = i.counting(listen.Serve)
			defer i.watch(ctx, func() int { return h.hub.Stats().Running }, end)()
		}
		s, err := server.Listen(listen)
		if err != nil {
			return err
		}
		process := running.Process{Dir: dir, Address: address, URL: s.URL(), Version: thisBuild().Version}
		if err := p.reloadable(h.harness, process); err != nil {
			return err
		}
		p.note("listening on %s%s", address, and(s.URL()))
		err = s.Serve(ctx)
		if errors.Is(context.Cause(ctx), errIdle) {
			p.note("nobody needed the server for %v: it ends", o.idle)
		}
		return err
	})
}

// and is a further address.
func and(url string) string {
	if url == "" {
		return ""
	}
	return " and " + url
}

// defaultSocket is where clients look for the socket. A state folder with a long path has it elsewhere, since the path of a socket is short.
func defaultSocket(state string) (string, error) {
	path := filepath.Join(state, "server.sock")
	if len(path) <= longestSocket {
		return path, nil
	}
	sum := sha256.Sum256([]byte(state))
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("dsh-%d-%s", os.Getuid(), hex.EncodeToString(sum[:6])))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("make the folder of the socket: %w", err)
	}
	// Somebody else may have made it, to be where we connect to.
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if !info.IsDir() || info.Mode().Perm() != 0o700 || !ownedByUs(info) {
		return "", fmt.Errorf("the folder of the socket, %s, is not yours alone: name another path with --socket", dir)
	}
	return filepath.Join(dir, "s"), nil
}

// tokenOf returns the token of the WebSocket, which is made once.
func tokenOf(state string) (string, error) {
	path := filepath.Join(state, "server.token")
	if raw, err := os.ReadFile(path); err == nil && len(strings.TrimSpace(string(raw))) > 0 {
		return strings.TrimSpace(string(raw)), nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the token: %w", err)
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return "", err
	}
	token := server.NewToken()
	if err := atomicfile.Write(path, []byte(token+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write the token: %w", err)
	}
	return token, nil
}

// servers lists the servers, the newest last.
func (p *program) servers() ([]running.Process, error) {
	all, err := p.reachable()
	return slices.DeleteFunc(all, func(one running.Process) bool { return one.Interface }), err
}

// reachable lists the processes that can be connected to, the newest last.
func (p *program) reachable() ([]running.Process, error) {
	dirs, err := p.home()
	if err != nil {
		return nil, err
	}
	all, err := running.List(runningDir(dirs.State))
	if err != nil {
		return nil, failed(err)
	}
	var found []running.Process
	for _, one := range all {
		if one.Address != "" {
			found = append(found, one)
		}
	}
	return found, nil
}

func (p *program) serverStatus(asJSON bool) error {
	all, err := p.servers()
	if err != nil {
		return err
	}
	if all == nil {
		all = []running.Process{}
	}
	return p.print(asJSON, all, func(w io.Writer) error {
		if len(all) == 0 {
			p.note("no server is running: begin one with dsh serve --background")
			return nil
		}
		rows := [][]string{{"PROCESS", "SINCE", "ADDRESS", "WEBSOCKET"}}
		for _, one := range all {
			rows = append(rows, []string{strconv.Itoa(one.PID), one.Started.Local().Format("2006-01-02 15:04"), one.Address, one.URL})
		}
		return table(w, rows)
	})
}

// stopServers ends the servers. That they hold the lock of their entries proves that the numbers are theirs.
func (p *program) stopServers(ctx context.Context) error {
	all, err := p.servers()
	if err != nil {
		return err
	}
	if len(all) == 0 {
		p.note("no server is running")
		return nil
	}
	for _, one := range all {
		process, err := os.FindProcess(one.PID)
		if err == nil {
			err = process.Signal(syscall.SIGTERM)
		}
		if err != nil && !errors.Is(err, os.ErrProcessDone) {
			return failed(fmt.Errorf("end the server %d: %w", one.PID, err))
		}
	}
	for deadline := time.Now().Add(stopWait); ; {
		left, err := p.servers()
		if err != nil || len(left) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return failed(fmt.Errorf("the server %d does not end: its log says why", left[0].PID))
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// serveInBackground starts this program once more, on its own, and waits until it answers.
func (p *program) serveInBackground(ctx context.Context) error {
	if all, err := p.servers(); err != nil {
		return err
	} else if len(all) > 0 {
		p.note("a server runs already: process %d, %s", all[0].PID, all[0].Address)
		return nil
	}
	dirs, err := p.home()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dirs.State, 0o700); err != nil {
		return failed(err)
	}
	path := filepath.Join(dirs.State, "server.log")
	// What the last server said is kept, and no more.
	if err := os.Rename(path, path+".old"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return failed(err)
	}
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return failed(err)
	}
	defer func() { _ = log.Close() }() // the server has it
	var args []string
	for _, a := range os.Args[1:] {
		if a != "--background" && a != "--background=true" {
			args = append(args, a)
		}
	}
	pid, ended, err := detach(args, log)
	if err != nil {
		return failed(fmt.Errorf("start the server: %w", err))
	}
	for deadline := time.Now().Add(startWait); ; {
		all, err := p.servers()
		if err != nil {
			return err
		}
		for _, one := range all {
			if one.PID != pid {
				continue
			}
			s, err := server.Dial(ctx, one.Address, "")
			if err != nil {
				return failed(err)
			}
			_ = s.Close() // it was only to see
			p.note("the server runs as process %d, on %s%s; its log is %s", pid, one.Address, and(one.URL), path)
			return nil
		}
		if ended() {
			text, _ := os.ReadFile(path) // what there is
			lines := strings.Split(strings.TrimSpace(string(text)), "\n")
			return failed(fmt.Errorf("the server did not start: %s", strings.TrimPrefix(lines[len(lines)-1], "dsh: ")))
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if time.Now().After(deadline) {
			return failed(fmt.Errorf("the server does not answer within %v: its log, %s, says why", startWait, path))
		}
	}
}

// find returns a stream to a server: the one at address, or the one that runs when that is "".
func (p *program) find(ctx context.Context, address string) (jsonrpc.Stream, error) {
	if address == "" {
		all, err := p.reachable()
		if err != nil {
			return nil, err
		}
		if len(all) == 0 {
			return nil, failed(errors.New("no server is running: begin one with dsh serve --background"))
		}
		address = all[len(all)-1].Address
	}
	token := ""
	if strings.HasPrefix(address, "ws://") || strings.HasPrefix(address, "wss://") {
		var err error
		if token, err = p.tokenFor(address); err != nil {
			return nil, err
		}
	}
	s, err := server.Dial(ctx, address, token)
	return s, failed(err)
}

// tokenFor is the token that the server at the address of a WebSocket takes. The one in the state folder goes to nobody but the servers that it opens:
// the address may be that of a stranger.
func (p *program) tokenFor(address string) (string, error) {
	if token := p.get("DSH_TOKEN"); token != "" {
		return token, nil
	}
	all, err := p.reachable()
	if err != nil {
		return "", err
	}
	if !slices.ContainsFunc(all, func(one running.Process) bool { return one.URL == address }) {
		return "", failed(fmt.Errorf("connect to %s: it is no server that runs here, see dsh serve --status: set DSH_TOKEN to its token", address))
	}
	dirs, err := p.home()
	if err != nil {
		return "", err
	}
	token, err := tokenOf(dirs.State)
	return token, failed(err)
}
