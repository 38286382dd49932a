package docker

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/egress"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/inside"
)

// entrypoint is what containers run: the server as their first process, or a shell
// that waits. user is whom the server becomes; "" where the container is theirs.
func (p *Provider) entrypoint(reserve []string, user string, keepHome bool) []string {
	if p.config.PlainExec {
		return []string{"/bin/sh", "-c", mainScript}
	}
	return append([]string{binaryPath}, inside.Arguments(reserve, user, keepHome)...)
}

// firstProcess is the entrypoint of containers whose server is their first process.
func (p *Provider) firstProcess(reserve []string, user string, keepHome bool) []string {
	args := p.entrypoint(reserve, user, keepHome)
	if !p.config.PlainExec {
		args = append(args, inside.InMemory)
	}
	return args
}

// serverExec starts a server beside the first process of a container, as root, so that it
// can keep its capabilities from commands before it becomes the user.
func (p *Provider) serverExec(reserve []string, user string, keepHome bool, env []string) execRequest {
	r := execRequest{User: "0:0", Env: env}
	if isRoot(user) {
		r.User, user = orElse(user, "0:0"), ""
	}
	r.Args = p.entrypoint(reserve, user, keepHome)
	return r
}

// isRoot tells whether a user as engines write them is root.
func isRoot(user string) bool {
	name, _, _ := strings.Cut(user, ":")
	return name == "" || name == "0" || name == "root"
}

// greetLimit bounds the wait for the server in a container that has started.
const greetLimit = 30 * time.Second

// serve makes the sandbox's client of the server at the other end of the stream,
// which is closed when that fails.
// watched is the limit on what it writes where the engine has none.
func (s *box) serve(ctx context.Context, at *stream, spec sandbox.Spec, image imageInfo, watched int64) error {
	if s.provider.config.PlainExec {
		d, err := newPlain(ctx, s.provider, s.container, s.info, at, spec, image)
		if err != nil {
			_ = at.Close() // the cause is known
			return err
		}
		s.driver, s.info = d, d.info
		return nil
	}
	wait := greetLimit
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline))
	}
	srv := &server{box: s, at: at}
	o := inside.Options{
		Info:          s.info,
		HandshakeWait: wait,
		Idle:          s.provider.config.Idle,
		Expired: func() {
			srv.AllowRestarts(false)
			s.expire()
		},
		Disk:    watched,
		Stalled: srv.examine,
	}
	srv.explain(&o, at)
	if orElse(spec.Network, s.provider.config.Network) == sandbox.NetworkAllowlist {
		connections, err := s.provider.connections(spec)
		if err != nil {
			_ = at.Close() // the cause is known
			return err
		}
		o.Connections = connections
	}
	client, err := inside.Dial(at, o)
	if err != nil {
		return fmt.Errorf("the server in the container (image %s, user %q): %w", s.info.Image, spec.User, err)
	}
	s.info = client.Info()
	o.Info = s.info
	srv.mu.Lock()
	defer srv.mu.Unlock()
	s.driver = srv
	srv.client, srv.since = client, client.Server().DiskSince
	srv.dial = func(ctx context.Context, since int64) (*inside.Client, *stream, error) {
		again := s.again
		if again == nil {
			again = s.startAgain
		}
		at, err := again(ctx)
		if err != nil {
			return nil, nil, err
		}
		next := o
		next.DiskSince, next.Anywhere = since, true
		srv.explain(&next, at)
		client, err := inside.Dial(at, next)
		return client, at, err
	}
	return nil
}

// startAgain starts the container that has ended.
func (s *box) startAgain(ctx context.Context) (*stream, error) {
	if s.uploaded { // what has its name may be another program by now
		if err := s.provider.uploadBinary(ctx, s.container); err != nil {
			return nil, fmt.Errorf("copy the server into the container: %w", err)
		}
	}
	return s.provider.startAttached(ctx, s.container)
}

// connections returns what serves the connections of a sandbox with an allow list.
func (p *Provider) connections(spec sandbox.Spec) (func(context.Context, *inside.Connection), error) {
	hosts, err := sandbox.ParseHosts(spec.AllowedHosts)
	if err != nil {
		return nil, err
	}
	c := p.config.Egress
	c.Hosts = hosts
	proxy := egress.New(c)
	return func(ctx context.Context, conn *inside.Connection) {
		select {
		case p.relays <- struct{}{}:
			defer func() { <-p.relays }()
			proxy.Serve(ctx, conn)
		case <-ctx.Done():
		}
	}, nil
}

// expire removes the container of a sandbox that nobody uses. The sandbox is lost
// then, not closed, for whoever does use it after all.
func (s *box) expire() {
	leave, err := s.provider.sandboxes.Enter()
	if err != nil {
		return // the provider removes it
	}
	go func() {
		defer leave()
		warning := fmt.Sprintf("sandbox %s is removed: nobody used it for %v or held a lease", s.info.ID, s.provider.config.Idle)
		if err := s.provider.removeContainer(context.Background(), s.container); err != nil {
			warning += ": " + err.Error()
		}
		s.provider.config.Warn(warning)
	}()
}
