package server

import (
	"errors"
	"net"
	"sync"
)

// limit bounds the connections of l at a time: whoever knocks without a token costs a descriptor too. One more is closed at once.
func limit(l net.Listener, n int, r *refusals) net.Listener {
	return &limited{Listener: l, slots: make(chan struct{}, n), refuse: r}
}

type limited struct {
	net.Listener
	slots  chan struct{}
	refuse *refusals
}

func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.slots <- struct{}{}:
			return &counted{Conn: c, leave: sync.OnceFunc(func() { <-l.slots })}, nil
		default:
			l.refuse.note("a connection from "+c.RemoteAddr().String(), errors.New("there are too many"))
			_ = c.Close() // it was told nothing and said nothing
		}
	}
}

// counted is a connection that has a slot until it is closed.
type counted struct {
	net.Conn
	leave func()
}

func (c *counted) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
