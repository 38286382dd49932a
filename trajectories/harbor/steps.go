package harbor

import (
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories"
)

// step is one stage of a rollout, which Harbor calls a step.
type step struct {
	name    string
	rollout *trajectories.Rollout // what of the rollout belongs to it
	report  gjson.Result          // what its verifier found
	seconds float64               // of its verifier
}

// steps takes a rollout apart; none where its task has no steps. What the record has
// only of the whole (cached tokens, cost, most timings) belongs to no step.
func steps(r *trajectories.Rollout) []step {
	stages := gjson.GetBytes(r.Metadata, "stages").Array()
	list := make([]step, 0, len(stages))
	turn := 0
	for i, stage := range stages {
		part := *r
		part.Score, part.ScoreParts, part.Passed, part.Metadata, part.Sequences = nil, nil, nil, nil, nil
		if score := stage.Get("score"); score.Type == gjson.Number {
			value := score.Float()
			part.Score, part.Error, part.Outcome = &value, nil, trajectories.OutcomeScored
		} else if r.Score != nil {
			return nil // a whole with a score has one for every part
		}
		if part.StopReason = stage.Get("stop_reason").String(); part.Score != nil && part.StopReason != "natural" {
			part.Outcome = trajectories.OutcomeLimit
		}
		part.TurnsUsed = int(stage.Get("turns_used").Int())
		end := len(r.Messages)
		if i+1 < len(stages) {
			end = within(stages[i+1].Get("message").Int(), end)
		}
		part.Messages = r.Messages[within(stage.Get("message").Int(), end):end]
		from := within(int64(turn), len(r.Timings.Turns))
		turn += max(part.TurnsUsed, 0)
		part.Timings = trajectories.Timings{Turns: r.Timings.Turns[from:within(int64(turn), len(r.Timings.Turns))]}
		part.Usage = chat.Usage{}
		for _, t := range part.Timings.Turns {
			part.Usage.PromptTokens += t.PromptTokens
			part.Usage.CompletionTokens += t.CompletionTokens
			part.Timings.Total += t.Total
			part.Timings.Model += t.Model
			part.Timings.Tools += t.Tools
		}
		part.Usage.TotalTokens = part.Usage.PromptTokens + part.Usage.CompletionTokens
		list = append(list, step{stage.Get("name").String(), &part, stage.Get("verifier"), stage.Get("verifier.seconds").Float()})
	}
	return list
}

// within keeps an index of a record that somebody may have edited in bounds.
func within(n int64, end int) int { return int(min(max(n, 0), int64(end))) }

// stepResults describes the steps as Harbor does. Their times follow one another from
// the start of the agent; the record has only how long each took.
func stepResults(list []step, at time.Time) []stepResult {
	next := func(seconds float64) *timing {
		from := at
		at = at.Add(time.Duration(seconds * float64(time.Second)))
		return &timing{stamp(from), stamp(at)}
	}
	var results []stepResult
	for _, s := range list {
		r := stepResult{StepName: s.name, ExceptionInfo: exception(s.rollout), AgentTime: next(s.rollout.Timings.Total)}
		r.AgentResult = &agentResult{Metadata: metadataOf(s.rollout)}
		if usage := s.rollout.Usage; s.rollout.TurnsUsed > 0 {
			r.AgentResult.InputTokens, r.AgentResult.OutputTokens = &usage.PromptTokens, &usage.CompletionTokens
		}
		if s.rollout.Score != nil {
			r.VerifierResult = &verifierResult{Rewards: rewards{{"reward", *s.rollout.Score}}}
		}
		if s.seconds > 0 {
			r.VerifierTime = next(s.seconds)
		}
		results = append(results, r)
	}
	return results
}

// stepName matches the names of steps that can be directories.
var stepName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// stepDirs writes the files of each step where Harbor has them.
func (e *exporter) stepDirs(list []step, trial string) error {
	for _, s := range list {
		if !stepName.MatchString(s.name) {
			continue // of a record that no task can have made
		}
		dir := filepath.Join(trial, "steps", s.name)
		for _, sub := range []string{"agent", "verifier"} {
			if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
				return err
			}
		}
		if err := e.trajectory(s.rollout, dir, nil); err != nil {
			return err
		}
		var reward *verifierResult
		if s.rollout.Score != nil {
			reward = &verifierResult{Rewards: rewards{{"reward", *s.rollout.Score}}}
		}
		if err := verifierFiles(reward, s.report, nil, filepath.Join(dir, "verifier")); err != nil {
			return err
		}
	}
	return nil
}
