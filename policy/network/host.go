package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// host is a machine in the one spelling that rules are compared in: a name in lower case
// without a dot at its end, or an address.
type host struct {
	name string     // "" for an address
	addr netip.Addr // invalid for a name
}

func (h host) String() string {
	if h.addr.IsValid() {
		return h.addr.String()
	}
	return h.name
}

// target is what a connection leads to.
type target struct {
	host
	port uint16
}

func (t target) String() string { return net.JoinHostPort(t.host.String(), strconv.Itoa(int(t.port))) }

const maxName = 253

// parseHost takes nothing that two programs could read as two hosts: neither what is no letter,
// digit, dash or dot of ASCII, nor a number in another form than the usual one.
func parseHost(text string) (host, error) {
	if inner, ok := strings.CutPrefix(text, "["); ok {
		if inner, ok = strings.CutSuffix(inner, "]"); !ok {
			return host{}, fmt.Errorf("the address %.80q has no bracket at its end", text)
		}
		return parseAddress6(inner)
	}
	if strings.Contains(text, ":") {
		return parseAddress6(text)
	}
	name := strings.TrimSuffix(text, ".")
	if name == "" {
		return host{}, errors.New("the host is empty")
	}
	if len(name) > maxName {
		return host{}, fmt.Errorf("the host has more than %d bytes", maxName)
	}
	lower := []byte(name)
	for i, c := range lower {
		switch {
		case c >= 'A' && c <= 'Z':
			lower[i] = c + 'a' - 'A'
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '.':
		default:
			return host{}, fmt.Errorf("the host %.80q has other letters than a-z, 0-9, - and . in it: those of a foreign name are written in their xn-- form", text)
		}
	}
	name = string(lower)
	last := ""
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return host{}, fmt.Errorf("the host %.80q has the part %.80q, which is no name", text, label)
		}
		last = label
	}
	if !isNumber(last) {
		return host{name: name}, nil
	}
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return host{}, fmt.Errorf("the host %.80q is neither a name nor an address: an address is four decimal numbers", text)
	}
	return host{addr: addr}, nil
}

func parseAddress6(text string) (host, error) {
	addr, err := netip.ParseAddr(text)
	switch {
	case err != nil || !addr.Is6():
		return host{}, fmt.Errorf("%.80q is no IPv6 address", text)
	case addr.Zone() != "":
		return host{}, fmt.Errorf("the address %.80q names an interface, which is nobody's business but this machine's", text)
	case addr.Is4In6():
		return host{}, fmt.Errorf("the address %.80q hides an IPv4 address: write that", text)
	}
	return host{addr: addr}, nil
}

// isNumber reports whether some program reads a name that ends with this label as an IPv4 address.
func isNumber(label string) bool {
	hex, isHex := strings.CutPrefix(label, "0x")
	digits := "0123456789"
	if isHex {
		label, digits = hex, "0123456789abcdef"
	}
	return strings.Trim(label, digits) == ""
}

// parseTarget reads host:port.
func parseTarget(text string) (target, error) {
	name, port, err := net.SplitHostPort(text)
	if err != nil {
		return target{}, fmt.Errorf("%.80q is not host:port", text)
	}
	if strings.Contains(name, ":") != strings.HasPrefix(text, "[") {
		return target{}, fmt.Errorf("%.80q has brackets around what is no IPv6 address", text)
	}
	h, err := parseHost(name)
	if err != nil {
		return target{}, err
	}
	p, err := parsePort(port)
	return target{h, p}, err
}

func parsePort(text string) (uint16, error) {
	p, err := strconv.ParseUint(text, 10, 16)
	if err != nil || p == 0 || text[0] == '0' || text[0] == '+' {
		return 0, fmt.Errorf("%.20q is no port: it is a number from 1 to 65535", text)
	}
	return uint16(p), nil
}

// parseURLHost reads the host of an http or https address.
func parseURLHost(scheme, text string) (target, error) {
	standard := standardPort(scheme)
	if standard == 0 {
		return target{}, fmt.Errorf("the scheme %.20q is neither http nor https", scheme)
	}
	if i := strings.LastIndexByte(text, ':'); i >= 0 && !strings.HasSuffix(text, "]") {
		return parseTarget(text)
	}
	h, err := parseHost(text)
	return target{h, standard}, err
}

func standardPort(scheme string) uint16 {
	switch scheme {
	case "http":
		return 80
	case "https":
		return 443
	}
	return 0
}

// header returns what the header Host says for t.
func (t target) header(scheme string) string {
	if t.port != standardPort(scheme) {
		return t.String()
	}
	if t.addr.Is6() {
		return "[" + t.addr.String() + "]"
	}
	return t.host.String()
}
