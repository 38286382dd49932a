package terminalbench

import (
	"cmp"
	"fmt"
	"path"
	"time"

	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// Names of the environments.
const (
	NameTB2    = "terminal-bench-2"
	NameTBLite = "openthoughts-tblite"
	NameTasks  = "tasks"
)

// Words of the configuration.
const (
	timeoutTask      = "task"
	timeoutFixed     = "fixed"
	verifyAuto       = "auto"
	verifySame       = "same"
	verifyFresh      = "fresh"
	verifyClean      = "clean"
	keepAuto         = "auto"
	keepAll          = "always"
	keepServices     = "services"
	keepNone         = "never"
	tamperingCore    = "core"
	tamperingNote    = "none"
	tamperingFail    = "fail" // older: see RewriteSetting
	tamperingRestore = "all"
)

// Config is the environments' own part of the env section.
type Config struct {
	DatasetName     string       `yaml:"dataset_name" nullable:"true" help:"dataset of tasks: a Hugging Face name (org/name), a Parquet or JSONL file with the columns of Terminal-Bench, or a folder or git checkout of Harbor tasks"`
	DatasetSplit    string       `yaml:"dataset_split" default:"train" help:"split of the dataset"`
	DatasetRevision string       `yaml:"dataset_revision" nullable:"true" help:"branch, tag or commit of the dataset; null is the newest, and the commit is recorded"`
	Tasks           string       `yaml:"tasks" nullable:"true" help:"folder or git checkout of Harbor tasks, in place of dataset_name"`
	TaskFilter      config.Words `yaml:"task_filter" help:"names of the tasks to run, with * and ?; a list or one text with commas"`
	SkipTasks       config.Words `yaml:"skip_tasks" help:"names of tasks to leave out, with * and ?; a list or one text with commas"`
	Categories      config.Words `yaml:"categories" help:"categories of the tasks to run, with * and ?"`
	Difficulties    config.Words `yaml:"difficulties" help:"difficulties of the tasks to run, with * and ?"`

	TimeoutMode           string         `yaml:"timeout_mode" default:"task" choices:"task,fixed" help:"task: each task's own limits for the agent and for the tests, as Harbor has them; fixed: task_timeout around both and test_timeout for the tests, as the original has them"`
	TaskTimeout           config.Seconds `yaml:"task_timeout" default:"1800" min:"0.001" help:"fixed: wall clock of agent and tests together; task: of the agent in tasks that don't say"`
	TestTimeout           config.Seconds `yaml:"test_timeout" default:"600" min:"0.001" help:"fixed: limit of the tests; task: in tasks that don't say"`
	AgentTimeoutFactor    float64        `yaml:"agent_timeout_multiplier" default:"1" min:"0.001" help:"times each task's limit for the agent"`
	VerifierTimeoutFactor float64        `yaml:"verifier_timeout_multiplier" default:"1" min:"0.001" help:"times each task's limit for the tests"`
	VerifierAfterTimeout  *bool          `yaml:"verifier_after_timeout" help:"run the tests also when the agent's time was up; null does so with timeout_mode task"`
	VerifierRetries       int            `yaml:"verifier_retries" default:"1" min:"0" max:"10" unit:"runs" affects:"no" help:"more runs of tests that exceeded their limit; never with timeout_mode fixed"`
	ForceBuild            bool           `yaml:"force_build" default:"false" help:"build each task's Dockerfile also where there is a ready image"`
	CPUs                  float64        `yaml:"cpus" default:"0" min:"0" help:"processors of every task's container; 0 is the task's own"`
	MemoryMB              int64          `yaml:"memory_mb" default:"0" min:"0" unit:"MiB" help:"memory of every task's container; 0 is the task's own"`
	StorageMB             int64          `yaml:"storage_mb" default:"0" min:"0" unit:"MiB" help:"what every task's container may write; 0 is the task's own"`
	Network               string         `yaml:"network" default:"task" choices:"task,none,public" help:"what every task's container can reach; task is the task's own"`
	VerifyIn              string         `yaml:"verify_in" default:"auto" choices:"auto,same,fresh,clean" help:"where the tests run, where the task does not say: same is the agent's container, as published; fresh is a new one with all of the agent's files; clean is a new one with only its work (metadata.work_directories of the task, else what it changed outside the system's directories), so that no replaced tool counts; auto is clean in process and serve, and same in evaluate"`
	IsolateTests          bool           `yaml:"isolate_tests" default:"true" help:"keep code of the agent that the tests execute away from the tests, the reward and the test runner, where the kernel and the task allow it; a refused attempt makes the rollout tampered"`
	KeepProcesses         string         `yaml:"keep_processes" default:"auto" choices:"auto,always,services,never" help:"which of the agent's processes go on while the tests run in its container: always keeps all, as Harbor does; services keeps those that listen and what belongs with them; never keeps none; auto is what the task says, else always, but never where the tests are given secrets. What was kept and what was ended is recorded"`
	RestoreTools          string         `yaml:"restore_tools" default:"core" choices:"core,all,none" help:"what is undone before the tests of what the agent changed in programs that tests rely on, which is always noted: core restores the shells, env and preloaded libraries, and runs the tests in a fresh container; all does so with every program of the kind; none runs the tests all the same"`
	StrictTampering       bool           `yaml:"strict_tampering" default:"false" help:"leave a rollout unscored (class tampering) as soon as the agent changed a program that tests rely on, also where that had no effect"`
	DetectSetupFailures   bool           `yaml:"detect_setup_failures" default:"true" help:"tests that could not install their own tools (no network, no package) are trouble with the infrastructure instead of a 0"`
	ExitCodeFallback      bool           `yaml:"exit_code_fallback" default:"false" help:"without a reward file the exit code of the tests decides, as in the original: mind that most tests end with 0 whatever happened"`
	KeepSandboxDiff       bool           `yaml:"keep_sandbox_diff" default:"false" affects:"no" help:"keep what each rollout changed in its container, for the command rescore"`
	MaxDiffMB             int64          `yaml:"max_sandbox_diff_mb" default:"512" min:"1" unit:"MiB" affects:"no" help:"largest of these that is kept, before compression"`
	MaxArtifactsMB        int64          `yaml:"max_artifacts_mb" default:"64" min:"0" unit:"MiB" affects:"no" help:"most that is kept of each rollout of the paths that its task wants kept (artifacts); 0 keeps nothing"`
	EvalConcurrency       int            `yaml:"eval_concurrency" default:"0" min:"0" unit:"rollouts" affects:"no" help:"the same as max_concurrent_tasks, which wins; 0 leaves it to that"`
	MaxConcurrentTasks    int            `yaml:"max_concurrent_tasks" default:"0" min:"0" unit:"rollouts" affects:"no" help:"rollouts in flight, under its original name; 0 leaves it to max_eval_workers"`
}

// verifiesAfterTimeout says whether tests run when the agent's time was up.
func (c *Config) verifiesAfterTimeout() bool {
	if c.VerifierAfterTimeout != nil {
		return *c.VerifierAfterTimeout
	}
	return c.TimeoutMode == timeoutTask
}

// ValidateConfig checks what the tags can't say.
func (c *Config) ValidateConfig(all *config.Config) []error {
	var errs []error
	reject := func(field, format string, args ...any) {
		errs = append(errs, &config.FieldError{Field: field, Message: fmt.Sprintf(format, args...)})
	}
	if all.Env.TerminalBackend != "docker" {
		reject("terminal_backend", "tasks are container images, which the backend %s can't run: set it to docker (the environment terminal-test needs no container)", all.Env.TerminalBackend)
	}
	if _, err := sandbox.ParseCapabilities(all.Env.SandboxCapabilities); err != nil {
		reject("sandbox_capabilities", "%v", err)
	}
	if c.DatasetName == "" && c.Tasks == "" {
		reject("tasks", "missing; write the folder with the tasks, or a dataset with dataset_name")
	}
	if c.VerifyIn == verifyAuto {
		c.VerifyIn = verifySame
		if all.Mode == config.Process || all.Mode == config.Serve {
			c.VerifyIn = verifyClean
		}
	}
	if c.Tasks != "" && c.DatasetRevision != "" {
		reject("dataset_revision", "can't be combined with tasks: check out what you want of the folder %s", c.Tasks)
	}
	for field, words := range map[string]config.Words{"task_filter": c.TaskFilter, "skip_tasks": c.SkipTasks, "categories": c.Categories, "difficulties": c.Difficulties} {
		for _, w := range words {
			if _, err := path.Match(w, ""); err != nil {
				reject(field, "%q is no pattern: %v", w, err)
			}
		}
	}
	if n := cmp.Or(c.MaxConcurrentTasks, c.EvalConcurrency); n > 0 {
		all.Env.MaxEvalWorkers = n
	}
	return errs
}

// RewriteSetting brings the words that on_tampering had before restore_tools up to date.
func (c *Config) RewriteSetting(s config.Setting) []config.Setting {
	if s.Name != "on_tampering" {
		return nil
	}
	switch s.Value {
	case "core":
		return []config.Setting{{Name: "restore_tools", Value: tamperingCore}}
	case "note":
		return []config.Setting{{Name: "restore_tools", Value: tamperingNote}}
	case "fresh-tools":
		return []config.Setting{{Name: "restore_tools", Value: tamperingRestore}}
	case tamperingFail:
		return []config.Setting{{Name: "on_tampering", Value: config.TamperingUnscored}, {Name: "strict_tampering", Value: "true"}}
	}
	return nil
}

// deviations lists what makes results incomparable with those of the published
// protocol: each task's own limits and resources, all tasks, tests in the agent's container.
func (c *Config) deviations(common config.Env, defaults Config) []string {
	var list []string
	add := func(deviates bool, format string, args ...any) {
		if deviates {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	add(c.Tasks != "" || c.DatasetName != defaults.DatasetName, "the tasks are not those of %s", defaults.DatasetName)
	add(len(c.TaskFilter)+len(c.SkipTasks)+len(c.Categories)+len(c.Difficulties) > 0, "not all tasks are run (task_filter, skip_tasks, categories, difficulties)")
	add(common.MaxItems+common.SampleItems > 0, "not all tasks are run (max_items, sample_items)")
	add(common.SkipUnsound, "tasks that validate found unsound are left out (skip_unsound)")
	add(c.TimeoutMode == timeoutFixed, "timeout_mode fixed: %s for agent and tests, %s for the tests, instead of each task's own limits", seconds(c.TaskTimeout.Duration()), seconds(c.TestTimeout.Duration()))
	add(c.AgentTimeoutFactor != 1, "agent_timeout_multiplier %g", c.AgentTimeoutFactor)
	add(c.VerifierTimeoutFactor != 1, "verifier_timeout_multiplier %g", c.VerifierTimeoutFactor)
	add(common.RolloutTimeout > 0, "rollout_timeout %s beside each task's own limit", seconds(common.RolloutTimeout.Duration()))
	add(common.RolloutTokenLimit > 0, "rollout_token_limit %d", common.RolloutTokenLimit)
	add(!c.verifiesAfterTimeout(), "no tests after an agent's timeout (verifier_after_timeout)")
	add(c.CPUs > 0, "cpus %g for every task", c.CPUs)
	add(c.MemoryMB > 0, "memory_mb %d for every task", c.MemoryMB)
	add(c.StorageMB > 0, "storage_mb %d for every task", c.StorageMB)
	add(c.Network != "task", "network %s for every task", c.Network)
	capabilities, err := sandbox.ParseCapabilities(common.SandboxCapabilities)
	add(err != nil || !capabilities.IsEngine(), "capabilities %s instead of the engine's own (sandbox_capabilities)", capabilities)
	add(common.NoNewPrivileges, "set-user-id programs such as sudo have no effect (no_new_privileges)")
	add(c.ForceBuild, "images built here instead of the published ones (force_build)")
	add(c.VerifyIn == verifyFresh, "tests in a fresh container, without the agent's processes (verify_in fresh)")
	add(c.VerifyIn == verifyClean, "tests in a clean container with nothing but the agent's work: no processes, installed packages or system files of the agent's (verify_in clean)")
	add(c.VerifyIn == verifySame && (c.KeepProcesses == keepNone || c.KeepProcesses == keepServices), "not all of the agent's processes go on while the tests run (keep_processes %s)", c.KeepProcesses)
	add(c.RestoreTools == tamperingRestore, "restore_tools %s", c.RestoreTools)
	add(c.StrictTampering, "changed programs leave rollouts unscored (strict_tampering)")
	add(common.OnTampering != "" && common.OnTampering != config.TamperingKeep, "on_tampering %s", common.OnTampering)
	add(c.ExitCodeFallback, "the exit code counts where there is no reward (exit_code_fallback)")
	return list
}

// Definitions describes the environments to the command line.
func Definitions() []env.Definition {
	return []env.Definition{
		define(NameTB2, "Terminal-Bench 2: tasks in containers, scored by their own tests", Config{DatasetName: "NousResearch/terminal-bench-2", TaskTimeout: 1800},
			"tb2", "terminalbench_2", "terminalbench2", "terminal_bench_2", "terminal-bench", "terminalbench2_env"),
		define(NameTBLite, "OpenThoughts-TBLite: a hundred lighter tasks of the same kind, by difficulty", Config{DatasetName: "NousResearch/openthoughts-tblite", TaskTimeout: 1200},
			"tblite", "tb-lite", "openthoughts_tblite", "tblite_env"),
		define(NameTasks, "any tasks in Harbor's format, from a folder, a git checkout or a dataset", Config{TaskTimeout: 1800}),
	}
}

func define(name, description string, defaults Config, aliases ...string) env.Definition {
	d := env.Define(name, description,
		func(common *config.Env, own *Config) {
			common.EnabledToolsets = []string{"terminal", "file"}
			common.MaxAgentTurns = 60
			common.MaxTokenLength = 16000
			common.AgentTemperature = 0.6
			common.TerminalBackend = "docker"
			// As Harbor's containers: what the engine gives, and sudo works.
			common.SandboxCapabilities, common.NoNewPrivileges = config.Words{string(sandbox.CapabilitiesEngine)}, false
			common.TerminalTimeout = 300
			common.GroupSize = 1
			common.MaxEvalWorkers = 8
			own.DatasetName, own.TaskTimeout = defaults.DatasetName, defaults.TaskTimeout
		},
		func(common config.Env, own Config) (env.Environment, error) {
			return &Environment{name: name, common: common, own: own, published: defaults}, nil
		})
	d.Aliases = aliases
	return d
}

// scaled multiplies a limit.
func scaled(d time.Duration, factor float64) time.Duration {
	return time.Duration(float64(d) * factor)
}
