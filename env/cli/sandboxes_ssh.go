package cli

import (
	"errors"

	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/ssh"
)

// newSSHProvider makes the backend of the configured machine, and connects to it, so
// that what is wrong with it is said before the first rollout.
func (j *job) newSSHProvider() (sandbox.Provider, error) {
	p, err := ssh.New(j.sshConfig(j.cfg.Env))
	if err != nil {
		return nil, err
	}
	if err := p.Check(j.ctx); err != nil {
		return nil, errors.Join(err, closeProvider(p))
	}
	return p, nil
}

// sshConfig is what a configuration and the process's environment say of the backend.
func (s *session) sshConfig(c config.Env) ssh.Config {
	out := ssh.Config{Host: c.SSHHost, Port: c.SSHPort, User: c.SSHUser, Getenv: s.app.Getenv, Idle: c.TerminalLifetime.Duration()}
	if c.SSHKey != "" {
		out.KeyFiles = []string{c.SSHKey}
	}
	if c.SSHKnownHosts != "" {
		out.KnownHosts = []string{c.SSHKnownHosts}
	}
	if s.app.Getenv != nil {
		out.Binary, _ = s.app.Getenv(binaryVariable)
	}
	return out
}
