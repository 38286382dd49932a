package harbor

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"time"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/trajectories"
	"github.com/hermes-env/hermes-env/trajectories/atif"
)

// count adds a trial to the job's statistics, as Harbor itself would.
func (e *exporter) count(r *trajectories.Rollout, name string, result *trialResult) {
	s := &e.result.Stats
	key := e.config.AgentName
	if e.agent.ModelName != nil {
		key += "__" + *e.agent.ModelName
	}
	key += "__" + e.config.Dataset
	eval := s.Evals[key]
	if eval == nil {
		eval = &evalStats{Metrics: []map[string]float64{}, PassAtK: map[string]float64{}, Rewards: map[string]map[string][]string{}, Exceptions: map[string][]string{}}
		s.Evals[key] = eval
	}
	e.attempts++
	s.Completed++
	s.Retries += r.Retries
	task := e.passes[result.TaskName]
	if task == nil {
		task = &taskScore{}
		e.passes[result.TaskName] = task
		e.order = append(e.order, result.TaskName)
		e.tasks = append(e.tasks, result.Config.Task)
		e.job.Tasks[result.TaskName] = 0
	}
	task.attempts++
	if result.VerifierResult != nil {
		eval.Trials++
		e.job.Tasks[result.TaskName]++
		for _, part := range result.VerifierResult.Rewards {
			if eval.Rewards[part.name] == nil {
				eval.Rewards[part.name] = map[string][]string{}
			}
			value := pythonFloat(part.value)
			eval.Rewards[part.name][value] = append(eval.Rewards[part.name][value], name)
		}
		e.rewards += *r.Score
		if *r.Score == 1 {
			task.passed++
		}
	}
	if x := result.ExceptionInfo; x != nil {
		eval.Errors++
		s.Errored++
		eval.Exceptions[x.Type] = append(eval.Exceptions[x.Type], name)
		if x.Type == "CancelledError" {
			s.Cancelled++
		}
	}
	s.InputTokens += r.Usage.PromptTokens
	s.CacheTokens += r.Usage.CachedTokens
	s.OutputTokens += r.Usage.CompletionTokens
	if cost := result.AgentResult.CostUSD; cost != nil {
		sum := *cost
		if s.CostUSD != nil {
			sum += *s.CostUSD
		}
		s.CostUSD = &sum
	}
}

// finish writes the files of the job itself.
func (e *exporter) finish() error {
	s := &e.result.Stats
	for _, eval := range s.Evals {
		// Harbor's mean: a trial without a reward counts 0.
		eval.Metrics = append(eval.Metrics, map[string]float64{"mean": e.rewards / float64(e.attempts)})
		eval.PassAtK = e.passAtK()
	}
	e.result.Trials = e.attempts
	if e.manifest.EndedAt != "" {
		if ended, err := time.Parse(time.RFC3339Nano, e.manifest.EndedAt); err == nil {
			text := stamp(ended)
			e.result.UpdatedAt, e.result.FinishedAt = &text, &text
		}
	}
	config := jobConfig{
		JobName: e.config.JobName, JobsDir: filepath.ToSlash(e.config.Dir), Attempts: e.mostAttempts(), TimeoutMultiplier: 1,
		AgentTimeoutMultiplier: e.multiplier("env.agent_timeout_multiplier"), VerifierTimeoutMultiplier: e.multiplier("env.verifier_timeout_multiplier"),
		Environment: e.environment(), Verifier: e.verifier(), Agents: []agentConfig{e.agentConfig()}, Datasets: []struct{}{}, Tasks: e.tasks,
	}
	if err := writeJSON(filepath.Join(e.work, "config.json"), config); err != nil {
		return err
	}
	log := "exported by hermes-env " + e.config.AgentVersion + " from a run of " + e.manifest.Environment + "\n"
	if err := os.WriteFile(filepath.Join(e.work, "job.log"), []byte(log), 0o644); err != nil {
		return err
	}
	e.job.Trials = e.attempts
	for what, n := range e.losses {
		e.job.Losses = append(e.job.Losses, atif.Loss{What: what, Count: n})
	}
	sort.Slice(e.job.Losses, func(i, j int) bool { return e.job.Losses[i].What < e.job.Losses[j].What })
	return writeJSON(filepath.Join(e.work, "result.json"), e.result)
}

func (e *exporter) mostAttempts() int {
	most := 0
	for _, t := range e.passes {
		most = max(most, t.attempts)
	}
	return most
}

// passAtK averages over the tasks for the k that Harbor shows: powers of two and
// multiples of five up to the fewest attempts of a task. As there, only a reward of
// exactly 1 passes and a missing one does not.
func (e *exporter) passAtK() map[string]float64 {
	rates := map[string]float64{}
	least := e.attempts
	for _, t := range e.passes {
		least = min(least, t.attempts)
	}
	for k := 2; k <= least; k++ {
		if k&(k-1) != 0 && k%5 != 0 {
			continue
		}
		sum := 0.0
		for _, name := range e.order {
			t := e.passes[name]
			sum += e.config.PassAtK(t.attempts, t.passed, k)
		}
		rates[strconv.Itoa(k)] = sum / float64(len(e.order))
	}
	return rates
}

// multiplier returns a factor of the run's configuration that is not 1.
func (e *exporter) multiplier(path string) *float64 {
	v := e.settings.Get(path)
	if v.Type != gjson.Number || v.Num == 1 {
		return nil
	}
	return &v.Num
}

// override returns a positive number of the run's configuration, rounded up.
func (e *exporter) override(path string) *int64 {
	v := e.settings.Get(path)
	if v.Type != gjson.Number || v.Num <= 0 {
		return nil
	}
	n := int64(math.Ceil(v.Num))
	return &n
}

func (e *exporter) agentConfig() agentConfig {
	a := e.agent
	if limit := e.settings.Get("env.rollout_timeout"); limit.Num > 0 {
		a.MaxTimeout = &limit.Num
	}
	if e.fixedTimeouts() {
		limit := e.settings.Get("env.task_timeout").Num
		a.OverrideTimeout = &limit
	}
	return a
}

func (e *exporter) verifier() verifierConfig {
	v := verifierConfig{}
	if e.fixedTimeouts() {
		limit := e.settings.Get("env.test_timeout").Num
		v.OverrideTimeout = &limit
	}
	return v
}

func (e *exporter) fixedTimeouts() bool {
	return e.settings.Get("env.timeout_mode").String() == "fixed"
}

// environment describes the sandbox. Harbor knows docker by name; other backends
// are named by what made them.
func (e *exporter) environment() environmentConfig {
	c := environmentConfig{
		ForceBuild: e.settings.Get("env.force_build").Bool(), Delete: true, OverrideCPUs: e.override("env.cpus"), OverrideMemoryMB: e.override("env.memory_mb"),
		OverrideStorageMB: e.override("env.storage_mb"), Kwargs: json.RawMessage("{}"),
	}
	backend := e.settings.Get("env.terminal_backend").String()
	if backend == "docker" || backend == "singularity" {
		c.Type = &backend
	} else {
		path := "hermes_env:" + backend
		c.ImportPath = &path
	}
	return c
}
