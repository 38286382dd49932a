package config

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/internal/textutil"
)

func TestValuesAreReadInEveryNotationPeopleUse(t *testing.T) {
	tests := []struct {
		name, yaml string
		flags      []string
		want       func(*testing.T, *Resolved, *demoConfig)
	}{
		{"booleans of the command line", "", []string{"env.grace_turn=True", "env.parallel_tool_calls=1"}, func(t *testing.T, r *Resolved, _ *demoConfig) {
			require.True(t, r.Env.GraceTurn)
			require.True(t, r.Env.ParallelToolCalls)
		}},
		{"booleans of YAML 1.1", "{grace_turn: yes, parallel_tool_calls: On, ensure_scores_are_not_same: no}", nil, func(t *testing.T, r *Resolved, _ *demoConfig) {
			require.True(t, r.Env.GraceTurn)
			require.True(t, r.Env.ParallelToolCalls)
			require.False(t, r.Env.EnsureScoresAreNotSame)
		}},
		{"integers with a fraction of zero, underscores and signs", "{group_size: 60.0, max_token_length: 32_000, seed: -5}", nil, func(t *testing.T, r *Resolved, _ *demoConfig) {
			require.Equal(t, 60, r.Env.GroupSize)
			require.Equal(t, 32000, r.Env.MaxTokenLength)
			require.Equal(t, int64(-5), r.Env.Seed)
		}},
		{"negative numbers on the command line", "", []string{"env.max_num_workers=-1", "env.seed=-9223372036854775808"}, func(t *testing.T, r *Resolved, _ *demoConfig) {
			require.Equal(t, -1, r.Env.MaxNumWorkers)
			require.Equal(t, int64(-1<<63), r.Env.Seed)
		}},
		{"seconds with a fraction", "{terminal_timeout: 1.5, rollout_timeout: 1800}", nil, func(t *testing.T, r *Resolved, _ *demoConfig) {
			require.Equal(t, 1500*time.Millisecond, r.Env.TerminalTimeout.Duration())
			require.Equal(t, 30*time.Minute, r.Env.RolloutTimeout.Duration())
		}},
		{"null resets what a lower source set", "{extra_body: null, enabled_toolsets: ~, system_prompt: }", []string{"env.seeds=None"}, func(t *testing.T, r *Resolved, own *demoConfig) {
			require.Nil(t, r.Env.ExtraBody)
			require.Nil(t, r.Env.EnabledToolsets)
			require.Empty(t, r.Env.SystemPrompt)
			require.Nil(t, own.Seeds)
		}},
		{"None and an empty text are null for text that may be", "{system_prompt: hello, distribution: x}", []string{"env.system_prompt=None", "env.distribution="}, func(t *testing.T, r *Resolved, _ *demoConfig) {
			require.Empty(t, r.Env.SystemPrompt)
			require.Empty(t, r.Env.Distribution)
		}},
		{"an empty list is not null", "{enabled_toolsets: []}", nil, func(t *testing.T, r *Resolved, _ *demoConfig) {
			require.NotNil(t, r.Env.EnabledToolsets)
			require.Empty(t, r.Env.EnabledToolsets)
		}},
		{"lists on the command line are JSON or YAML and replace", "{seeds: [7, 8]}", []string{`env.seeds=[1]`, `env.skip_tasks=["a b", "c"]`, `env.enabled_toolsets=[terminal, file]`}, func(t *testing.T, r *Resolved, own *demoConfig) {
			require.Equal(t, []int{1}, own.Seeds)
			require.Equal(t, []string{"a b", "c"}, own.SkipTasks)
			require.Equal(t, []string{"terminal", "file"}, r.Env.EnabledToolsets)
		}},
		{"text on the command line is taken as it is", "", []string{"env.system_prompt= 012: [x] # y\nz ", "env.task_filter=true"}, func(t *testing.T, r *Resolved, own *demoConfig) {
			require.Equal(t, " 012: [x] # y\nz ", r.Env.SystemPrompt)
			require.Equal(t, "true", own.TaskFilter)
		}},
		{"the last flag of a name wins", "", []string{"env.group_size=2", "env.group_size=3"}, func(t *testing.T, r *Resolved, _ *demoConfig) {
			require.Equal(t, 3, r.Env.GroupSize)
		}},
		{"a map merges key by key", "{tool_result_overrides: {terminal: 15000, search_files: 6000}}", []string{"env.tool_result_overrides={terminal: 9}"}, func(t *testing.T, r *Resolved, _ *demoConfig) {
			require.Equal(t, map[string]int{"terminal": 9, "search_files": 6000}, r.Env.ToolResultOverrides)
		}},
		{"pointers tell null from a number", "{limit: 3}", nil, func(t *testing.T, _ *Resolved, own *demoConfig) {
			require.Equal(t, 3, *own.Limit)
		}},
		{"fields of a nested object are flags as well", "{judge: {model: a}}", []string{"env.judge.votes=7"}, func(t *testing.T, _ *Resolved, own *demoConfig) {
			require.Equal(t, "a", own.Judge.Model)
			require.Equal(t, 7, own.Judge.Votes)
		}},
		{"objects in a list get their defaults", "{players: [{name: a}, {skill: 0}]}", nil, func(t *testing.T, _ *Resolved, own *demoConfig) {
			require.Equal(t, []player{{"a", 5}, {"", 0}}, own.Players)
		}},
		{"JSON keeps its keys' order and its digits", `{extra_body: {z: 1e300, a: 0.10, m: {y: 0x10, b: [1_0, .5, null, "<&>", "\u00e9", 2020-01-01]}, provider: 3}}`, nil, func(t *testing.T, r *Resolved, _ *demoConfig) {
			require.Equal(t, `{"provider":3,"top_k":20,"z":1e300,"a":0.10,"m":{"y":16,"b":[10,0.5,null,"<&>","é","2020-01-01"]}}`, string(r.Env.ExtraBody))
		}},
		{"anchors, aliases and merge keys", "\n  extra_body: {a: &x {p: 1, q: 2}, b: *x, c: {<<: *x, q: 3}, d: {<<: [*x, {r: 4}]}, provider: null}", nil, func(t *testing.T, r *Resolved, _ *demoConfig) {
			require.JSONEq(t, `{"provider":null,"top_k":20,"a":{"p":1,"q":2},"b":{"p":1,"q":2},"c":{"q":3,"p":1},"d":{"p":1,"q":2,"r":4}}`, string(r.Env.ExtraBody))
		}},
		{"a field of the original framework that the environment has", "{dataset_name: org/other}", nil, func(t *testing.T, _ *Resolved, own *demoConfig) {
			require.Equal(t, "org/other", own.DatasetName)
		}},
		{"a list of text from a timestamp", "{skip_tasks: [2020-01-01]}", nil, func(t *testing.T, _ *Resolved, own *demoConfig) {
			require.Equal(t, []string{"2020-01-01"}, own.SkipTasks)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.yaml == "" {
				tt.yaml = "null"
			}
			r, err := loadText(t, options(), "environment: demo\n"+server+"env: "+tt.yaml+"\n", tt.flags...)
			require.NoError(t, err)
			tt.want(t, r, r.Own.(*demoConfig))
		})
	}
}

func TestProcessChangesTwoDefaults(t *testing.T) {
	o := options()
	o.Mode = Process
	r, err := loadText(t, o, "environment: demo\n"+server)
	require.NoError(t, err)
	require.False(t, r.Env.EnsureScoresAreNotSame)
	require.True(t, r.Env.IncludeMessages)
	require.Equal(t, "default of process", r.Origin("env.include_messages").String())

	_, err = loadText(t, o, "environment: demo\n"+server+"env: {ensure_scores_are_not_same: true, group_size: 1}\n")
	require.EqualError(t, err, "x.yaml:3:35: env.ensure_scores_are_not_same: with group_size 1 (x.yaml:3) every group would be left out; set it to false, or group_size to 2 or more")
}

func TestAFlagOfTheOtherCommandIsWarnedAbout(t *testing.T) {
	r, err := loadText(t, options(), "environment: demo\n"+server, "env.total_steps=5", "env.attempts=2")
	require.NoError(t, err)
	require.Equal(t, []string{"flag --env.total_steps: acts only in process"}, r.Warnings)
}

func TestGroupsInFlightFollowTheServersUnlessSet(t *testing.T) {
	c := Config{Env: Env{MaxNumWorkers: -1, MaxNumWorkersPerNode: 8}}
	require.Equal(t, 8, c.GroupsInFlight())
	c.Servers = make([]Server, 3)
	require.Equal(t, 24, c.GroupsInFlight())
	c.Env.MaxNumWorkers = 5
	require.Equal(t, 5, c.GroupsInFlight())
}

func TestASingleEnvironmentNeedsNoName(t *testing.T) {
	o := options()
	o.Environments = []Environment{demo()}
	r, err := loadText(t, o, server)
	require.NoError(t, err)
	require.Equal(t, "demo", r.Environment)

	_, err = loadText(t, o, "environment: other\n"+server)
	require.EqualError(t, err, `x.yaml:1:14: environment: no environment named "other"; there are demo`)
}

func TestFlagsAloneAreEnough(t *testing.T) {
	o := options()
	o.Flags = flagsOf("environment=terminal-test", "openai.base_url=http://h:1", "openai.model_name=m")
	r, err := Load(o)
	require.NoError(t, err)
	require.Equal(t, "http://h:1", r.Servers[0].BaseURL)
	require.Nil(t, r.Own)

	o.Flags = flagsOf("environment=terminal-test", "agent=oracle")
	r, err = Load(o)
	require.NoError(t, err)
	require.Empty(t, r.Servers)
	require.Equal(t, AgentOracle, r.Agent)
}

func TestFieldsOfTheOriginalFramework(t *testing.T) {
	t.Run("pass silently when they ask for nothing", func(t *testing.T) {
		r, err := loadText(t, options(), "environment: terminal-test\nslurm: false\ntesting: false\n"+
			"env: {use_wandb: false, wandb_name: null, thinking_mode: False, batch_size: -1, worker_timeout: -1, eval_handling: NONE, dataset_name: null}\n"+
			"openai: {base_url: 'http://h', model_name: m, n_kwarg_is_ignored: true, tokenizer_name: none}\n", "env.use_wandb=false", "slurm=false")
		require.NoError(t, err)
		require.Empty(t, r.Warnings)
	})
	t.Run("are warned about when the user allows them", func(t *testing.T) {
		o := options()
		o.AllowUnsupported = true
		r, err := loadText(t, o, "environment: terminal-test\nenv:\n  teacher_enabled: true\n  dataset_name: x\n"+server, "testing=1")
		require.NoError(t, err)
		require.Len(t, r.Warnings, 3)
		joined := strings.Join(r.Warnings, "\n")
		require.Contains(t, joined, "x.yaml:3:3: env.teacher_enabled: has no effect here (there is no teacher distillation; an environment may add a teacher's tokens to its groups itself)")
		require.Contains(t, joined, "x.yaml:4:3: env.dataset_name: has no effect here (this environment has a dataset of its own; the environment prompts takes any by name)")
		require.Contains(t, joined, "flag --testing: has no effect here")
	})
	t.Run("are none of the fields there are", func(t *testing.T) {
		fields, err := Fields(nil)
		require.NoError(t, err)
		servers, err := ServerFields()
		require.NoError(t, err)
		for _, u := range Unsupported() {
			require.NotEmpty(t, u.Why)
			for _, f := range append(fields, servers...) {
				require.False(t, f.Section == u.Section && f.Name == u.Name, "%s.%s", u.Section, u.Name)
			}
		}
	})
}

func TestServersOfAnEnvironment(t *testing.T) {
	with := func(servers ...Server) Options {
		o := options()
		o.Environments = []Environment{{Name: "e", Defaults: func(c *Config) { c.Servers = servers }}}
		return o
	}
	a, b := NewServer(), NewServer()
	a.BaseURL, a.ModelName = "http://a", "ma"
	b.BaseURL, b.ModelName = "http://b", "mb"

	t.Run("a single one merges with the file and flags", func(t *testing.T) {
		r, err := loadText(t, with(a), "openai: {weight: 2}\n", "openai.model_name=x")
		require.NoError(t, err)
		require.Equal(t, "http://a", r.Servers[0].BaseURL)
		require.Equal(t, "x", r.Servers[0].ModelName)
		require.Equal(t, 2.0, r.Servers[0].Weight)
		require.Equal(t, "environment e", r.Origin("openai.base_url").String())
	})
	t.Run("a list in the file replaces them", func(t *testing.T) {
		r, err := loadText(t, with(a), "openai: [{base_url: 'http://c', model_name: c}, {base_url: 'http://d', model_name: d}]\n")
		require.NoError(t, err)
		require.Len(t, r.Servers, 2)
		require.Equal(t, 1.0, r.Servers[1].Weight)
		require.Equal(t, 1, r.Origin("openai[1].model_name").Line)
	})
	t.Run("several stay when nothing else is said", func(t *testing.T) {
		r, err := loadText(t, with(a, b), "env: {}\n")
		require.NoError(t, err)
		require.Len(t, r.Servers, 2)
		_, err = loadText(t, with(a, b), "env: {}\n", "openai.model_name=x")
		require.EqualError(t, err, "flag --openai.model_name: environment e brings 2 servers; write an openai section with the server you mean into a config file")
	})
	t.Run("a faulty one is the environment's fault", func(t *testing.T) {
		bad := a
		bad.Weight = -1
		_, err := loadText(t, with(bad), "env: {}\n")
		require.EqualError(t, err, "environment e: openai.weight: want at least 0.001, got -1")
	})
}

func TestFaultyEnvironmentsAreReported(t *testing.T) {
	type two struct {
		GroupSize int `yaml:"group_size"`
	}
	type untagged struct{ X int }
	type odd struct {
		C complex64 `yaml:"c"`
	}
	type badDefault struct {
		N int `yaml:"n" default:"x"`
	}
	tests := []struct {
		name string
		own  any
		want string
	}{
		{"a field that exists", &two{}, `environment e: own config declares "group_size", which every environment has already`},
		{"no tag", &untagged{}, `environment e: config struct config.untagged: field X has no yaml tag`},
		{"an odd type", &odd{}, `type complex64 can't be a config field`},
		{"a default of the wrong type", &badDefault{}, `default of config field n: want an integer, got "x"`},
		{"no pointer", two{}, `own config must be a pointer to a struct, got config.two`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := options()
			o.Environments = []Environment{{Name: "e", Own: func() any { return tt.own }}}
			o.Flags = flagsOf("agent=nop")
			_, err := Load(o)
			require.ErrorContains(t, err, tt.want)
			_, err = Fields(tt.own)
			require.Error(t, err)
		})
	}
	o := options()
	o.Environments = []Environment{{Name: "e", Defaults: func(c *Config) { c.Env.GroupSize = -1; c.Env.ExtraBody = []byte(`{`) }}}
	o.Flags = flagsOf("agent=nop")
	_, err := Load(o)
	require.EqualError(t, err, "environment e: env.group_size: want at least 1, got -1\nenvironment e: env.extra_body: not valid JSON")
}

type ruled struct {
	Low  int `yaml:"low" default:"1" help:"lower end"`
	High int `yaml:"high" default:"2" help:"upper end"`
}

func (r *ruled) ValidateConfig(c *Config) []error {
	if r.Low > r.High {
		return []error{&FieldError{Field: "low", Message: "more than high"}}
	}
	return nil
}

func TestAnEnvironmentChecksItsOwnRules(t *testing.T) {
	o := options()
	o.Environments = []Environment{{Name: "e", Own: func() any { return &ruled{} }}}
	_, err := loadText(t, o, server+"env:\n  low: 5\n")
	require.EqualError(t, err, "x.yaml:3:8: env.low: more than high")
	_, err = loadText(t, o, server+"env:\n  low: 5\n  high: 6\n")
	require.NoError(t, err)
}

func TestFieldsDescribeThemselves(t *testing.T) {
	e := demo()
	fields, err := e.Fields()
	require.NoError(t, err)
	byName := map[string]Field{}
	for _, f := range fields {
		byName[f.Name] = f
		require.NotEmpty(t, f.Help, f.Name)
		require.True(t, json.Valid([]byte(f.Default)), f.Name)
	}
	require.Equal(t, Field{Section: "env", Name: "max_agent_turns", Type: "integer", Default: "60", Unit: "model calls",
		Help: "model calls a rollout may make", Affects: true}, byName["max_agent_turns"])
	require.Equal(t, "env.max_agent_turns", byName["max_agent_turns"].Flag())
	require.Equal(t, Field{Section: "env", Name: "judge.votes", Type: "integer", Default: "5", Help: "votes per answer", Own: true, Affects: true}, byName["judge.votes"])
	require.Equal(t, "list of integers", byName["seeds"].Type)
	require.Equal(t, "list of text", byName["enabled_toolsets"].Type)
	require.Equal(t, "object of integers", byName["tool_result_overrides"].Type)
	require.Equal(t, []string{"easy", "medium", "hard"}, byName["difficulty"].Choices)
	require.True(t, byName["judge.key"].Secret)
	require.Equal(t, "seconds", byName["terminal_timeout"].Unit)

	plain, err := Fields(nil)
	require.NoError(t, err)
	servers, err := ServerFields()
	require.NoError(t, err)
	for _, f := range append(append(plain, servers...), TopFields()...) {
		require.NotEmpty(t, f.Help, f.Name)
		require.False(t, f.Own)
	}
}

func TestTheServerTagsAreSound(t *testing.T) {
	specs, err := structSpecs(serverType, "")
	require.NoError(t, err)
	var s Server
	require.NoError(t, applyDefaults(bindStruct(valueOf(&s), specs)))
	require.Equal(t, s, NewServer())
	require.Equal(t, 1200*time.Second, s.Timeout.Duration())
	require.True(t, s.HealthCheck)
}

func TestTheNearestNameIsOneSomebodyMeant(t *testing.T) {
	names := []string{"group_size", "max_agent_turns", "seed", "model_name"}
	for in, want := range map[string]string{"grop_size": "group_size", "gruop_size": "group_size", "group-size": "group_size", "SEED": "seed",
		"seeds": "seed", "max_turns": "", "x": "", "model": "model_name", "": "", strings.Repeat("a", 1000): ""} {
		require.Equal(t, want, textutil.Nearest(in, names), in)
	}
}
