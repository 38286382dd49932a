package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/hermes-env/hermes-env/internal/owner"
)

// Labels that every container carries.
const (
	labelRun     = "hermes-env.run"
	labelRollout = "hermes-env.rollout"
	labelPID     = "hermes-env.owner-pid"
	labelStart   = "hermes-env.owner-start"
	labelBoot    = "hermes-env.boot-id"
	labelPlace   = "hermes-env.place" // the machine and its process space, as a short hash
)

// labels are what a container of a rollout carries.
func (p *Provider) labels(rollout string) map[string]string {
	l := map[string]string{
		labelPID:   strconv.Itoa(p.owner.PID),
		labelStart: strconv.FormatUint(p.owner.Start, 10),
		labelBoot:  p.owner.Boot,
		labelPlace: p.owner.Place,
	}
	if p.config.Run != "" {
		l[labelRun] = p.config.Run
	}
	if rollout != "" {
		l[labelRollout] = rollout
	}
	return l
}

// abandoned reports whether the owner that a container's labels name is surely dead.
func (p *Provider) abandoned(labels map[string]string) bool {
	o, err := owner.Parse(labels[labelPID], labels[labelStart], labels[labelBoot], labels[labelPlace])
	if err != nil || o.Alive() {
		return false
	}
	if o.Boot == p.owner.Boot {
		return true
	}
	// Noted before a reboot, or on another machine of the same name and id. Only an
	// engine on this very machine tells the two apart: it went down with it.
	host, err := os.Hostname()
	return p.local && err == nil && host == p.engine.info.Host
}

// Reap removes the containers, running or not, whose owner on this machine is dead, and
// the networks and volumes of its compose projects.
func (p *Provider) Reap(ctx context.Context) (int, error) {
	found, err := p.engine.list(ctx, labelPlace+"="+p.owner.Place)
	if err != nil {
		return 0, fmt.Errorf("look for abandoned containers: %w", err)
	}
	var (
		reaped int
		errs   []error
	)
	for _, c := range found {
		if !p.abandoned(c.Labels) {
			continue
		}
		if err := context.Cause(ctx); err != nil {
			return reaped, errors.Join(append(errs, err)...)
		}
		if c.State == "removing" {
			continue // somebody else is at it
		}
		if err := p.removeContainer(ctx, c.ID); err != nil {
			errs = append(errs, fmt.Errorf("remove the abandoned container: %w", err))
			continue
		}
		reaped++
	}
	if len(errs) == 0 {
		errs = append(errs, p.reapBelongings(ctx), p.reapSnapshots(ctx))
	}
	return reaped, errors.Join(errs...)
}
