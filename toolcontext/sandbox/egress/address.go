package egress

import (
	"net"
	"net/netip"
)

// reserved are the ranges that no public host has, beyond those that netip knows:
// "this network", shared address space, protocol assignments, documentation,
// benchmarks, the future and broadcast; and in IPv6 the ways to hide an IPv4 address.
var reserved = func() []netip.Prefix {
	var list []netip.Prefix
	for _, text := range [...]string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
		"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
	} {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}()

// globalUnicast is all of IPv6 that hosts of the public Internet have.
var globalUnicast = netip.MustParsePrefix("2000::/3")

// isPublic reports whether an address can be one of the public Internet.
func isPublic(a netip.Addr) bool {
	a = a.Unmap()
	if a.IsUnspecified() || a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsInterfaceLocalMulticast() {
		return false
	}
	if a.Is6() && (!globalUnicast.Contains(a) || a.Zone() != "") {
		return false
	}
	for _, r := range reserved {
		if r.Contains(a) {
			return false
		}
	}
	return true
}

// isOwn reports whether an address is one of this machine, whose services are no
// business of a sandbox's even where they are public.
func isOwn(a netip.Addr) bool {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return true // better none than the wrong one
	}
	for _, entry := range list {
		if ip, ok := entry.(*net.IPNet); ok {
			if own, ok := netip.AddrFromSlice(ip.IP); ok && own.Unmap() == a.Unmap() {
				return true
			}
		}
	}
	return false
}
