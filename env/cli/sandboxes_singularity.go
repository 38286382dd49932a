package cli

import (
	"errors"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/singularity"
)

// newSingularityProvider makes the backend that drives apptainer or singularity.
func (j *job) newSingularityProvider() (sandbox.Provider, error) {
	config := j.singularityConfig()
	config.Image = j.cfg.Env.SingularityImage
	config.Idle = j.cfg.Env.TerminalLifetime.Duration()
	config.Progress = func(image, line string) { j.out.Note(image + ": " + line) }
	p, err := singularity.New(config)
	if err != nil {
		return nil, err
	}
	if err := p.Check(); err != nil {
		return nil, errors.Join(err, closeProvider(p))
	}
	return p, nil
}

// singularityConfig is what the process's environment says of the backend.
func (s *session) singularityConfig() singularity.Config {
	var config singularity.Config
	if s.app.Getenv != nil {
		config.Binary, _ = s.app.Getenv(binaryVariable)
	}
	return config
}
