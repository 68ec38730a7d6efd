package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dsh-harness/dsh/policy"
)

// names is a resolver that knows a few names, and counts the questions.
type names struct {
	known map[string][]string
	asked atomic.Int32
}

func (n *names) lookup(_ context.Context, name string) ([]netip.Addr, error) {
	n.asked.Add(1)
	var addrs []netip.Addr
	for _, text := range n.known[name] {
		addrs = append(addrs, netip.MustParseAddr(text))
	}
	if addrs == nil {
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	return addrs, nil
}

// bait is a listener on the loopback that must not be reached.
func bait(t *testing.T) (at netip.AddrPort, reached func() bool) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var hits atomic.Int32
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			hits.Add(1)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-over })
	return netip.MustParseAddrPort(l.Addr().String()), func() bool { return hits.Load() > 0 }
}

// TestTrust_N02_NoWayToPrivateAddresses has names lead to this machine in every way; the listener there hears of none.
func TestTrust_N02_NoWayToPrivateAddresses(t *testing.T) {
	at, reached := bait(t)
	n := &names{known: map[string][]string{
		"loopback.test": {"127.0.0.1"}, "mapped.test": {"::ffff:127.0.0.1"}, "zero.test": {"0.0.0.0"}, "six.test": {"::1"}, "any6.test": {"::"},
		"mixed.test": {"93.184.216.34", "127.0.0.1"}, "metadata.test": {"169.254.169.254"}, "nat64.test": {"64:ff9b::7f00:1"}, "6to4.test": {"2002:7f00:1::"},
	}}
	d := &dialer{lookup: n.lookup}
	all := rules(t, []string{"*"}, nil)
	for name := range n.known {
		conn, err := d.dial(t.Context(), target{host{name: name}, at.Port()}, all)
		refusal, ok := errors.AsType[*policy.RefusedError](err)
		if conn != nil || !ok || !strings.Contains(refusal.Refusal.Rule, "private or reserved") || !refusal.Refusal.Final {
			t.Errorf("%s: %v, %v", name, conn, err)
		}
	}
	for _, name := range []string{"localhost", "a.localhost"} {
		if _, err := d.dial(t.Context(), target{host{name: name}, at.Port()}, all); err == nil {
			t.Error(name)
		}
	}
	if reached() {
		t.Error("the listener was reached")
	}
}

// A name is looked up once, and what was checked is dialed: a second answer would be another.
func TestTrust_N02_RebindingIsWithoutEffect(t *testing.T) {
	at, reached := bait(t)
	asked := 0
	d := &dialer{lookup: func(context.Context, string) ([]netip.Addr, error) {
		if asked++; asked == 1 {
			return []netip.Addr{netip.MustParseAddr("127.0.0.2")}, nil
		}
		return []netip.Addr{at.Addr()}, nil
	}}
	first := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), at.Port())
	// Nothing listens at the first address, so that a fallback would show.
	conn, err := d.dial(t.Context(), target{host{name: "rebind.test"}, at.Port()}, rules(t, []string{"rebind.test", first.String()}, nil))
	if err == nil {
		_ = conn.Close()
		t.Error("it is connected")
	}
	if asked != 1 || reached() {
		t.Errorf("asked %d times; the second answer was reached: %v", asked, reached())
	}
	if _, err := d.dial(t.Context(), target{host{name: "rebind.test"}, at.Port()}, rules(t, []string{"rebind.test", first.String()}, nil)); err == nil || reached() {
		t.Errorf("the second answer counts for the second connection, and is refused: %v", err)
	}
}

// TestTrust_Row30: no name is looked up before a rule allows it, so a question carries nothing out.
func TestTrust_Row30_NoQuestionBeforeTheCheck(t *testing.T) {
	n := &names{}
	d := &dialer{lookup: n.lookup}
	for _, name := range []string{"c2VjcmV0.canary.test", "a.com.canary.test"} {
		if _, err := d.dial(t.Context(), target{host{name: name}, 443}, rules(t, []string{"a.com"}, nil)); err == nil {
			t.Error(name)
		}
	}
	if got := n.asked.Load(); got != 0 {
		t.Errorf("%d names were looked up", got)
	}
}

func TestDialing(t *testing.T) {
	at, reached := bait(t)
	n := &names{known: map[string][]string{"a.test": {"127.0.0.2", "127.0.0.1"}, "denied.test": {"8.8.8.8"}, "many.test": nil}}
	for i := range 200 {
		n.known["many.test"] = append(n.known["many.test"], fmt.Sprintf("10.0.0.%d", i))
	}
	d := &dialer{lookup: n.lookup}
	// The next address is tried when one does not answer.
	conn, err := d.dial(t.Context(), target{host{name: "a.test"}, at.Port()}, rules(t, []string{"a.test", at.String(), fmt.Sprintf("127.0.0.2:%d", at.Port())}, nil))
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	for end := time.Now().Add(5 * time.Second); !reached() && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if !reached() {
		t.Error("nobody was reached")
	}
	if _, err := d.dial(t.Context(), target{host{name: "denied.test"}, 53}, rules(t, []string{"*"}, []string{"8.8.8.8"})); err == nil || !strings.Contains(err.Error(), "a rule denies 8.8.8.8") {
		t.Errorf("an address that is denied is reached by name: %v", err)
	}
	if _, err := d.dial(t.Context(), target{host{name: "gone.test"}, 53}, rules(t, []string{"*"}, nil)); err == nil || !strings.Contains(err.Error(), "look up gone.test") {
		t.Error(err)
	}
	if addrs, err := d.addresses(t.Context(), target{host{name: "many.test"}, 1}); err != nil || len(addrs) != maxAddresses {
		t.Error(len(addrs), err)
	}
	own, err := ownAddresses()
	if err != nil || len(own) == 0 {
		t.Fatal(own, err)
	}
	if _, err := dialExactly(t.Context(), netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), 0)); err == nil {
		t.Error("port 0")
	}
}
