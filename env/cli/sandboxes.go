package cli

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/local"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/program"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/singularity"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/ssh"
)

// backends are the sandbox backends the program has.
func backends() []string { return []string{local.Name, docker.Name, ssh.Name, singularity.Name} }

// binaryVariable names a static hermes-env for Linux that serves inside containers,
// where this program can't.
const binaryVariable = program.Variable

// newProvider makes the sandbox backend that the configuration names.
func (j *job) newProvider() (sandbox.Provider, error) {
	c := j.cfg.Env
	switch c.TerminalBackend {
	case local.Name:
		if j.app.exposed != nil {
			j.out.Warn(fmt.Sprintf("the agents' commands can read the keys of this program: %v; use another env.terminal_backend", j.app.exposed))
		}
		return local.New(local.Config{Subreaper: true})
	case docker.Name:
		config := j.dockerConfig()
		config.Image = c.DockerImage
		config.Idle = c.TerminalLifetime.Duration()
		if j.flags.RunDir != "" {
			config.Run = filepath.Base(j.flags.RunDir)
		}
		config.Warn = j.out.Warn
		config.Progress = func(image, line string) { j.out.Note(image + ": " + line) }
		config.Pull = docker.PullPolicy(c.ImagePull)
		config.Share = docker.NewShare(c.MaxImagePulls, c.MaxImageBuilds)
		config.ImageBudget = int64(c.ImageDiskBudgetGB * 1e9)
		config.DiskWatch = c.DiskBound == "watch"
		config.ComposeUnsafe = c.ComposeAllowUnsafe
		var err error
		if config.Capabilities, err = sandbox.ParseCapabilities(c.SandboxCapabilities); err != nil {
			return nil, fmt.Errorf("env.sandbox_capabilities: %w", err)
		}
		config.AllowNewPrivileges = !c.NoNewPrivileges
		p, err := docker.New(config)
		if err != nil {
			return nil, err
		}
		if err := p.Check(); err != nil {
			return nil, errors.Join(err, closeProvider(p))
		}
		return p, nil
	case ssh.Name:
		return j.newSSHProvider()
	case singularity.Name:
		return j.newSingularityProvider()
	}
	return nil, fmt.Errorf("sandbox backend %q is not available", c.TerminalBackend)
}

// dockerConfig is what the process's environment says of the docker backend.
func (s *session) dockerConfig() docker.Config {
	config := docker.Config{Getenv: s.app.Getenv}
	if s.app.Getenv != nil {
		config.Binary, _ = s.app.Getenv(binaryVariable)
	}
	return config
}
