package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// The one network that the sandboxes of all harnesses at an engine share.
const (
	networkName  = "hermes-env"
	labelNetwork = "hermes-env.network"
)

// defaultBridge is the engine's own network, for engines that make no other.
const defaultBridge = "bridge"

// networkWait bounds the wait for a network that another harness is making.
const networkWait = 10 * time.Second

// errNoNetwork says that a network is gone.
var errNoNetwork = errors.New("no such network")

// networkID returns the shared network's id, or "" where there is none.
func (e *engine) networkID(ctx context.Context) (string, error) {
	found, err := e.api.NetworkList(ctx, network.ListOptions{Filters: filters.NewArgs(filters.Arg("label", labelNetwork))})
	if err != nil {
		return "", fmt.Errorf("look for the network %s: %w", networkName, err)
	}
	for _, n := range found {
		if n.Name == networkName { // the engine's filter by name takes parts of names too
			return n.ID, nil
		}
	}
	return "", nil
}

// device is the shared network's name among the machine's devices. It is what makes the
// network one: the engine refuses a second bridge of that name, however many harnesses ask
// for it at the same instant. Another engine of the machine has another.
func (e *engine) device() string {
	sum := sha256.Sum256([]byte(e.info.Root))
	return "hermes-" + hex.EncodeToString(sum[:4]) // 15 characters, as long as Linux takes
}

// makeNetwork makes the shared network and returns its id.
func (e *engine) makeNetwork(ctx context.Context) (string, error) {
	made, err := e.api.NetworkCreate(ctx, networkName, network.CreateOptions{
		Driver: "bridge",
		Labels: map[string]string{labelNetwork: "1"},
		Options: map[string]string{
			"com.docker.network.bridge.name":       e.device(),
			"com.docker.network.bridge.enable_icc": "false", // rollouts don't see each other
		},
	})
	return made.ID, err
}

// removeNetwork removes the shared network. One that is in use, which the engine
// refuses, or gone is left alone.
func (e *engine) removeNetwork(ctx context.Context, id string) (removed bool, err error) {
	err = e.api.NetworkRemove(ctx, id)
	switch {
	case err == nil:
		return true, nil
	case errdefs.IsNotFound(err), errdefs.IsPermissionDenied(err), strings.Contains(err.Error(), "active endpoints"):
		return false, nil
	}
	return false, fmt.Errorf("remove the network %s: %w", networkName, err)
}

// refusesNetwork reports whether a container could not be created or started because
// its network is gone.
func refusesNetwork(err error) bool {
	return errors.Is(err, errNoNetwork) || strings.Contains(err.Error(), "network ") && strings.Contains(err.Error(), "not found")
}

// networkMode is what the engine calls the network of a container.
func (p *Provider) networkMode(ctx context.Context, n sandbox.Network) (string, error) {
	if n != sandbox.NetworkBridge {
		return string(sandbox.NetworkNone), nil // an allow list goes through the server's stream
	}
	select {
	case p.networking <- struct{}{}:
		defer func() { <-p.networking }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	if p.network != "" {
		return p.network, nil
	}
	id, err := p.sharedNetwork(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return "", cause
	}
	if err != nil {
		p.warnOnce(fmt.Sprintf("containers share the engine's own bridge, where they reach each other, because the network %s can't be made: %v", networkName, err))
		id = defaultBridge
	}
	p.network = id
	return id, nil
}

// sharedNetwork finds the shared network or makes it.
func (p *Provider) sharedNetwork(ctx context.Context) (string, error) {
	deadline := time.Now().Add(networkWait)
	for {
		id, err := p.engine.networkID(ctx)
		if err != nil || id != "" {
			return id, err
		}
		id, err = p.engine.makeNetwork(ctx)
		if err == nil {
			return id, nil
		}
		// Another harness was quicker, and the engine shows its network in a moment.
		if !madeMeanwhile(err) || time.Now().After(deadline) {
			return "", err
		}
		timer := time.NewTimer(50 * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return "", context.Cause(ctx)
		}
	}
}

// madeMeanwhile reports whether a network could not be made because it is there.
func madeMeanwhile(err error) bool {
	return errdefs.IsConflict(err) || strings.Contains(err.Error(), "same bridge name") || strings.Contains(err.Error(), "already exists")
}

// forgetNetwork makes the next container look for the network again.
func (p *Provider) forgetNetwork(ctx context.Context) {
	select {
	case p.networking <- struct{}{}:
		p.network = ""
		<-p.networking
	case <-ctx.Done():
	}
}

// RemoveNetwork removes the network that sandboxes share, unless a container of any
// harness is there. It is made again when a sandbox needs it.
func (p *Provider) RemoveNetwork(ctx context.Context) (removed bool, err error) {
	held, err := p.engine.list(ctx, labelPID) // also those that have not joined it yet
	if err != nil {
		return false, fmt.Errorf("look for containers that use the network %s: %w", networkName, err)
	}
	if len(held) > 0 {
		return false, nil
	}
	id, err := p.engine.networkID(ctx)
	if err != nil || id == "" {
		return false, err
	}
	return p.engine.removeNetwork(ctx, id)
}
