package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// ErrNoCompose is wrapped by Create when a spec asks for a compose project and no
// compose command is installed.
var ErrNoCompose = errors.New("compose projects need the docker compose command")

// composeTool is a command that runs compose files.
type composeTool struct {
	args    []string // program and first arguments
	environ []string
}

// composeCandidates are the commands that are tried, the best first.
var composeCandidates = [...][]string{{"docker", "compose"}, {"docker-compose"}}

// composeTool finds the compose command.
func (p *Provider) composeTool(ctx context.Context) (composeTool, error) {
	environ := p.composeEnviron()
	for _, candidate := range composeCandidates {
		c := exec.CommandContext(ctx, candidate[0], append(candidate[1:len(candidate):len(candidate)], "version")...)
		c.Env = environ
		if c.Run() == nil {
			return composeTool{candidate, environ}, nil
		}
		if err := context.Cause(ctx); err != nil {
			return composeTool{}, err
		}
	}
	return composeTool{}, fmt.Errorf("%w: neither docker compose nor docker-compose runs; install Docker's compose plugin (apt-get install docker-compose-plugin, or docker-compose)", ErrNoCompose)
}

// composeEnviron is what the compose command gets of the harness's environment: how
// to find itself and the engine. Compose files see none of it.
func (p *Provider) composeEnviron() []string {
	var environ []string
	for _, name := range []string{"PATH", "HOME", "DOCKER_CONFIG", "SSH_AUTH_SOCK", "XDG_RUNTIME_DIR", "LANG"} {
		if v, ok := p.config.Getenv(name); ok {
			environ = append(environ, name+"="+v)
		}
	}
	if name, ok := strings.CutPrefix(p.at.from, "context "); ok {
		return append(environ, "DOCKER_CONTEXT="+name)
	}
	environ = append(environ, "DOCKER_HOST="+p.at.host)
	if p.at.tls {
		for _, name := range []string{"DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"} {
			if v, ok := p.config.Getenv(name); ok {
				environ = append(environ, name+"="+v)
			}
		}
	}
	return environ
}

// composeSaid bounds what of compose's output goes into an error.
const composeSaid = 4000

// run runs the command; what it printed is in the error.
func (t composeTool) run(ctx context.Context, dir string, args ...string) error {
	c := exec.CommandContext(ctx, t.args[0], append(t.args[1:len(t.args):len(t.args)], args...)...)
	c.Dir, c.Env = dir, t.environ
	c.WaitDelay = 5 * time.Second
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	said := strings.TrimSpace(out.String())
	if len(said) > composeSaid {
		said = "… " + strings.ToValidUTF8(said[len(said)-composeSaid:], "")
	}
	return fmt.Errorf("%s: %w: %s", strings.Join(t.args, " "), err, said)
}

// removeProject removes the containers, networks and volumes with a label, again while
// the engine fails, at most for CloseLimit. It does so although ctx has ended.
func (p *Provider) removeProject(ctx context.Context, label string) error {
	ctx = context.WithoutCancel(ctx)
	listing, cancel := context.WithTimeout(ctx, p.config.CloseLimit)
	defer cancel()
	found, err := p.engine.list(listing, label)
	if err != nil {
		return fmt.Errorf("look for the containers: %w", err)
	}
	var g errgroup.Group
	for _, c := range found {
		g.Go(func() error { return p.removeContainer(ctx, c.ID) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	things, err := p.engine.belongings(listing, label)
	if err != nil {
		return fmt.Errorf("look for the networks and volumes: %w", err)
	}
	var errs []error
	for _, b := range things {
		errs = append(errs, p.dropBelonging(listing, b))
	}
	return errors.Join(errs...)
}

// dropBelonging removes a network or a volume, again while the engine says that
// something still uses it.
func (p *Provider) dropBelonging(ctx context.Context, b belonging) error {
	for {
		err := p.engine.drop(ctx, b)
		if err == nil {
			return nil
		}
		if sleep(ctx, 100*time.Millisecond) != nil {
			return fmt.Errorf("remove the network or volume %s: %w", b.ID, err)
		}
	}
}

// reapBelongings removes the networks and volumes of compose projects whose owner on
// this machine is dead. Their containers have to be gone.
func (p *Provider) reapBelongings(ctx context.Context) error {
	found, err := p.engine.belongings(ctx, labelPlace+"="+p.owner.Place)
	if err != nil {
		return fmt.Errorf("look for abandoned networks and volumes: %w", err)
	}
	var errs []error
	for _, b := range found {
		if p.abandoned(b.Labels) {
			errs = append(errs, p.engine.drop(ctx, b))
		}
	}
	return errors.Join(errs...)
}
