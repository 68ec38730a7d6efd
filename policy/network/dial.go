package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	lookupTimeout = 5 * time.Second
	dialTimeout   = 10 * time.Second // for all addresses of a name
	maxAddresses  = 16
)

// dialer connects with what rules allow. A name is looked up once, after its name was
// checked; all of its addresses have to be allowed, and one of exactly these is dialed.
type dialer struct {
	lookup func(ctx context.Context, name string) ([]netip.Addr, error)
}

func newDialer() *dialer {
	r := &net.Resolver{PreferGo: true}
	return &dialer{lookup: func(ctx context.Context, name string) ([]netip.Addr, error) {
		return r.LookupNetIP(ctx, "ip", name+".") // no search list: the name is the one that was checked
	}}
}

func (d *dialer) dial(ctx context.Context, t target, rules *ruleset) (net.Conn, error) {
	if err := rules.check(t); err != nil {
		return nil, err
	}
	addrs, err := d.addresses(ctx, t)
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", t.name, err)
	}
	own, err := ownAddresses()
	if err != nil {
		return nil, err
	}
	for _, addr := range addrs {
		err := rules.resolved(t, addr)
		if err == nil && slices.Contains(own, addr) {
			err = rules.private(t, addr)
		}
		if err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var failed []error
	for i, addr := range addrs {
		// The others get their part of the time that is left.
		limit, _ := ctx.Deadline()
		one, done := context.WithTimeout(ctx, time.Until(limit)/time.Duration(len(addrs)-i))
		conn, err := dialExactly(one, netip.AddrPortFrom(addr, t.port))
		done()
		if err == nil {
			return conn, nil
		}
		failed = append(failed, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("connect with %s: %w", t, errors.Join(failed...))
}

func (d *dialer) addresses(ctx context.Context, t target) ([]netip.Addr, error) {
	if t.addr.IsValid() {
		return []netip.Addr{t.addr}, nil
	}
	if t.name == "localhost" || strings.HasSuffix(t.name, ".localhost") {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	addrs, err := d.lookup(ctx, t.name)
	if err != nil {
		return nil, err
	}
	if len(addrs) == 0 {
		return nil, errors.New("the name has no address")
	}
	for i := range addrs {
		addrs[i] = addrs[i].Unmap() // the resolver spells IPv4 addresses in both ways
	}
	return addrs[:min(len(addrs), maxAddresses)], nil
}

// ownAddresses returns those of this machine, which are nobody else's even where they are public.
func ownAddresses() ([]netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("find this machine's own addresses, to keep them from commands: %w", err)
	}
	var own []netip.Addr
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok {
			if addr, ok := netip.AddrFromSlice(n.IP); ok {
				own = append(own, addr.Unmap())
			}
		}
	}
	return own, nil
}

// dialExactly connects with an address, and makes sure of it where the kernel is told.
func dialExactly(ctx context.Context, at netip.AddrPort) (net.Conn, error) {
	d := net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
		if got, err := netip.ParseAddrPort(address); err != nil || got != at {
			return fmt.Errorf("%s was checked, and %s would be dialed", at, address)
		}
		return nil
	}}
	return d.DialContext(ctx, "tcp", at.String())
}
