package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProblemsNameTheirPlaceAndSayWhatToDo(t *testing.T) {
	const demoEnv = "environment: demo\n" + server
	tests := []struct {
		name  string
		yaml  string
		flags []string
		want  []string
	}{
		{"a misspelt key gets the nearest one", demoEnv + "env:\n  group_size: 4\n  max_agent_turn: 3\n", nil,
			[]string{`x.yaml:5:3: env.max_agent_turn: unknown key; did you mean "max_agent_turns"?`}},
		{"a misspelt own key gets the nearest one", demoEnv + "env:\n  skiptasks: []\n", nil,
			[]string{`x.yaml:4:3: env.skiptasks: unknown key; did you mean "skip_tasks"?`}},
		{"an own key of another environment is unknown", "environment: terminal-test\n" + server + "env:\n  skip_tasks: []\n", nil,
			[]string{`x.yaml:4:3: env.skip_tasks: unknown key; no key of env has a similar name`}},
		{"a key of a nested object is checked", demoEnv + "env: {judge: {modle: x}}\n", nil,
			[]string{`x.yaml:3:15: env.judge.modle: unknown key; did you mean "model"?`}},
		{"a key of an object in a list is checked", demoEnv + "env:\n  players:\n  - {name: a}\n  - {nom: b}\n", nil,
			[]string{`x.yaml:6:6: env.players[1].nom: unknown key; the keys here are name, skill`}},
		{"an unlike key in a small object gets the list of keys", demoEnv + "env: {judge: {zzz: x}}\n", nil,
			[]string{`x.yaml:3:15: env.judge.zzz: unknown key; the keys here are model, key, votes`}},
		{"a key at the top that belongs in a section", demoEnv + "group_size: 4\n", nil,
			[]string{`x.yaml:3:1: group_size: unknown key; it belongs in the section "env:"`}},
		{"a server key in the env section", demoEnv + "env:\n  model_name: x\n", nil,
			[]string{`x.yaml:4:3: env.model_name: unknown key; it belongs in the section "openai:"`}},
		{"an unknown key at the top", demoEnv + "environmemt: demo\n", nil,
			[]string{`x.yaml:3:1: environmemt: unknown key; did you mean "environment"?`}},
		{"an unknown flag gets the nearest one", demoEnv, []string{"env.group_siz=4", "group_size=4", "openai.model=x", "zzzzzzzz=1"},
			[]string{`flag --group_size: unknown flag; did you mean --env.group_size?`,
				`flag --zzzzzzzz: unknown flag`,
				`flag --env.group_siz: unknown flag; did you mean --env.group_size?`,
				`flag --openai.model: unknown flag; did you mean --openai.model_name?`}},
		{"a flag below a value", demoEnv, []string{"env.extra_body.top_k=4", "env.judge.zzz=1"},
			[]string{`flag --env.extra_body.top_k: env.extra_body is given as a whole: --env.extra_body '{"name": "value"}'`,
				`flag --env.judge.zzz: unknown flag`}},

		{"wrong types in the file", demoEnv + `env:
  group_size: four
  attempts: "4"
  total_steps: 1.5
  max_agent_turns: [1]
  max_token_length: {a: 1}
  seed: null
  max_eval_workers: 012
  tool_pool_size: true
  agent_temperature: warm
  rollout_timeout: "5"
  grace_turn: maybe
  system_prompt: 5
  distribution: [a]
  enabled_toolsets: terminal
  disabled_toolsets: [a, 5]
  tool_result_overrides: [1]
  extra_body: text
  judge: 3
`, nil,
			[]string{
				`x.yaml:4:15: env.group_size: want an integer, got "four"`,
				`x.yaml:5:13: env.attempts: want an integer, got the text "4"; remove the quotes`,
				`x.yaml:6:16: env.total_steps: want an integer, got 1.5`,
				`x.yaml:7:20: env.max_agent_turns: want an integer, got a list`,
				`x.yaml:8:21: env.max_token_length: want an integer, got an object`,
				`x.yaml:9:9: env.seed: want an integer, got null`,
				`x.yaml:10:21: env.max_eval_workers: want an integer, got 012; leave out the leading zero`,
				`x.yaml:11:19: env.tool_pool_size: want an integer, got true`,
				`x.yaml:12:22: env.agent_temperature: want a number, got "warm"`,
				`x.yaml:13:20: env.rollout_timeout: want a number, got the text "5"; remove the quotes`,
				`x.yaml:14:15: env.grace_turn: want true or false, got "maybe"`,
				`x.yaml:15:18: env.system_prompt: want text, got 5; put it in quotes if that is meant`,
				`x.yaml:16:17: env.distribution: want text, got a list`,
				`x.yaml:17:21: env.enabled_toolsets: want a list of text such as ["name"], got "terminal"`,
				`x.yaml:18:26: env.disabled_toolsets[1]: want text, got 5; put it in quotes if that is meant`,
				`x.yaml:19:26: env.tool_result_overrides: want an object of integers such as {"name": 1}, got a list`,
				`x.yaml:20:15: env.extra_body: want an object such as {"name": "value"}, got "text"`,
				`x.yaml:21:10: env.judge: want an object, got 3`,
			}},
		{"wrong types in flags", demoEnv, []string{"env.group_size=four", "env.attempts=", "env.seed=9223372036854775808", "env.agent_temperature=inf",
			"env.grace_turn=2", "env.enabled_toolsets=terminal", "env.extra_body=[1]", "env.extra_body={a: ", "env.tool_result_overrides={terminal: x}", "env.seeds=[1, b]", "env.max_agent_turns=null"},
			[]string{
				`flag --env.group_size: want an integer, got "four"`,
				`flag --env.attempts: want an integer, got nothing`,
				`flag --env.seed: want an integer, got 9223372036854775808`,
				`flag --env.agent_temperature: want a number, got "inf"`,
				`flag --env.grace_turn: want true or false, got 2`,
				`flag --env.enabled_toolsets: want a list of text such as ["name"], got "terminal"`,
				`flag --env.extra_body: want an object such as {"name": "value"}, got a list`,
				`flag --env.extra_body: want an object such as {"name": "value"}: not valid YAML: did not find expected node content`,
				`flag --env.tool_result_overrides: env.tool_result_overrides.terminal: want an integer, got "x"`,
				`flag --env.seeds: env.seeds[1]: want an integer, got "b"`,
				`flag --env.max_agent_turns: want an integer, got null`,
			}},
		{"values out of range", demoEnv + `env:
  group_size: 0
  max_num_workers: 0
  max_num_workers_per_node: -3
  agent_temperature: -0.1
  terminal_timeout: 0
  rollout_timeout: 2e9
  max_unscored: 10
  judge: {votes: 10}
  seeds: [1, -1]
  difficulty: medum
  tool_result_overrides: {terminal: 0}
  agent_temperature_: 1
`, []string{"env.retries=-1"},
			[]string{
				`x.yaml:4:15: env.group_size: want at least 1, got 0`,
				`x.yaml:5:20: env.max_num_workers: 0 is not allowed`,
				`x.yaml:6:29: env.max_num_workers_per_node: want at least 1, got -3`,
				`x.yaml:7:22: env.agent_temperature: want at least 0, got -0.1`,
				`x.yaml:8:21: env.terminal_timeout: want at least 0.001 seconds, got 0`,
				`x.yaml:9:20: env.rollout_timeout: want at most 1000000000 seconds, got 2000000000`,
				`x.yaml:10:17: env.max_unscored: want 0 to 1, got 10`,
				`x.yaml:11:18: env.judge.votes: want 1 to 9, got 10`,
				`x.yaml:12:14: env.seeds[1]: want at least 0, got -1`,
				`x.yaml:13:15: env.difficulty: want one of easy, medium, hard, got "medum"; did you mean "medium"?`,
				`x.yaml:14:37: env.tool_result_overrides.terminal: want at least 1, got 0`,
				`x.yaml:15:3: env.agent_temperature_: unknown key; did you mean "agent_temperature"?`,
				`flag --env.retries: want at least 0, got -1`,
			}},
		{"impossible combinations", demoEnv + `env:
  enabled_toolsets: [terminal, terminal, ""]
  distribution: all
  preview_size_chars: 2000
  default_result_size_chars: 1000
  tool_result_overrides: {read_file: 5}
  extra_body: {stream: true, messages: []}
  terminal_backend: docker
  tool_call_parser: hermess
`, nil,
			[]string{
				`x.yaml:4:21: env.enabled_toolsets: "terminal" is listed twice`,
				`x.yaml:5:17: env.distribution: can't be combined with env.enabled_toolsets (x.yaml:4); set one of the two to null`,
				`x.yaml:6:23: env.preview_size_chars: 2000 is more than default_result_size_chars 1000 (x.yaml:7), so a preview would be longer than what it replaces`,
				`x.yaml:8:26: env.tool_result_overrides: read_file can't be named: its results are never replaced, because reading the file again would only be replaced again`,
				`x.yaml:9:15: env.extra_body: stream belongs to the harness and can't be set here`,
				`x.yaml:10:21: env.terminal_backend: "docker" is not available in this build; there is local`,
				`x.yaml:11:21: env.tool_call_parser: no such parser "hermess"; did you mean "hermes"? (the command parsers lists them)`,
			}},
		{"a parser of another server that can't be had", demoEnv + "env:\n  tool_call_parser: hf\n", nil,
			[]string{`x.yaml:4:21: env.tool_call_parser: there is no parser "hf": it reads a template`}},
		{"values that are text to some and booleans to others", demoEnv + "env:\n  extra_body: {a: yes, b: 'yes', c: .inf, d: 010}\n", nil,
			[]string{
				`x.yaml:4:19: env.extra_body: yes is text to some YAML readers and a boolean to others; write true or false, or put it in quotes`,
				`x.yaml:4:37: env.extra_body: .inf is not a number JSON can hold; write plain decimal digits or put it in quotes`,
				`x.yaml:4:46: env.extra_body: 010 is not a number JSON can hold; write plain decimal digits or put it in quotes`,
			}},
		{"an unknown environment doesn't bring a flood of unknown keys", "environment: dmo\n" + server + "env: {task_filter: x, group_size: x}\n", nil,
			[]string{`x.yaml:1:14: environment: no environment named "dmo"; did you mean "demo"?`,
				`x.yaml:3:35: env.group_size: want an integer, got "x"`}},
		{"an unknown environment unlike any", server, []string{"environment=zzzzzz"},
			[]string{`flag --environment: no environment named "zzzzzz"; there are demo, terminal-test`}},
		{"no environment", server, nil,
			[]string{`x.yaml: environment: none named; add "environment: NAME" to the file or pass --environment NAME (there are demo, terminal-test)`}},
		{"an environment that is no text", "environment: [a]\n" + server, nil,
			[]string{`x.yaml:1:14: environment: want text, got a list`}},
		{"an unknown agent", demoEnv + "agent: oracel\n", nil,
			[]string{`x.yaml:3:8: agent: want one of model, oracle, nop, got "oracel"; did you mean "oracle"?`}},
		{"no server", "environment: demo\n", nil,
			[]string{`openai: no model server; add an openai section with base_url and model_name to the config file, or pass --openai.base_url and --openai.model_name (or --agent oracle to run the reference solutions)`}},
		{"an empty list of servers", "environment: demo\nopenai: []\n", nil,
			[]string{`x.yaml:2:9: openai: the list of servers is empty`}},
		{"servers that are text", "environment: demo\nopenai: gpt\n", nil,
			[]string{`x.yaml:2:9: openai: want an object or a list of objects, got "gpt"`}},
		{"a server that is text", "environment: demo\nopenai: [gpt]\n", nil,
			[]string{`x.yaml:2:10: openai: want an object, got "gpt"`,
				`x.yaml:2:10: openai.model_name: missing; write the name the server knows the model by`,
				`openai.api_key: no key for api.openai.com: set OPENAI_API_KEY in the environment or in .env, or name another variable with api_key_env`}},
		{"flags with several servers", `environment: demo
openai:
- {base_url: "http://h1:9001", model_name: a}
- {base_url: "http://h2:9001", modelname: b}
`, []string{"openai.model_name=c"},
			[]string{
				`x.yaml:4:3: openai[1].model_name: missing; write the name the server knows the model by`,
				`x.yaml:4:32: openai[1].modelname: unknown key; did you mean "model_name"?`,
				`flag --openai.model_name: x.yaml lists 2 servers; change the one you mean in the file`,
			}},
		{"addresses that are none", `environment: demo
openai:
- {base_url: "localhost:9001", model_name: a}
- {base_url: "ftp://h", model_name: a}
- {base_url: "http://user:geheim@h/v1", model_name: a}
- {base_url: "http://h/v1?key=geheim", model_name: a}
- {base_url: "http://", model_name: a}
- {base_url: "", model_name: a}
- {base_url: "http://h/v1/chat/completions", model_name: a}
- {base_url: "http://h:geheim/v1", model_name: a}
- {base_url: "http://h/v1", model_name: " ", server_type: vllm, weight: 0}
`, nil,
			[]string{
				`x.yaml:3:14: openai[0].base_url: want an address with http:// or https:// (or the built-in replay), got "localhost:9001"`,
				`x.yaml:4:14: openai[1].base_url: want an address with http:// or https://, got "ftp://h"`,
				`x.yaml:5:14: openai[2].base_url: an address can't hold a user name or password; use api_key or api_key_env`,
				`x.yaml:6:14: openai[3].base_url: an address can't hold a ? or # part, because paths are added to its end`,
				`x.yaml:7:14: openai[4].base_url: no host name in "http://"`,
				`x.yaml:8:14: openai[5].base_url: empty; write an address such as http://127.0.0.1:8000/v1`,
				`x.yaml:9:14: openai[6].base_url: leave out /chat/completions; it is added to the address`,
				`x.yaml:10:14: openai[7].base_url: not a valid address`,
				`x.yaml:11:41: openai[8].model_name: missing; write the name the server knows the model by`,
				`x.yaml:11:59: openai[8].server_type: "vllm" is not available in this build; there is openai`,
				`x.yaml:11:73: openai[8].weight: want at least 0.001, got 0`,
			}},
		{"fields of the original framework that do nothing here", demoEnv + `slurm: true
env:
  dataset_split: d
  teacher_enabled: true
openai_: 1
max_n_completions: [1]
`, []string{"testing=true", "proxy_url=http://h"},
			[]string{
				`x.yaml:3:1: slurm: known from the original framework but not supported here yet (the harness doesn't read a Slurm allocation; list the servers under openai); remove it, or pass --allow-unsupported to run without it`,
				`x.yaml:5:3: env.dataset_split: known from the original framework but not supported here yet (this environment has a dataset of its own; the environment prompts takes any by name); remove it, or pass --allow-unsupported to run without it`,
				`x.yaml:6:3: env.teacher_enabled: known from the original framework but not supported here yet (there is no teacher distillation; an environment may add a teacher's tokens to its groups itself); remove it, or pass --allow-unsupported to run without it`,
				`x.yaml:7:1: openai_: unknown key; did you mean "openai"?`,
				`x.yaml:8:1: max_n_completions: known from the original framework but not supported here yet (one completion is asked for per request, so none asks for more than any limit); remove it, or pass --allow-unsupported to run without it`,
				`flag --testing: known from the original framework but not supported here yet (the mock server of the original is now an embedded model; set openai.base_url to replay:); remove it, or pass --allow-unsupported to run without it`,
				`flag --proxy_url: known from the original framework but not supported here yet (tokens are kept by the harness itself and need no proxy; name the model servers under openai); remove it, or pass --allow-unsupported to run without it`,
			}},
		{"reasoning that no server can be asked for", demoEnv + `env: {reasoning_effort: lots, max_reasoning_tokens: 5, custom_thinking_prompt: x}
`, nil,
			[]string{
				`x.yaml:3:25: env.reasoning_effort: want one of none, minimal, low, medium, high, xhigh, got "lots"`,
				`x.yaml:3:53: env.max_reasoning_tokens: want 1024 to 32000, got 5`,
			}},
		{"a thinking prompt without thinking", demoEnv + `env: {custom_thinking_prompt: x}
`, nil, []string{`x.yaml:3:31: env.custom_thinking_prompt: acts only with thinking_mode; set env.thinking_mode to true`}},
		{"a limit that OpenAI has not", `environment: demo
env: {max_reasoning_tokens: 2048}
openai: {base_url: "https://api.openai.com/v1", model_name: m, api_key: k}
`, nil, []string{`x.yaml:2:29: env.max_reasoning_tokens: api.openai.com has no such limit; use env.reasoning_effort`}},
		{"reasoning said twice", demoEnv + `env: {thinking_mode: true, extra_body: {reasoning: {enabled: true}}}
`, nil, []string{`x.yaml:3:40: env.extra_body: reasoning is set by env.thinking_mode already; write it in one of the two`}},

		{"an empty file", "", nil, []string{`x.yaml: the config file is empty`}},
		{"a file of comments", "# nothing\n", nil, []string{`x.yaml: the config file holds nothing but comments`}},
		{"a file with a list", "- a\n", nil, []string{`x.yaml:1:1: a config is an object with the keys environment, env, openai and agent, got a list`}},
		{"binary garbage", "environment: demo\n\x00\x01", nil, []string{`x.yaml:2:1: control character U+0000; is this a YAML file?`}},
		{"text that is not UTF-8", "environment: d\xe9mo\n", nil, []string{`x.yaml:1:15: byte 0xe9 is not UTF-8 text; is this a YAML file?`}},
		{"a tab as indentation", "env:\n\tgroup_size: 1\n", nil, []string{`x.yaml:2:1: a tab can't indent YAML; use spaces`}},
		{"a tab as further indentation", "a: 1\n\tb: 2\n", nil, []string{`x.yaml:2:1: a tab can't indent YAML; use spaces`}},
		{"an open bracket", "a: 1\nb: [1,2\nc: 3\n", nil, []string{`x.yaml:2:1: not valid YAML: did not find expected ',' or ']'; a bracket opened here is not closed`}},
		{"a colon in text", "a: 1\nb: c: d\n", nil, []string{`x.yaml:2:1: not valid YAML: mapping values are not allowed in this context; put text that holds a colon and a space in quotes, and check the indentation`}},
		{"a colon in text in the first line", "b: c: d\n", nil, []string{`x.yaml:1:1: not valid YAML: mapping values are not allowed in this context; put text that holds a colon and a space in quotes, and check the indentation`}},
		{"an open quote", "a: 1\nb: 'x\n", nil, []string{`x.yaml:2:1: not valid YAML: found unexpected end of stream`}},
		{"broken indentation", "a:\n  - x\n- y\n", nil, []string{`x.yaml:3:1: not valid YAML: did not find expected key; check the indentation from here on`}},
		{"an unknown anchor", "a: 1\nbb: [x, *q]\n", nil, []string{`x.yaml:2:9: not valid YAML: no anchor &q comes before the alias *q`}},
		{"a duplicate key", demoEnv + "env:\n  group_size: 1\n  group_size: 2\n", nil, []string{`x.yaml:5:3: key "group_size" is here a second time; the first is in line 4`}},
		{"a duplicate key deep inside", demoEnv + "env: {extra_body: {a: {b: 1, b: 2}}}\n", nil, []string{`x.yaml:3:30: key "b" is here a second time; the first is in line 3`}},
		{"two documents", "a: 1\n---\nb: 2\n", nil, []string{`x.yaml:2:1: a second YAML document starts here; a config is one document`}},
		{"a foreign tag", "a: !!python/object:os.system x\n", nil, []string{`x.yaml:1:4: the YAML tag !!python/object:os.system has no meaning here`}},
		{"a key that is a list", "? [a]\n: 1\n", nil, []string{`x.yaml:1:3: a key must be text, got a list`}},
		{"a key that is null", "null: 1\n", nil, []string{`x.yaml:1:1: a key must be text, got null`}},
		{"a merge of no object", "a: {<<: 3}\n", nil, []string{`x.yaml:1:9: << wants an object or a list of objects, got 3`}},
		{"an anchor in itself", "a: &x [*x]\n", nil, []string{`x.yaml:1:8: the anchor &x contains itself`}},
		{"aliases that multiply", aliasBomb(), nil, []string{`x.yaml:1:19: more than 100000 values, aliases included; that is no config file`}},
		{"endless nesting", strings.Repeat("[", 200) + strings.Repeat("]", 200), nil, []string{`x.yaml:1:66: nested more than 64 levels deep`}},
		{"a file that is too large", "# " + strings.Repeat("x", maxFileBytes), nil, []string{`x.yaml: larger than 1048576 bytes; that is no config file`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := loadText(t, options(), tt.yaml, tt.flags...)
			require.Error(t, err)
			require.Nil(t, r)
			require.Equal(t, strings.Join(tt.want, "\n"), err.Error())
		})
	}
}

// aliasBomb returns 1,400 bytes that stand for a billion values.
func aliasBomb() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 9; i++ {
		prev := "*a" + string(rune('0'+i-1))
		b.WriteString("a" + string(rune('0'+i)) + ": &a" + string(rune('0'+i)) + " [" + strings.Repeat(prev+", ", 9) + prev + "]\n")
	}
	return b.String()
}

func TestFilesThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	locked := filepath.Join(dir, "locked.yaml")
	require.NoError(t, os.WriteFile(locked, []byte("a: 1"), 0o000))
	tests := []struct{ name, file, want string }{
		{"a missing file", filepath.Join(dir, "none.yaml"), filepath.Join(dir, "none.yaml") + ": no such file"},
		{"a directory", dir, dir + ": is a directory; name the YAML file in it"},
	}
	if os.Geteuid() != 0 {
		tests = append(tests, struct{ name, file, want string }{"a file without permission", locked,
			locked + ": permission denied; make the file readable for you"})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := options()
			o.File, o.Flags = tt.file, flagsOf("environment=demo", "agent=nop")
			_, err := Load(o)
			require.EqualError(t, err, tt.want)
		})
	}
}

func TestAnEnvironmentIsNeededWithoutAFileToo(t *testing.T) {
	_, err := Load(options())
	require.EqualError(t, err, "environment: none named; pass --environment NAME or --config FILE (there are demo, terminal-test)\n"+
		"openai: no model server; add an openai section with base_url and model_name to the config file, "+
		"or pass --openai.base_url and --openai.model_name (or --agent oracle to run the reference solutions)")
}
