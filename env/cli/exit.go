package cli

import (
	"errors"

	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/trajectories"
)

// Exit codes of every command.
const (
	ExitOK          = 0
	ExitBelow       = 1   // the run finished, but below --fail-under or with too many unscored rollouts
	ExitProblems    = 1   // doctor found something that keeps runs from working
	ExitUnsound     = 1   // validate found items that are not sound
	ExitUsage       = 2   // wrong flags, configuration or run directory; nothing was run
	ExitModel       = 3   // the model endpoint
	ExitSandbox     = 4   // the sandbox engine
	ExitStore       = 5   // results could not be written
	ExitBudget      = 6   // a budget is used up or can't be kept; what was finished is saved
	ExitInterrupted = 130 // stopped by a signal; what was finished is saved
)

// failure is an error with the exit code it leads to.
type failure struct {
	code int
	err  error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// fail gives an error its exit code, unless it has one already.
func fail(code int, err error) error {
	var known *failure
	if err == nil || errors.As(err, &known) {
		return err
	}
	return &failure{code, err}
}

// exitCode maps an error to the code the process ends with.
func exitCode(err error) int {
	var f *failure
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &f):
		return f.code
	case errors.Is(err, env.ErrInterrupted):
		return ExitInterrupted
	case errors.Is(err, env.ErrBudget), errors.Is(err, env.ErrBudgetUnkept):
		return ExitBudget
	case errors.Is(err, env.ErrStore), errors.Is(err, trajectories.ErrFailed):
		return ExitStore
	case errors.Is(err, env.ErrEndpoint):
		return ExitModel
	case errors.Is(err, env.ErrSandbox):
		return ExitSandbox
	}
	return ExitUsage
}
