// Package egress is the way out of sandboxes that may reach some hosts only: a
// forward proxy (HTTP and CONNECT) that runs in the harness and gets its clients'
// connections as streams, one by one, from wherever they were accepted.
//
// It looks at the host a client names, resolves the name itself, once, and connects to
// an address it has checked: never to the harness's machine, its network, or what a
// cloud serves on link-local addresses. Connections, headers and waits are bounded.
// It never listens, never looks into what it passes on, and keeps none of it.
package egress
