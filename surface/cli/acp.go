package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/dsh-harness/dsh/internal/jsonrpc"
	"github.com/dsh-harness/dsh/surface/acp"
)

func (p *program) acpCommand() *cobra.Command {
	o := &host{}
	c := &cobra.Command{
		Use:   "acp",
		Short: "Speak the Agent Client Protocol on standard input and output, for editors",
		Long: `Speaks the Agent Client Protocol on standard input and output, one message a line: what an editor starts. Sessions are the same as
those of "dsh run": what was begun here goes on there, and the other way round. Everything that is no message goes to standard error.

When the editor goes away, the turns that it began are ended and dsh ends.`,
		Example: `  dsh acp
  dsh acp --model deepseek/deepseek-v4-pro --permission-mode ask`,
		Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return p.serveEditor(cmd.Context(), o) },
	}
	o.register(c.Flags())
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
		in, shut := interruptibleReader(p.stdin)
		err := acp.Serve(ctx, jsonrpc.Lines(in, out, func() error { return errors.Join(shut(), out.Close()) }, 0), options)
		if ctx.Err() != nil {
			return nil
		}
		return err
	})
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

// interruptibleReader reads from a file whose reads cannot be interrupted. After shut, Read fails; a read of the file that is under way then goes on
// to its end, or to that of the process.
func interruptibleReader(f io.Reader) (r io.Reader, shut func() error) {
	pipe, w := io.Pipe()
	go func() { // owned by the process: it ends with the input
		_, err := io.Copy(w, f)
		w.CloseWithError(err) // nil is the end of the input
	}()
	return pipe, pipe.Close
}
