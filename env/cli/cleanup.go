package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/local"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/singularity"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/ssh"
)

// cleanupCommand removes what dead runs left. Which machines were used over SSH it
// has to be told.
type cleanupCommand struct {
	File          string `name:"config" short:"c" placeholder:"FILE" help:"YAML configuration file whose env.ssh_host is cleaned up too."`
	SSHHost       string `name:"ssh-host" placeholder:"HOST" help:"Machine of ssh sandboxes to clean up too."`
	SSHPort       int    `name:"ssh-port" placeholder:"PORT" help:"Port of its SSH server [22]."`
	SSHUser       string `name:"ssh-user" placeholder:"USER" help:"Account there [the user who runs this]."`
	SSHKey        string `name:"ssh-key" placeholder:"FILE" help:"Private key file [the agent's keys and those in ~/.ssh]."`
	SSHKnownHosts string `name:"ssh-known-hosts" placeholder:"FILE" help:"File with the host's key [~/.ssh/known_hosts and the system's]."`
	Images        bool   `name:"images" help:"Remove images that dead runs built too; later runs build them again."`
	DryRun        bool   `name:"dry-run" help:"Say what there is, and remove nothing."`
}

// cleanupLimit bounds all of a cleanup.
const cleanupLimit = 5 * time.Minute

// leftBehind counts the sandboxes of a backend.
type leftBehind struct{ held, abandoned, foreign int }

// cleaned is one place to clean up.
type cleaned struct {
	name  string // of the backend, with the machine where that is another
	reap  func(ctx context.Context) (int, error)
	count func(ctx context.Context) (leftBehind, error)
}

// Run removes what dead runs left behind, of every backend that is there.
func (c *cleanupCommand) Run(s *session) error {
	ctx, cancel := context.WithTimeout(s.ctx, cleanupLimit)
	defer cancel()
	places := []cleaned{s.localCleaned(), s.dockerCleaned(), s.singularityCleaned()}
	remote, err := c.remote(s)
	if err != nil {
		return err
	}
	if remote.SSHHost != "" {
		places = append(places, s.sshCleaned(remote))
	}
	var errs []error
	for _, place := range places {
		if err := place.clean(ctx, s, c.DryRun); err != nil {
			errs = append(errs, fmt.Errorf("clean up %s sandboxes: %w", place.name, err))
		}
	}
	errs = append(errs, s.cleanImages(ctx, c.Images && !c.DryRun))
	return fail(ExitSandbox, errors.Join(errs...))
}

// clean removes what is to be removed, or says what that would be. A backend that is
// not on this machine has left nothing.
func (p cleaned) clean(ctx context.Context, s *session, dryRun bool) error {
	var (
		line string
		err  error
	)
	if dryRun {
		var left leftBehind
		if left, err = p.count(ctx); err == nil {
			line = fmt.Sprintf("would remove %d %s sandboxes of dead runs", left.abandoned, p.name)
			if left.held > 0 {
				line += fmt.Sprintf("; %d are held by runs that live", left.held)
			}
			if left.foreign > 0 {
				line += fmt.Sprintf("; %d belong to runs on other machines, which are not touched", left.foreign)
			}
		}
	} else {
		var n int
		if n, err = p.reap(ctx); n > 0 || err == nil {
			line = fmt.Sprintf("removed %d %s sandboxes of dead runs", n, p.name)
		}
	}
	switch {
	case errors.Is(err, singularity.ErrNoCommand): // as on most machines
		return nil
	case errors.Is(err, docker.ErrNoEngine):
		line, err = "no container engine answers: nothing to remove there", nil
	}
	if line != "" {
		fmt.Fprintln(s.app.Stdout, line)
	}
	return err
}

// remote returns the machine that the configuration or the flags name; no host where
// neither does.
func (c *cleanupCommand) remote(s *session) (config.Env, error) {
	var e config.Env
	if c.File != "" {
		none, err := newConfigFlags(nil)
		if err != nil {
			return e, err
		}
		file := configFlagSet{File: c.File, AllowUnsupported: true, flags: none}
		resolved, err := file.load(s, config.Evaluate, true)
		if err != nil {
			return e, err
		}
		e = resolved.Env
	}
	for _, f := range []struct{ given, field *string }{
		{&c.SSHHost, &e.SSHHost}, {&c.SSHUser, &e.SSHUser}, {&c.SSHKey, &e.SSHKey}, {&c.SSHKnownHosts, &e.SSHKnownHosts},
	} {
		if *f.given != "" {
			*f.field = *f.given
		}
	}
	if c.SSHPort != 0 {
		e.SSHPort = c.SSHPort
	}
	if e.SSHHost == "" && (c.SSHPort != 0 || c.SSHUser != "" || c.SSHKey != "" || c.SSHKnownHosts != "") {
		return e, fail(ExitUsage, errors.New("the machine to clean up is not named; add --ssh-host HOST, or --config FILE with env.ssh_host"))
	}
	return e, nil
}

// reapOnce reaps with a provider that is made for it.
func reapOnce[P sandbox.Provider](ctx context.Context, open func() (P, error)) (n int, err error) {
	p, err := open()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, closeProvider(p)) }()
	return p.Reap(ctx)
}

func (s *session) localCleaned() cleaned {
	open := func() (*local.Provider, error) { return local.New(local.Config{Subreaper: true}) }
	return cleaned{
		name: local.Name,
		reap: func(ctx context.Context) (int, error) { return reapOnce(ctx, open) },
		count: func(context.Context) (left leftBehind, err error) {
			p, err := open()
			if err != nil {
				return left, err
			}
			defer func() { err = errors.Join(err, closeProvider(p)) }()
			r, err := p.Report()
			return leftBehind{r.Held, r.Abandoned, 0}, err
		},
	}
}

func (s *session) dockerCleaned() cleaned {
	return cleaned{
		name: docker.Name,
		reap: func(ctx context.Context) (n int, err error) {
			p, err := docker.New(s.dockerConfig())
			if err != nil {
				return 0, err
			}
			defer func() { err = errors.Join(err, closeProvider(p)) }()
			n, err = p.Reap(ctx)
			_, networkErr := p.RemoveNetwork(ctx) // made again when it is needed
			return n, errors.Join(err, networkErr)
		},
		count: func(ctx context.Context) (leftBehind, error) {
			r, err := docker.Inspect(ctx, s.dockerConfig())
			return leftBehind{r.Held, r.Abandoned, 0}, err
		},
	}
}

func (s *session) singularityCleaned() cleaned {
	return cleaned{
		name: singularity.Name,
		reap: func(ctx context.Context) (int, error) {
			return reapOnce(ctx, func() (*singularity.Provider, error) { return singularity.New(s.singularityConfig()) })
		},
		count: func(ctx context.Context) (leftBehind, error) {
			r, err := singularity.Inspect(ctx, s.singularityConfig())
			return leftBehind{r.Held, r.Abandoned, 0}, err
		},
	}
}

func (s *session) sshCleaned(e config.Env) cleaned {
	c := s.sshConfig(e)
	return cleaned{
		name: ssh.Name + " (" + e.SSHHost + ")",
		reap: func(ctx context.Context) (int, error) {
			return reapOnce(ctx, func() (*ssh.Provider, error) { return ssh.New(c) })
		},
		count: func(ctx context.Context) (leftBehind, error) {
			r, err := ssh.Inspect(ctx, c)
			if err == nil {
				err = r.CacheError
			}
			return leftBehind{r.Held, r.Abandoned, r.Foreign}, err
		},
	}
}
