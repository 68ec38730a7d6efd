package network

import (
	"net/netip"
	"sync"
)

// special are the ranges of public look that are for something else than machines of
// others: shared, documentation, tests, relays, the metadata of a cloud.
var special = sync.OnceValue(func() []netip.Prefix {
	var all []netip.Prefix
	for _, text := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.175.48.0/24",
		"198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4", "168.63.129.16/32",
		"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
	} {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
})

// isPublic reports whether an address is one of the internet, not of this machine or its neighbours.
func isPublic(addr netip.Addr) bool {
	if addr.Zone() != "" || addr.Is4In6() {
		return false
	}
	if addr.Is6() {
		raw := addr.As16()
		if [12]byte(raw[:12]) == [12]byte{0, 0x64, 0xff, 0x9b} { // NAT64: an IPv4 address behind a gateway
			return isPublic(netip.AddrFrom4([4]byte(raw[12:])))
		}
		if raw[0]&0xe0 != 0x20 { // only 2000::/3 is given out
			return false
		}
	}
	if !addr.IsGlobalUnicast() || addr.IsPrivate() {
		return false
	}
	for _, p := range special() {
		if p.Contains(addr) {
			return false
		}
	}
	return true
}
