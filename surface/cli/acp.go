package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/dsh-harness/dsh/internal/jsonrpc"
	"github.com/dsh-harness/dsh/surface/acp"
)

func (p *program) acpCommand() *cobra.Command {
	o := &host{}
	attach := ""
	c := &cobra.Command{
		Use:   "acp",
		Short: "Speak the Agent Client Protocol on standard input and output, for editors",
		Long: `Speaks the Agent Client Protocol on standard input and output, one message a line: what an editor starts. Sessions are the same as
those of "dsh run": what was begun here goes on there, and the other way round. Everything that is no message goes to standard error.

When the editor goes away, the turns that it began are ended and dsh ends. With --attach the sessions are those of the server that runs, see
dsh serve, or of the one at an address: then they go on.`,
		Example: `  dsh acp
  dsh acp --model deepseek/deepseek-v4-pro --permission-mode ask
  dsh acp --attach
  dsh acp --attach=ws://127.0.0.1:4321/v1/connect`,
		Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("attach") {
				return p.bridge(cmd.Context(), strings.TrimSpace(attach))
			}
			return p.serveEditor(cmd.Context(), o)
		},
	}
	o.register(c.Flags())
	c.Flags().StringVar(&attach, "attach", "", "connect to the server at this `address` (DSH_TOKEN), without one to the one that runs here")
	c.Flags().Lookup("attach").NoOptDefVal = " "
	return c
}

// serveEditor serves the one client at the other end of the standard streams.
func (p *program) serveEditor(ctx context.Context, o *host) error {
	out, err := p.takeOutput()
	if err != nil {
		return failed(err)
	}
	return p.host(ctx, o, 0, nil, func(ctx context.Context, h hosted) error {
		options := p.connection(o, h)
		options.EndTurns = true
		in, err := newInput(p.stdin)
		if err != nil {
			return err
		}
		err = acp.Serve(ctx, jsonrpc.Lines(in, out, func() error { return errors.Join(in.shut(), out.Close()) }, 0), options)
		if ctx.Err() != nil {
			return nil
		}
		return err
	})
}

// bridge passes messages on between the standard streams and a server, until one of them ends.
func (p *program) bridge(ctx context.Context, address string) error {
	out, err := p.takeOutput()
	if err != nil {
		return failed(err)
	}
	far, err := p.find(ctx, address)
	if err != nil {
		return err
	}
	in, err := newInput(p.stdin)
	if err != nil {
		return failed(err)
	}
	near := jsonrpc.Lines(in, out, func() error { return errors.Join(in.shut(), out.Close()) }, 0)
	// Whichever direction ends first, or ctx, ends the other.
	end := sync.OnceFunc(func() {
		_ = far.Close()
		_ = near.Close()
	})
	defer context.AfterFunc(ctx, end)()
	var there, back error
	var passing sync.WaitGroup
	passing.Go(func() {
		there = pass(near, far)
		end()
	})
	passing.Go(func() {
		back = pass(far, near)
		end()
	})
	passing.Wait()
	if errors.Is(there, io.EOF) || errors.Is(back, io.EOF) || ctx.Err() != nil {
		return nil
	}
	return failed(errors.Join(there, back))
}

// pass writes to one stream what comes from another.
func pass(from, to jsonrpc.Stream) error {
	for {
		m, err := from.Read()
		if err == nil {
			err = to.Write(bytes.Clone(m))
		}
		if err != nil {
			return err
		}
	}
}

// takeOutput keeps standard output for the messages alone: whoever else writes to it, a library or a program that is started, writes to standard
// error from now on.
func (p *program) takeOutput() (io.WriteCloser, error) {
	file, ok := p.stdout.Writer.(*os.File)
	if !ok {
		return nopCloser{p.stdout}, nil
	}
	own, err := divert(file, os.Stderr)
	if err != nil {
		return nil, fmt.Errorf("keep standard output for messages: %w", err)
	}
	os.Stdout = os.Stderr
	p.stdout = p.stderr
	return own, nil
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
