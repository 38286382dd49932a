package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/trajectories"
)

// describe says what would run, and runs nothing: no model, no sandbox, no file.
func (j *job) describe() (err error) {
	defer func() { err = errors.Join(err, j.closeEnvironment()) }()
	out := j.app.Stdout
	c := j.cfg.Env
	fmt.Fprintf(out, "%s would %s %s\n", j.name, j.mode, j.cfg.Environment)
	if err := j.environment.Setup(j.ctx); err != nil {
		return fail(ExitUsage, fmt.Errorf("set up environment %s: %w", j.cfg.Environment, err))
	}
	if err := j.describeWork(out); err != nil {
		return err
	}
	if j.cfg.Agent != config.AgentModel {
		fmt.Fprintf(out, "  agent      %s\n", j.cfg.Agent)
	}
	for _, s := range j.cfg.Servers {
		if j.cfg.Agent != config.AgentModel {
			break
		}
		key := "no key"
		if s.APIKey.IsSet() {
			key = "key from " + s.KeySource
		}
		if scheme, script, ok := s.Embedded(); ok && scheme == replayScheme {
			if _, err := j.replayScript(script); err != nil {
				return fail(ExitUsage, err)
			}
			key = "embedded, plays recorded turns"
		}
		fmt.Fprintf(out, "  model      %s at %s (%s)\n", s.ModelName, s.BaseURL, key)
	}
	if c.Distribution != "" {
		fmt.Fprintf(out, "  tools      drawn per group from distribution %s\n", c.Distribution)
	} else {
		resolution, err := j.registry.Resolve(j.selection(), nil)
		if err != nil {
			return fail(ExitUsage, err)
		}
		fmt.Fprintf(out, "  tools      %s\n", strings.Join(resolution.Names, ", "))
	}
	dir := j.flags.RunDir
	if dir == "" {
		dir = "runs/" + j.cfg.Environment + "-<time>"
	}
	fmt.Fprintf(out, "  sandbox    %s\n  limits     %d turns, %d completion tokens per call\n  results    %s\n", c.TerminalBackend, c.MaxAgentTurns, c.MaxTokenLength, dir)
	fmt.Fprintf(out, "nothing was run\n")
	return nil
}

// describeWork lists the items, as far as they are few.
func (j *job) describeWork(out io.Writer) error {
	c := j.cfg.Env
	if j.mode == config.Serve {
		fmt.Fprintf(out, "  work       groups of %d rollouts for the trainer at %s, %d at once\n", c.GroupSize, c.RolloutServerURL, j.cfg.GroupsInFlight())
		return nil
	}
	if j.mode == config.Process {
		groups, known := j.plannedGroups()
		if known {
			fmt.Fprintf(out, "  work       %d groups of %d rollouts\n", groups, c.GroupSize)
		} else {
			fmt.Fprintf(out, "  work       a group of %d rollouts for each item\n", c.GroupSize)
		}
		return nil
	}
	if _, ok := j.environment.(env.Evaluator); !ok {
		fmt.Fprintf(out, "  work       every item of the environment, %d attempts each\n", c.Attempts)
		return nil
	}
	var ids []string
	more := 0
	for item, err := range env.EvalItems(j.ctx, j.environment, env.SubsetOf(c)) {
		if err != nil {
			return fail(ExitUsage, fmt.Errorf("items of environment %s: %w", j.cfg.Environment, err))
		}
		if len(ids) < maxItemsShown {
			ids = append(ids, trajectories.ShortItemID(item.ID))
		} else {
			more++
		}
	}
	n := len(ids) + more
	list := strings.Join(ids, ", ")
	if more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	fmt.Fprintf(out, "  work       %d items, %d attempts each: %d rollouts\n  items      %s\n", n, c.Attempts, n*c.Attempts, list)
	return nil
}

// plannedGroups returns how many groups process runs; known is false where that depends
// on the number of items.
func (j *job) plannedGroups() (groups int, known bool) {
	groups, size := j.cfg.Env.TotalSteps, -1
	if t, ok := j.environment.(env.TrainSizer); ok {
		size = t.TrainSize()
	}
	if size >= 0 {
		groups = min(groups, size)
	}
	if most := env.SubsetOf(j.cfg.Env).Bound(); most > 0 {
		groups = min(groups, most)
	}
	return groups, groups < env.UnlimitedSteps
}
