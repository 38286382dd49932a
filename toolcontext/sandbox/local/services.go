package local

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

var _ sandbox.ServiceKeeper = (*Sandbox)(nil)

// KillOthers ends everything but services; see sandbox.ServiceKeeper.
func (s *Sandbox) KillOthers(ctx context.Context, keep sandbox.Keep) (kept, ended []sandbox.Service, err error) {
	done, err := s.begin()
	if err != nil {
		return nil, nil, err
	}
	defer done()
	if s.commands.Load() == 0 && !s.everything() {
		return nil, nil, nil
	}
	kept, ended, err = keepProcesses(ctx, s.scope(), keep, s.provider.config.KillWait)
	if err != nil {
		return nil, nil, fmt.Errorf("list and end the processes of sandbox %s: %w", s.info.ID, err)
	}
	return kept, ended, nil
}

// Freeze stops every process of the sandbox, where this process is the first of its
// container, until the function returned is called. Those that were stopped before stay so.
func (s *Sandbox) Freeze() (goOn func()) {
	if !s.everything() {
		return func() {}
	}
	return freezeAll(s.scope())
}

// nativeAppend appends a word as this machine stores it.
func nativeAppend(b []byte, word uint32) []byte { return binary.NativeEndian.AppendUint32(b, word) }

// addressString writes an address as in "127.0.0.1:80".
func addressString(raw []byte, port int) string {
	address, ok := netip.AddrFromSlice(raw)
	if !ok {
		return fmt.Sprintf("?:%d", port)
	}
	return netip.AddrPortFrom(address.Unmap(), uint16(port)).String()
}
