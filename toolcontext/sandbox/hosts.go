package sandbox

import (
	"fmt"
	"net/netip"
	"strings"
)

// Hosts is a set of host names and addresses. The zero value holds none.
type Hosts struct {
	names     map[string]struct{}
	wildcards []string // ".example.org" for *.example.org
	addresses map[netip.Addr]struct{}
}

// ParseHosts reads names (example.org), wildcards (*.example.org, which is every name
// below but not example.org itself) and IPv4 addresses, without scheme, port or path.
func ParseHosts(list []string) (Hosts, error) {
	h := Hosts{names: map[string]struct{}{}, addresses: map[netip.Addr]struct{}{}}
	for _, entry := range list {
		if addr, err := netip.ParseAddr(entry); err == nil {
			if !addr.Is4() {
				return Hosts{}, fmt.Errorf("the allowed host %q is no IPv4 address; name the host or its IPv4 address", entry)
			}
			h.addresses[addr] = struct{}{}
			continue
		}
		name := canonicalHost(entry)
		below, wildcard := strings.CutPrefix(name, "*.")
		if !isHostName(below) {
			return Hosts{}, fmt.Errorf("the allowed host %q is neither a name (pypi.org), a wildcard (*.pypi.org) nor an IPv4 address; leave out scheme, port and path", entry)
		}
		if wildcard {
			h.wildcards = append(h.wildcards, "."+below)
		} else {
			h.names[name] = struct{}{}
		}
	}
	return h, nil
}

// Contains reports whether a host, a name or an address, is in the set. Case and a
// dot at the end do not matter.
func (h Hosts) Contains(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		_, ok := h.addresses[addr.Unmap()]
		return ok
	}
	host = canonicalHost(host)
	if !isHostName(host) {
		return false
	}
	if _, ok := h.names[host]; ok {
		return true
	}
	for _, suffix := range h.wildcards {
		if strings.HasSuffix(host, suffix) && len(host) > len(suffix) {
			return true
		}
	}
	return false
}

func canonicalHost(name string) string { return strings.TrimSuffix(strings.ToLower(name), ".") }

// isHostName reports whether a lower-case name could be one of a host: labels of
// letters, digits, hyphens and underscores, and not just a number, which resolvers
// take for an address.
func isHostName(name string) bool {
	if name == "" || len(name) > 253 {
		return false
	}
	last := ""
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 {
			return false
		}
		for _, c := range []byte(label) {
			if ('a' > c || c > 'z') && ('0' > c || c > '9') && c != '-' && c != '_' {
				return false
			}
		}
		last = label
	}
	// 127.1, 0x7f.1 and 2130706433 are addresses in disguise.
	return last[0] < '0' || last[0] > '9'
}
