package docker

import (
	"context"
	"io"
	"time"
)

// BareExec runs a program through the engine's exec call, as cheaply as that can be.
func (p *Provider) BareExec(ctx context.Context, container string, args ...string) (int, error) {
	id, streams, err := p.engine.exec(ctx, container, execRequest{Args: args})
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, streams.reader)
	_ = streams.conn.Close()
	if err != nil {
		return 0, err
	}
	_, code, err := p.engine.execEnd(ctx, id)
	return code, err
}

// BareRun creates, starts and removes a container through the bare calls of the
// engine, and calls started in between.
func (p *Provider) BareRun(ctx context.Context, image string, started func()) error {
	id, err := p.engine.create(ctx, plan{Name: newName(), Image: image, Entrypoint: []string{"sleep", "600"}, Network: "none", Labels: p.labels("")})
	if err != nil {
		return err
	}
	if err := p.engine.start(ctx, id); err != nil {
		return err
	}
	if _, err := p.BareExec(ctx, id, "true"); err != nil {
		return err
	}
	started()
	return p.engine.remove(ctx, id)
}

// BelieveInNetwork makes a provider take an id for that of the shared network.
func (p *Provider) BelieveInNetwork(id string) { p.network = id }

// WithQuickRetries shortens the pauses before a pull or build is tried again.
func (c Config) WithQuickRetries() Config {
	c.pullPause, c.rateLimitPause = time.Millisecond, time.Millisecond
	return c
}

// Waiting is how many callers wait for images.
func (s *Share) Waiting() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.flights {
		n += f.waiters
	}
	return n
}

// WithoutServerCapabilities makes a provider whose containers give their server no
// capabilities of its own, as where an engine refuses to.
func (p *Provider) WithoutServerCapabilities() *Provider {
	p.share = noneOfServer
	return p
}

// ServerCapabilities are those that the server in containers has for itself.
func (p *Provider) ServerCapabilities() []string { return p.reserved() }

// Look asks the server of a sandbox how it is, so that its answer is known.
func (s *Sandbox) Look(ctx context.Context) error {
	return s.driver.(*server).current().Ping(ctx)
}

// Layer is the directory of a sandbox's layer, where that is a file system of its own.
func (s *Sandbox) Layer() string { return s.layer }

// WhyNoDisks says why containers get no file systems of their own.
func (p *Provider) WhyNoDisks() string { return p.whyNoDisks() }
