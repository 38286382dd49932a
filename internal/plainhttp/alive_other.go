//go:build !unix

package plainhttp

import "net"

// poller is of no use here.
type poller struct{}

func (*poller) init(net.Conn) {}
func (*poller) alive() bool   { return true }
func (*poller) awaitData()    {}

func (*poller) exchange(x *exchange) (in *[readBuffer]byte, n int, err error) { return x.blocking() }
