package harbor

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/tidwall/gjson"
	"go.yaml.in/yaml/v3"

	"github.com/hermes-env/hermes-env/trajectories"
)

// Submission is the metadata.yaml of a leaderboard entry.
type Submission struct {
	AgentURL            string            `yaml:"agent_url"`
	AgentDisplayName    string            `yaml:"agent_display_name"`
	AgentOrgDisplayName string            `yaml:"agent_org_display_name"`
	Models              []SubmissionModel `yaml:"models"`
}

// SubmissionModel is one model of the entry.
type SubmissionModel struct {
	Name           string `yaml:"model_name"`
	Provider       string `yaml:"model_provider"`
	DisplayName    string `yaml:"model_display_name"`
	OrgDisplayName string `yaml:"model_org_display_name"`
}

// Missing stands for what has to be filled in by hand.
const Missing = "FILL_ME"

// SubmissionDir is where the entry of an agent with a model lies in the leaderboard's
// repository; the job directory goes into it.
func SubmissionDir(root, agent, model string) string {
	return filepath.Join(root, "submissions", "terminal-bench", "2.0", fileName(agent)+"__"+fileName(model))
}

// Write writes metadata.yaml into dir, with FILL_ME for what is empty.
func (s *Submission) Write(dir string) error {
	filled := *s
	fill := func(texts ...*string) {
		for _, t := range texts {
			if *t == "" {
				*t = Missing
			}
		}
	}
	fill(&filled.AgentURL, &filled.AgentDisplayName, &filled.AgentOrgDisplayName)
	filled.Models = append([]SubmissionModel(nil), s.Models...)
	for i := range filled.Models {
		m := &filled.Models[i]
		fill(&m.Name, &m.Provider, &m.DisplayName, &m.OrgDisplayName)
	}
	raw, err := yaml.Marshal(filled)
	if err != nil {
		return fmt.Errorf("encode metadata.yaml: %w", err)
	}
	path := filepath.Join(dir, "metadata.yaml")
	if err := os.WriteFile(path, raw, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// Rules of the Terminal-Bench 2.0 leaderboard.
const (
	minTrials = 5
	allTasks  = 89
)

// Rejections says what the checks of the Terminal-Bench 2.0 leaderboard would refuse
// in a job exported from a run; nothing means that it passes the checks known here.
func Rejections(m trajectories.Manifest, job *Job, s *Submission) []string {
	var list []string
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	config := gjson.ParseBytes(m.Config)
	if m.Environment != "terminal-bench-2" {
		add("the run is of %s, the leaderboard takes terminal-bench-2", m.Environment)
	}
	if m.Status != trajectories.StatusDone {
		add("the run is not complete (%s)", m.Status)
	}
	if agent := config.Get("agent").String(); agent == "oracle" || agent == "nop" {
		add("the agent is %s, not a model", agent)
	}
	var few []string
	rewarded := 0
	for task, n := range job.Tasks {
		if n > 0 {
			rewarded++
		}
		if n < minTrials {
			few = append(few, fmt.Sprintf("%s (%d)", task, n))
		}
	}
	if rewarded < allTasks {
		add("%d of the %d tasks have a trial with a reward", rewarded, allTasks)
	}
	sort.Strings(few)
	if len(few) > 0 {
		more := ""
		if len(few) > minTrials {
			more = fmt.Sprintf(" and %d more", len(few)-minTrials)
		}
		add("fewer than %d trials with a reward: %s%s", minTrials, strings.Join(few[:min(len(few), minTrials)], ", "), more)
	}
	for _, key := range []string{"cpus", "memory_mb", "storage_mb", "rollout_timeout"} {
		if v := config.Get("env." + key); v.Num > 0 {
			add("env.%s is %s: limits and resources must be the tasks' own", key, v.Raw)
		}
	}
	for _, key := range []string{"agent_timeout_multiplier", "verifier_timeout_multiplier"} {
		if v := config.Get("env." + key); v.Exists() && v.Num != 1 {
			add("env.%s is %s, it must be 1", key, v.Raw)
		}
	}
	if config.Get("env.timeout_mode").String() == "fixed" {
		add("env.timeout_mode is fixed: limits must be the tasks' own")
	}
	for _, d := range m.Deviations {
		add("departs from the protocol: %s", d)
	}
	fields := map[string]string{"agent_url": s.AgentURL, "agent_display_name": s.AgentDisplayName, "agent_org_display_name": s.AgentOrgDisplayName}
	for _, model := range s.Models {
		fields["models[].model_name"], fields["models[].model_provider"] = model.Name, model.Provider
		fields["models[].model_display_name"], fields["models[].model_org_display_name"] = model.DisplayName, model.OrgDisplayName
	}
	var empty []string
	for name, value := range fields {
		if value == "" || value == Missing {
			empty = append(empty, name)
		}
	}
	sort.Strings(empty)
	if len(empty) > 0 {
		add("metadata.yaml lacks %s", strings.Join(empty, ", "))
	}
	return list
}
