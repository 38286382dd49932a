package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/trajectories"
)

type rescoreCommand struct {
	Source            string     `arg:"" name:"run" help:"Run directory whose rollouts are scored again."`
	RunDir            string     `name:"run-dir" placeholder:"DIR" help:"Directory for the new results [the run's name with -rescored and the time]."`
	ResumeDir         resumeFlag `name:"resume" placeholder:"DIR" help:"Go on with the rescoring in DIR, or in --run-dir."`
	Resume            bool       `kong:"-"`
	AllowConfigChange bool       `name:"allow-config-change" help:"With --resume: go on although settings changed that can affect results. The run is marked as mixed from both."`
	AllowMissing      bool       `name:"allow-missing-rollouts" help:"With --resume: go on although finished rollouts are gone from rollouts.jsonl. They are scored again."`
	JSON              bool       `name:"json" help:"Write events and the summary to standard output as JSON, one object per line."`
	configFlagSet
	profileFlags
}

// rescoring is where the rollouts of a run come from that scores another's again.
type rescoring struct {
	reader  *trajectories.Reader
	entries map[trajectories.Key]trajectories.Entry // what can be scored again
	left    []string                                // why the others can't, for people
	total   int
	model   string // of the rollouts
}

// Run scores what the agents of a run left once more, in fresh sandboxes and with
// the verifiers as they are now. The run itself is not changed.
func (c *rescoreCommand) Run(s *session) error {
	reader, err := trajectories.OpenReadOnly(c.Source)
	if err != nil {
		return fail(ExitUsage, err)
	}
	if c.Agent != "" {
		return fail(ExitUsage, errors.New("rescore takes no --agent: what the agents left is scored as it is"))
	}
	if c.RunDir, err = c.ResumeDir.runDir(c.RunDir); err != nil {
		return fail(ExitUsage, err)
	}
	c.Resume = c.ResumeDir.set
	if c.Resume && c.RunDir == "" {
		return fail(ExitUsage, errors.New("--resume needs the rescoring to go on with: --resume DIR, or add --run-dir DIR"))
	}
	flags := &runFlags{Resume: c.Resume, AllowConfigChange: c.AllowConfigChange, AllowMissing: c.AllowMissing, JSON: c.JSON, configFlagSet: c.configFlagSet}
	if err := flags.checkAllowed(); err != nil {
		return fail(ExitUsage, err)
	}
	if c.RunDir != "" && filepath.Clean(c.RunDir) == filepath.Clean(c.Source) {
		return fail(ExitUsage, fmt.Errorf("--run-dir %s is the run that is scored again, whose results stay as they are: name another", c.RunDir))
	}
	cfg, err := c.resolve(s, reader)
	if err != nil {
		return fail(ExitUsage, err)
	}
	flags.RunDir, flags.configFlagSet = c.newDir(s), c.configFlagSet
	j := &job{session: s, flags: flags, mode: config.Evaluate, cfg: cfg, rescoring: &rescoring{reader: reader}}
	j.out = s.newPrinter(c.JSON)
	if err := j.build(); err != nil {
		return fail(ExitUsage, err)
	}
	if _, ok := j.environment.(env.Restorer); !ok {
		return fail(ExitUsage, fmt.Errorf("the environment %s keeps nothing that could be scored again", cfg.Environment))
	}
	ctx, drain, release := interruptible(s.ctx, s.app.Signals, cfg.Env.InterruptGrace.Duration(), j.out)
	defer release()
	return j.run(ctx, drain, nil)
}

// resolve takes the run's own configuration, and over it the flags; --config replaces it.
func (c *rescoreCommand) resolve(s *session, reader *trajectories.Reader) (*config.Resolved, error) {
	set := c.configFlagSet
	if set.File == "" {
		// A model is neither needed nor asked for; mode and servers are no part of a file.
		text, err := recordedConfig(reader, "mode", "openai", "agent")
		if err != nil {
			return nil, err
		}
		set.File, set.recorded = filepath.Join(reader.Dir(), "run.json"), text
	}
	set.Agent = config.AgentNop
	cfg, err := set.load(s, config.Evaluate, true)
	if err != nil {
		return nil, fmt.Errorf("configuration of run %s: %w", reader.Dir(), err)
	}
	if m := reader.Manifest(); cfg.Environment != m.Environment {
		return nil, fmt.Errorf("run %s is of environment %s, not of %s", reader.Dir(), m.Environment, cfg.Environment)
	}
	cfg.Env.DataDirToSaveEvals = "" // the run's own results stay
	return cfg, nil
}

// newDir is where the new results go: never into the run itself.
func (c *rescoreCommand) newDir(s *session) string {
	if c.RunDir != "" {
		return c.RunDir
	}
	now := time.Now
	if s.app.Now != nil {
		now = s.app.Now
	}
	return filepath.Clean(c.Source) + "-rescored-" + now().Format("20060102-150405")
}

// choose finds out which rollouts can be scored again, once the environment is set up.
func (r *rescoring) choose(ctx context.Context, j *job) error {
	items := map[string]env.Item{}
	for item, err := range env.EvalItems(ctx, j.environment, env.SubsetOf(j.cfg.Env)) {
		if err != nil {
			return err
		}
		items[item.ID] = item
	}
	if d, ok := j.environment.(env.RestoreDirUser); ok {
		d.RestoreFrom(r.reader.Dir())
	}
	restorer := j.environment.(env.Restorer)
	r.entries = map[trajectories.Key]trajectories.Entry{}
	reasons := map[string][]string{}
	changed, unknown := 0, 0
	err := r.reader.EachEntry(func(e trajectories.Entry) error {
		r.total++
		item, ok := items[e.ItemID]
		reason := ""
		switch {
		case !ok:
			reason = "the item is not among those of the environment any more"
		case !e.Outcome.Trained() && e.Outcome != trajectories.OutcomeSandboxError:
			reason = "its agent did not come to an end (" + string(e.Outcome) + ")"
		default:
			rec, err := r.reader.Load(e)
			if err != nil {
				return err
			}
			r.model = rec.Model
			err = restorer.Restorable(item, rec)
			switch {
			case err == nil: // also where tests could not install their tools after the agent had ended
			case e.Outcome == trajectories.OutcomeSandboxError:
				reason = "its sandbox failed, and nothing of what the agent changed was kept (" + string(e.Outcome) + ")"
			default:
				reason = err.Error()
			}
		}
		if reason != "" {
			reasons[reason] = append(reasons[reason], fmt.Sprintf("%s/%d", trajectories.ShortItemID(e.ItemID), e.Attempt))
			return nil
		}
		switch {
		case e.ItemDigest == item.Digest:
		case item.NameDigest != "" && e.ItemDigest == item.NameDigest:
			unknown++
		default:
			changed++
		}
		r.entries[e.Key] = e
		j.cfg.Env.Attempts = max(j.cfg.Env.Attempts, e.Attempt+1)
		return nil
	})
	if err != nil {
		return err
	}
	for reason, list := range reasons {
		names := strings.Join(list[:min(len(list), 5)], ", ")
		if len(list) > 5 {
			names += ", …"
		}
		r.left = append(r.left, fmt.Sprintf("%d can't be scored again (%s): %s", len(list), names, reason))
	}
	sort.Strings(r.left)
	j.out.Note(fmt.Sprintf("%d of %d rollouts of %s can be scored again", len(r.entries), r.total, r.reader.Dir()))
	for _, line := range r.left {
		j.out.Warn(line)
	}
	if changed > 0 {
		j.out.Warn(fmt.Sprintf("the items of %d of them changed since: they are scored as the items are now", changed))
	}
	if unknown > 0 {
		j.out.Warn(fmt.Sprintf("%d of them were recorded by a version that compared items by name and not by content: whether their items changed since is unknown; they are scored as the items are now", unknown))
	}
	if len(r.entries) == 0 {
		return fmt.Errorf("nothing of %s can be scored again: run it with --env.keep_sandbox_diff to be able to", r.reader.Dir())
	}
	return nil
}

// stored returns the rollout that is scored again in a place of the new run.
func (r *rescoring) stored(key trajectories.Key) *trajectories.Rollout {
	e, ok := r.entries[key]
	if !ok {
		return nil
	}
	rec, err := r.reader.Load(e)
	if err != nil {
		return nil // left out; what was chosen and is not there is missing in the new run
	}
	return rec
}
