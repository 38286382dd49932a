package docker

import (
	"fmt"
	"slices"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox/inside"
)

// serverCapabilities are what the server in a container needs for itself: to reach every
// file and process, to serve as another user, to keep its place among the commands, and
// (SETPCAP) to keep the others from them.
var serverCapabilities = []string{"CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETPCAP", "SETUID", "SYS_NICE", "SYS_PTRACE", "SYS_RESOURCE", inside.Untraceable}

// serverShare says which of them the engine gives: a rootless engine, or one in a
// container, may not have all itself.
type serverShare int

const (
	allOfServer serverShare = iota
	noResource              // all but SYS_RESOURCE, which engines lack the most often
	noneOfServer
)

// reserved are the capabilities that a container has beyond those of its commands. The
// server takes them from all that it starts.
func (p *Provider) reserved() []string {
	share := p.serverShare()
	if share == noneOfServer || p.config.PlainExec {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(serverCapabilities), func(name string) bool {
		return p.config.Capabilities.Has(name) || share == noResource && name == "SYS_RESOURCE"
	})
}

func (p *Provider) serverShare() serverShare {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.share
}

// reserveLess makes containers with fewer capabilities of the server's own.
func (p *Provider) reserveLess(to serverShare, why error) {
	p.mu.Lock()
	p.share = max(p.share, to)
	p.mu.Unlock()
	if to == noneOfServer {
		p.warnOnce(fmt.Sprintf("the engine gives containers no capabilities beyond those of their commands (%v): commands can take processor time and memory from the server beside them", why))
	}
}
