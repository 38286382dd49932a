package docker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// removeContainer kills and removes a container, again while the engine fails, at
// most for CloseLimit. It does so although ctx has ended.
func (p *Provider) removeContainer(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.config.CloseLimit)
	defer cancel()
	pause := 50 * time.Millisecond
	for {
		err := p.engine.remove(ctx, id)
		if err == nil || errors.Is(err, errNoContainer) {
			return nil
		}
		if strings.Contains(err.Error(), "is already in progress") {
			// Another call removes it; gone is gone.
			if _, err := p.engine.inspect(ctx, id); errors.Is(err, errNoContainer) {
				return nil
			}
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
			pause = min(2*pause, 2*time.Second)
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("container %s is still there after %v: %w; remove it by hand (docker rm -f %s) or later with hermes-env cleanup", id, p.config.CloseLimit, err, id)
		}
	}
}
