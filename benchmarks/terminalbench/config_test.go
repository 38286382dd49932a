package terminalbench

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/trajectories"
)

// resolve loads a configuration as the command line does.
func resolve(t *testing.T, environment string, flags ...string) (*config.Resolved, env.Environment, error) {
	t.Helper()
	var list []config.Environment
	for _, d := range Definitions() {
		list = append(list, config.Environment{Name: d.Name, Own: d.NewOwn, Defaults: func(c *config.Config) { d.SetDefaults(&c.Env, c.Own) }})
	}
	given := []config.Flag{{Name: "environment", Value: environment}, {Name: "agent", Value: "nop"}}
	for _, f := range flags {
		name, value, _ := strings.Cut(f, "=")
		given = append(given, config.Flag{Name: "env." + name, Value: value})
	}
	cfg, err := config.Load(config.Options{Environments: list, Flags: given, Backends: []string{"local", "docker"}})
	if err != nil {
		return nil, nil, err
	}
	for _, d := range Definitions() {
		if d.Name == environment {
			e, err := d.New(cfg.Env, cfg.Own)
			return cfg, e, err
		}
	}
	t.Fatalf("no environment %s", environment)
	return nil, nil, nil
}

func TestDefaultsAreTheOriginalsAndThePublishedProtocols(t *testing.T) {
	cfg, e, err := resolve(t, NameTB2)
	require.NoError(t, err)
	own := cfg.Own.(*Config)
	require.Equal(t, "NousResearch/terminal-bench-2", own.DatasetName)
	require.Equal(t, "train", own.DatasetSplit)
	require.Equal(t, config.Seconds(1800), own.TaskTimeout)
	require.Equal(t, 60, cfg.Env.MaxAgentTurns)
	require.Equal(t, 16000, cfg.Env.MaxTokenLength)
	require.Equal(t, 0.6, cfg.Env.AgentTemperature)
	require.Equal(t, config.Seconds(300), cfg.Env.TerminalTimeout)
	require.Equal(t, []string{"terminal", "file"}, cfg.Env.EnabledToolsets)
	require.Equal(t, "docker", cfg.Env.TerminalBackend)
	require.Empty(t, e.(env.Protocol).Deviations())
	require.True(t, e.(env.Protocol).HasProtocol())

	cfg, e, err = resolve(t, NameTBLite, "max_concurrent_tasks=3", "skip_tasks=a,b*")
	require.NoError(t, err)
	require.Equal(t, "NousResearch/openthoughts-tblite", cfg.Own.(*Config).DatasetName)
	require.Equal(t, config.Seconds(1200), cfg.Own.(*Config).TaskTimeout)
	require.Equal(t, 3, cfg.Env.MaxEvalWorkers)
	require.Equal(t, config.Words{"a", "b*"}, cfg.Own.(*Config).SkipTasks)
	require.Len(t, e.(env.Protocol).Deviations(), 1)

	_, e, err = resolve(t, NameTasks, "tasks=x")
	require.NoError(t, err)
	require.False(t, e.(env.Protocol).HasProtocol())
}

func TestEveryOverrideThatMakesScoresIncomparableIsNamed(t *testing.T) {
	for flag, want := range map[string]string{
		"dataset_name=other/tasks":        "not those of NousResearch/terminal-bench-2",
		"task_filter=a":                   "not all tasks",
		"categories=a":                    "not all tasks",
		"timeout_mode=fixed":              "timeout_mode fixed: 1800 s",
		"agent_timeout_multiplier=2":      "agent_timeout_multiplier 2",
		"verifier_timeout_multiplier=0.5": "verifier_timeout_multiplier 0.5",
		"verifier_after_timeout=false":    "no tests after an agent's timeout",
		"rollout_timeout=60":              "rollout_timeout 60 s",
		"rollout_token_limit=1000":        "rollout_token_limit 1000",
		"cpus=4":                          "cpus 4",
		"memory_mb=64":                    "memory_mb 64",
		"storage_mb=64":                   "storage_mb 64",
		"network=none":                    "network none",
		"force_build=true":                "force_build",
		"verify_in=fresh":                 "fresh container",
		"keep_processes=never":            "keep_processes never",
		"on_tampering=fail":               "on_tampering unscored",
		"strict_tampering=true":           "strict_tampering",
		"on_tampering=zero":               "on_tampering zero",
		"on_tampering=fresh-tools":        "restore_tools all",
		"exit_code_fallback=true":         "exit code",
		"skip_unsound=true":               "skip_unsound",
		"sandbox_capabilities=restricted": "capabilities restricted instead of the engine's own",
		"no_new_privileges=true":          "no_new_privileges",
	} {
		_, e, err := resolve(t, NameTB2, flag)
		require.NoError(t, err, flag)
		require.Contains(t, strings.Join(e.(env.Protocol).Deviations(), "\n"), want, flag)
	}
	for _, flag := range []string{"attempts=5", "max_eval_workers=2", "keep_sandbox_diff=true", "on_tampering=note", "restore_tools=none", "on_tampering=keep", "verifier_retries=0"} {
		_, e, err := resolve(t, NameTB2, flag)
		require.NoError(t, err, flag)
		require.Empty(t, e.(env.Protocol).Deviations(), flag)
	}
}

func TestConfig_ReadsTheOlderWordsOfOnTampering(t *testing.T) {
	for word, want := range map[string]struct {
		restore string
		strict  bool
		policy  string
	}{
		"core":        {tamperingCore, false, config.TamperingKeep},
		"note":        {tamperingNote, false, config.TamperingKeep},
		"fresh-tools": {tamperingRestore, false, config.TamperingKeep},
		"fail":        {tamperingCore, true, config.TamperingUnscored},
		"zero":        {tamperingCore, false, config.TamperingZero},
	} {
		cfg, _, err := resolve(t, NameTB2, "on_tampering="+word)
		require.NoError(t, err, word)
		own := cfg.Own.(*Config)
		require.Equal(t, want.restore, own.RestoreTools, word)
		require.Equal(t, want.strict, own.StrictTampering, word)
		require.Equal(t, want.policy, cfg.Env.OnTampering, word)
		if word == "zero" {
			require.Empty(t, cfg.Warnings)
			continue
		}
		require.Len(t, cfg.Warnings, 1, word)
		require.Contains(t, cfg.Warnings[0], word+" is an older spelling, now written ")
		recorded := string(cfg.Upgrade([]byte(`{"env":{"on_tampering":"` + word + `"}}`)))
		require.Equal(t, want.strict, gjson.Get(recorded, "env.strict_tampering").Bool(), "a recorded run goes on")
	}
}

func TestConfigurationsThatCanNotWorkAreRefused(t *testing.T) {
	for flags, want := range map[string]string{
		"terminal_backend=local":     "tasks are container images, which the backend local can't run",
		"task_filter=[\"a[\"]":       "is no pattern",
		"tasks=x dataset_revision=y": "can't be combined with tasks",
		"verify_in=elsewhere":        "want one of auto, same, fresh",
		"keep_processes=some":        "want one of auto, always, services, never",
		"agent_timeout_multiplier=0": "agent_timeout_multiplier",
		"sandbox_capabilities=ROOT":  "neither a set",
	} {
		_, _, err := resolve(t, NameTB2, strings.Fields(flags)...)
		require.ErrorContains(t, err, want, flags)
	}
	_, _, err := resolve(t, NameTasks)
	require.ErrorContains(t, err, "env.tasks: missing")
}

func TestPassRatesCountWhatHasNoRewardAsFailedAndLeaveTheInfrastructureOut(t *testing.T) {
	yes, no, one, zero := true, false, 1.0, 0.0
	e := &Environment{name: NameTB2, common: config.Env{SandboxCapabilities: config.Words{"engine"}}, published: Config{DatasetName: "d"}, own: Config{DatasetName: "d", AgentTimeoutFactor: 1, VerifierTimeoutFactor: 1, Network: "task", RestoreTools: tamperingCore, TimeoutMode: timeoutTask},
		byName: map[string]*task{"a": {category: "system-administration", difficulty: "easy"}, "b": {category: "Data Science"}}}
	record := func(item string, o trajectories.Outcome, passed *bool, score *float64) env.Record {
		r := env.Record{Outcome: o, Passed: passed, Score: score}
		r.ItemID = item
		return r
	}
	metrics := map[string]float64{}
	for _, m := range e.Aggregate(slices.Values([]env.Record{
		record("a", trajectories.OutcomeScored, &yes, &one),
		record("a", trajectories.OutcomeLimit, &no, &zero),
		record("a", trajectories.OutcomeVerifierError, nil, nil),
		record("b", trajectories.OutcomeScored, &yes, &one),
		record("b", trajectories.OutcomeSandboxError, nil, nil),
		record("b", trajectories.OutcomeModelError, nil, nil),
		record("b", trajectories.OutcomeCancelled, nil, nil),
		record("gone", trajectories.OutcomeScored, &no, &zero),
	})) {
		metrics[m.Name] = m.Value
	}
	require.Equal(t, 2.0/5, metrics["eval/pass_rate"])
	require.Equal(t, 5.0, metrics["eval/total_tasks"])
	require.Equal(t, 2.0, metrics["eval/passed_tasks"])
	require.Equal(t, 3.0, metrics["eval/infrastructure_failures"])
	require.Equal(t, 1.0/3, metrics["eval/pass_rate_system_administration"])
	require.Equal(t, 1.0, metrics["eval/pass_rate_data_science"])
	require.Equal(t, 1.0/3, metrics["eval/pass_rate_difficulty_easy"])
	require.Equal(t, 1.0, metrics["eval/comparable"])
	for _, m := range (&Environment{name: NameTasks}).Aggregate(slices.Values([]env.Record{})) {
		require.NotEqual(t, "eval/comparable", m.Name, "tasks of one's own have no published results")
	}
}
