package network

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// connect answers CONNECT: a tunnel to a host that is allowed. ctx is that of the proxy, as
// the request's ends when the command has sent all that it wants to.
func (p *proxy) connect(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	to, err := parseTarget(r.RequestURI)
	if err != nil {
		say(w, http.StatusBadRequest, err.Error())
		return
	}
	rules := p.rules()
	server, err := p.dialer.dial(ctx, to, rules)
	if err != nil {
		p.fail(w, err)
		return
	}
	defer func() { _ = server.Close() }()
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		p.fail(w, err)
		return
	}
	defer func() { _ = client.Close() }()
	stop := context.AfterFunc(ctx, func() { _, _ = client.Close(), server.Close() })
	defer stop()
	// The server has set deadlines for the head of the request.
	if client.SetDeadline(time.Time{}) != nil {
		return
	}
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	upload := int64(-1)
	if p.maxUpload > 0 && !rules.isGranted(to) {
		upload = p.maxUpload
	}
	p.tunnel(to, client, buffered.Reader, server, upload)
}

// tunnel copies in both directions until both have ended, nothing was sent for a
// while, or something is refused.
func (p *proxy) tunnel(to target, client net.Conn, sent *bufio.Reader, server net.Conn, upload int64) {
	closeBoth := func() { _, _ = client.Close(), server.Close() }
	idle := time.AfterFunc(p.limits.idle, closeBoth)
	defer idle.Stop()
	alive := func() { idle.Reset(p.limits.idle) }
	var both sync.WaitGroup
	both.Go(func() {
		if _, err := io.Copy(telling{client, alive}, server); err != nil || closeWrite(client) != nil {
			closeBoth()
		}
	})
	err := p.send(to, client, sent, telling{server, alive}, upload)
	if err == nil {
		err = closeWrite(server)
	}
	if err != nil {
		closeBoth()
	}
	both.Wait()
}

// telling tells that something was written.
type telling struct {
	io.Writer
	alive func()
}

// Write implements [io.Writer].
func (t telling) Write(b []byte) (int, error) {
	t.alive()
	return t.Writer.Write(b)
}

var errCut = errors.New("the tunnel was refused")

// send copies what the command sends, once the name that it asks TLS for was checked.
func (p *proxy) send(to target, client net.Conn, sent *bufio.Reader, server io.Writer, upload int64) error {
	begin, err := sent.Peek(1)
	if err != nil {
		return nil // it sends nothing
	}
	var from io.Reader = sent
	if begin[0] == recordHandshake {
		if err := client.SetReadDeadline(time.Now().Add(p.limits.hello)); err != nil {
			return err
		}
		read, name, err := readHello(sent)
		if err != nil {
			_ = p.refuse(refused(to, "the first message of TLS cannot be checked: "+err.Error(), "", true))
			return errCut
		}
		if err := client.SetReadDeadline(time.Time{}); err != nil {
			return err
		}
		if asked, err := parseHost(name); name != "" && (err != nil || asked != to.host) {
			_ = p.refuse(refused(to, "TLS asks for "+printable(name)+" in a tunnel to "+to.host.String(), "", true))
			return errCut
		}
		from = io.MultiReader(read, sent)
	}
	if upload < 0 {
		_, err := io.Copy(server, from)
		return err
	}
	n, err := io.Copy(server, io.LimitReader(from, upload))
	if err != nil || n < upload {
		return err
	}
	if _, err := sent.Peek(1); err == nil {
		_ = p.refuse(tooMuch(to, upload))
		return errCut
	}
	return nil
}

// idleConn fails when nothing comes or goes for a while.
type idleConn struct {
	net.Conn
	idle time.Duration
}

// Read implements [net.Conn].
func (c *idleConn) Read(b []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(c.idle)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

// Write implements [net.Conn].
func (c *idleConn) Write(b []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(c.idle)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}
