package cli

import (
	"errors"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/ssh"
)

// newSSHProvider makes the backend of the configured machine, and connects to it, so
// that what is wrong with it is said before the first rollout.
func (j *job) newSSHProvider() (sandbox.Provider, error) {
	c := j.cfg.Env
	config := ssh.Config{Host: c.SSHHost, Port: c.SSHPort, User: c.SSHUser, Getenv: j.app.Getenv}
	if c.SSHKey != "" {
		config.KeyFiles = []string{c.SSHKey}
	}
	if c.SSHKnownHosts != "" {
		config.KnownHosts = []string{c.SSHKnownHosts}
	}
	if j.app.Getenv != nil {
		config.Binary, _ = j.app.Getenv(binaryVariable)
	}
	p, err := ssh.New(config)
	if err != nil {
		return nil, err
	}
	if err := p.Check(j.ctx); err != nil {
		return nil, errors.Join(err, closeProvider(p))
	}
	return p, nil
}
