package prompts_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/benchmarks/prompts"
)

// config returns a configuration with the env section given, for a model at url.
func config(url, section string) string {
	return "environment: prompts\nenv:\n  enabled_toolsets: []\n  group_size: 1\n" + section + "\nopenai: {base_url: '" + url + "', model_name: mock}\n"
}

const exact = "  reward: {type: exact, reference_field: answer}\n"

func TestEveryRowOfADatasetIsRunAndScored(t *testing.T) {
	server := modeltest.NewServer(t, echo)
	w := newWorkplace(t, map[string]string{
		"rows.jsonl": `{"prompt":"say a","answer":"a","level":1.50}` + "\n" + `{"prompt":"say b","answer":"c"}` + "\n" + `{"prompt":"say a","answer":"a","level":1.50}` + "\n",
		"c.yaml":     config(server.URL, "  dataset_name: rows.jsonl\n  metadata_fields: [level]\n"+exact),
	})
	code, output := w.run("process", "--config", "c.yaml", "--run-dir", "run")
	require.Zero(t, code, output)
	require.Contains(t, output, "3: 3 scored")
	require.Contains(t, output, "0.667")
	records := w.rollouts("run")
	ids := map[string]bool{}
	metadata := map[string]int{}
	for _, r := range records {
		ids[r.Get("item_id").String()] = true
		metadata[r.Get("metadata.level").Raw]++
	}
	require.Len(t, ids, 3, "equal rows are items of their own")
	require.Equal(t, map[string]int{"1.50": 2, "": 1}, metadata, "numbers keep their digits")
	manifest, err := os.ReadFile("run/run.json")
	require.NoError(t, err)
	require.Regexp(t, "^sha256:", gjson.GetBytes(manifest, "dataset_digest").String())

	code, output = w.run("evaluate", "--config", "c.yaml", "--run-dir", "eval")
	require.Zero(t, code, output)
	require.Contains(t, output, "3: 3 scored")
	code, output = w.run("process", "--config", "c.yaml", "--dry-run")
	require.Zero(t, code, output)
	require.Contains(t, output, "3 groups of 1 rollouts")
}

func TestPromptsAreMadeFromColumns(t *testing.T) {
	const row = `{"q":"say {{x}}","n":1.0,"meta":{"a":[1,2]},"sys":"be brief","answer":"x","prompt":"say p",` +
		`"chat":[{"role":"system","content":"own"},{"role":"user","content":"one"},{"role":"assistant","content":"two"},{"role":"user","content":"say three"},{"role":"assistant","content":"no"}],` +
		`"share":[{"from":"human","value":"say share"},{"from":"gpt","value":"no"}]}`
	tests := map[string]struct{ section, want string }{
		"the column prompt":       {"", `[{"role":"user","content":"say p"}]`},
		"another column":          {"  prompt_field: q", `[{"role":"user","content":"say {{x}}"}]`},
		"a template":              {"  prompt_template: 'say {{n}} {{meta}} {{meta.a.1}} {{q}}'", `[{"role":"user","content":"say 1.0 {\"a\":[1,2]} 2 say {{x}}"}]`},
		"a system column":         {"  system_field: sys\n  system_prompt: not this", `[{"role":"system","content":"be brief"},{"role":"user","content":"say p"}]`},
		"the common system text":  {"  system_field: none_here\n  system_prompt: common", `[{"role":"system","content":"common"},{"role":"user","content":"say p"}]`},
		"examples before it":      {"  prefill_messages: [{role: user, content: hi}, {role: assistant, content: ho}]", `[{"role":"user","content":"hi"},{"role":"assistant","content":"ho"},{"role":"user","content":"say p"}]`},
		"examples from a file":    {"  prefill_messages_file: pre.jsonl\n  system_field: sys", `[{"role":"system","content":"be brief"},{"role":"user","content":"hi"},{"role":"assistant","content":"ho"},{"role":"user","content":"say p"}]`},
		"messages":                {"  messages_field: chat", `[{"role":"system","content":"own"},{"role":"user","content":"one"},{"role":"assistant","content":"two"},{"role":"user","content":"say three"}]`},
		"messages of ShareGPT":    {"  messages_field: share", `[{"role":"user","content":"say share"}]`},
		"messages, system column": {"  messages_field: chat\n  system_field: sys", `[{"role":"system","content":"be brief"},{"role":"user","content":"one"},{"role":"assistant","content":"two"},{"role":"user","content":"say three"}]`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server := modeltest.NewServer(t, echo)
			w := newWorkplace(t, map[string]string{
				"rows.jsonl": row + "\n", "c.yaml": config(server.URL, "  dataset_name: rows.jsonl\n"+test.section+"\n"+exact),
				"pre.jsonl": `{"role":"user","content":"hi"}` + "\n\n" + `{"from":"gpt","value":"ho"}` + "\n",
			})
			code, output := w.run("process", "--config", "c.yaml", "--run-dir", "run")
			require.Zero(t, code, output)
			requests := server.Requests() // the first is the health check
			require.Equal(t, test.want, gjson.GetBytes(requests[len(requests)-1].Body, "messages").Raw)
		})
	}
}

func TestBadRowsAreNamedAndEndTheRunOrAreLeftOutAndCounted(t *testing.T) {
	tests := map[string]struct{ rows, section, want string }{
		"no prompt":                {`{"text":"x","answer":"a"}`, "", `prompt_field: no "prompt" in the row; its columns are text, answer`},
		"a prompt of another type": {`{"prompt":["x"],"answer":"a"}`, "", `"prompt" is a list`},
		"an empty prompt":          {`{"prompt":" \n","answer":"a"}`, "", "the prompt is empty"},
		"null":                     {`{"prompt":null,"answer":"a"}`, "", `"prompt" is null`},
		"broken JSON":              {`{"prompt":"x",`, "", "rows.jsonl, line 2"},
		"no object":                {`[1,2]`, "", "rows.jsonl, line 2"},
		"an unknown column":        {`{"prompt":"x","answer":"a"}`, "  prompt_template: '{{prompt}} {{q}}'\n", `prompt_template: no "q" in the row; its columns are prompt, answer`},
		"no reference":             {`{"prompt":"x"}`, "", `reference_field: no "answer" in the row`},
		"a gigantic row":           {`{"prompt":"` + strings.Repeat("x", 2000) + `","answer":"a"}`, "  max_row_bytes: 1000\n", "too large"},
		"a long prompt":            {`{"prompt":"` + strings.Repeat("x", 2000) + `","answer":"a"}`, "  max_prompt_chars: 1000\n", "the prompt has 2000 characters, more than max_prompt_chars 1000"},
		"not chat messages":        {`{"prompt":"x","answer":"a","m":[{"role":"user"}],"q":"1"}`, "  messages_field: m\n", "its content is null, want text"},
		"a file outside":           {`{"prompt":"x","answer":"a","files":{"../x":"y"},"q":"1"}`, "  files_field: files\n", `"../x" can't be the path of a file`},
		"a file of this machine":   {`{"prompt":"x","answer":"a","files":{"x":{"path":"/etc/passwd"}},"q":"1"}`, "  files_field: files\n", "needs files_root"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server := modeltest.NewServer(t, echo)
			good := `{"prompt":"say a","answer":"a","q":"1","m":[{"role":"user","content":"say a"}]}`
			w := newWorkplace(t, map[string]string{
				"rows.jsonl": good + "\n" + test.rows + "\n" + strings.ReplaceAll(good, "say a", "say  a") + "\n",
				"c.yaml":     config(server.URL, "  dataset_name: rows.jsonl\n"+test.section+exact),
			})
			code, output := w.run("process", "--config", "c.yaml", "--run-dir", "run")
			require.Equal(t, 2, code, output)
			require.Contains(t, output, test.want)
			require.Regexp(t, `rows\.jsonl, (row|line) 2`, output)
			require.Contains(t, output, "env.on_bad_row: skip leaves such rows out")
			if name == "a gigantic row" {
				require.Contains(t, output, "env.max_row_bytes")
			}
			for _, r := range server.Requests() {
				require.Equal(t, "GET", r.Method, "nothing is paid for before the dataset is known to be sound")
			}

			code, output = w.run("process", "--config", "c.yaml", "--run-dir", "run", "--env.on_bad_row", "skip")
			require.Zero(t, code, output)
			require.Contains(t, output, "2: 2 scored")
			require.Contains(t, output, "1 row of the dataset was left out")
			listed, err := os.ReadFile("run/skipped_rows.jsonl")
			require.NoError(t, err)
			require.Equal(t, int64(2), gjson.GetBytes(listed, "row").Int(), string(listed))
			metrics, err := os.ReadFile("run/metrics.json")
			require.NoError(t, err)
			require.Contains(t, string(metrics), `"dataset/skipped_rows"`)
		})
	}
}

func TestADatasetWithoutUsableRowsIsSaidSo(t *testing.T) {
	server := modeltest.NewServer(t, echo)
	for name, test := range map[string]struct{ rows, want string }{
		"empty":         {"", "no rows"},
		"only bad rows": {"{\"x\":1}\n{\"x\":2}\n", `none of the rows can be used; the last problem: rows.jsonl, row 2: prompt_field: no "prompt"`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorkplace(t, map[string]string{"rows.jsonl": test.rows, "c.yaml": config(server.URL, "  dataset_name: rows.jsonl\n  on_bad_row: skip\n"+exact)})
			code, output := w.run("process", "--config", "c.yaml")
			require.Equal(t, 2, code, output)
			require.Contains(t, output, test.want)
		})
	}
	w := newWorkplace(t, map[string]string{"c.yaml": config(server.URL, "  dataset_name: nowhere.jsonl\n"+exact)})
	code, output := w.run("process", "--config", "c.yaml")
	require.Equal(t, 2, code)
	require.Contains(t, output, "nowhere.jsonl")
}

func TestAWrongConfigurationIsRefusedLineByLine(t *testing.T) {
	w := newWorkplace(t, map[string]string{"c.yaml": `environment: prompts
env:
  prompt_template: "{{a"
  messages_field: m
  image_field: image
  delimiter: ab
  prefill_messages: [{role: system, content: x}]
  setup_files: {a: not/there}
  reward:
    on_part_error: skip
    parts:
      - {type: numeric}
      - {type: regex, pattern: "(", name: re}
      - type: judge
        rubric: "{{x"
        verdict: choice
        scale_min: 2
      - {type: exact, reference_field: a, script: "true"}
      - {type: command}
      - {type: program, weight: 2}
      - {type: program, program: [cat]}
      - {name: nothing}
openai: {base_url: "replay:", model_name: m}
`})
	code, output := w.run("process", "--config", "c.yaml")
	require.Equal(t, 2, code)
	for _, want := range []string{
		"env.dataset_name: missing",
		"c.yaml:3:20: env.prompt_template: line 1: {{ without }}",
		"c.yaml:4:19: env.messages_field", "c.yaml:5:16: env.image_field: sandboxes of terminal_backend local have no images",
		"c.yaml:6:14: env.delimiter", "c.yaml:7:21: env.prefill_messages: message 1: a system message belongs",
		"c.yaml:8:16: env.setup_files",
		"c.yaml:12:16: env.reward.parts[0].type: numeric compares with a reference",
		"c.yaml:13:32: env.reward.parts[1].pattern: pattern: error parsing regexp",
		"c.yaml:15:17: env.reward.parts[2].rubric", "c.yaml:16:18: env.reward.parts[2].verdict: choice needs choices", "c.yaml:14:9: env.reward.parts[2].scale_max",
		"c.yaml:18:51: env.reward.parts[3].script: has no meaning for a reward of type exact; it belongs to command",
		"env.reward.parts[4].type: command runs a script", "env.reward.parts[5].type: program runs a program",
		`c.yaml:21:16: env.reward.parts[6].type: two parts are called "program"`, "c.yaml:22:9: env.reward.parts[7].type: missing",
		"env.judge.base_url: a reward of type judge asks a model",
	} {
		if strings.Contains(want, "messages_field") {
			continue // a broken template is said first
		}
		require.Contains(t, output, want)
	}
	w.write("c.yaml", config("replay:", "  dataset_name: x\n"))
	_, output = w.run("process", "--config", "c.yaml")
	require.Contains(t, output, "env.reward: missing")
}

func TestRowsCanBeChosenAndShuffled(t *testing.T) {
	var rows strings.Builder
	for i := range 40 {
		fmt.Fprintf(&rows, `{"prompt":"say %d","answer":"%d"}`+"\n", i, i)
	}
	order := func(flags ...string) (list []string) {
		server := modeltest.NewServer(t, echo)
		w := newWorkplace(t, map[string]string{"rows.jsonl": rows.String(), "c.yaml": config(server.URL, "  dataset_name: rows.jsonl\n"+exact)})
		code, output := w.run(append([]string{"process", "--config", "c.yaml", "--run-dir", "run", "--env.max_num_workers", "1"}, flags...)...)
		require.Zero(t, code, output)
		for _, r := range w.rollouts("run") {
			list = append(list, r.Get("messages.0.content").String())
		}
		return list
	}
	require.Equal(t, []string{"say 3", "say 4"}, order("--env.offset", "3", "--env.max_rows", "2"))
	first := order("--env.shuffle", "--env.max_rows", "6")
	require.Len(t, first, 6)
	require.NotEqual(t, []string{"say 0", "say 1", "say 2", "say 3", "say 4", "say 5"}, first)
	require.Equal(t, first, order("--env.shuffle", "--env.max_rows", "6"))
	require.NotEqual(t, first, order("--env.shuffle", "--env.max_rows", "6", "--env.seed", "1"))
	require.Equal(t, first[2:], order("--env.shuffle", "--env.max_rows", "4", "--env.offset", "2"))
	twice := order("--env.max_rows", "2", "--env.epochs", "2")
	require.Equal(t, []string{"say 0", "say 1", "say 0", "say 1"}, twice)
	require.Len(t, order("--env.max_rows", "2", "--env.epochs", "0", "--env.total_steps", "5"), 5)
}

func TestEvaluateTakesTheHeldOutSet(t *testing.T) {
	server := modeltest.NewServer(t, echo)
	w := newWorkplace(t, map[string]string{
		"data/train.jsonl": `{"prompt":"say train","answer":"train"}` + "\n",
		"data/test.jsonl":  `{"prompt":"say test","answer":"test"}` + "\n",
		"other.csv":        "prompt,answer\nsay csv,csv\n",
		"c.yaml":           config(server.URL, "  dataset_name: data\n"+exact),
	})
	prompt := func(command string, flags ...string) string {
		run := fmt.Sprintf("run%d", server.RequestCount())
		code, output := w.run(append([]string{command, "--config", "c.yaml", "--run-dir", run}, flags...)...)
		require.Zero(t, code, output)
		return w.rollouts(run)[0].Get("messages.0.content").String()
	}
	require.Equal(t, "say train", prompt("process"))
	require.Equal(t, "say train", prompt("evaluate"))
	require.Equal(t, "say test", prompt("evaluate", "--env.eval_split", "test"))
	require.Equal(t, "say test", prompt("process", "--env.dataset_split", "test"))
	require.Equal(t, "say csv", prompt("evaluate", "--env.eval_dataset_name", "other.csv"))
}

func TestEachRowHasItsSandboxSetUp(t *testing.T) {
	server := modeltest.NewServer(t, modeltest.Always(modeltest.Text("done")))
	w := newWorkplace(t, map[string]string{
		"rows.jsonl":      `{"prompt":"p","files":{"sub/a.txt":"one\n","~/b.txt":{"base64":"dHdv"},"run.sh":{"content":"echo three","executable":true},"c":{"path":"shared.txt"}},"setup":"echo five > five.txt"}` + "\n",
		"root/shared.txt": "four", "kit/tool/x.txt": "six",
		"c.yaml": config(server.URL, `  dataset_name: rows.jsonl
  files_field: files
  files_root: root
  setup_files: {kit: kit}
  setup_command: "cat sub/a.txt > seen.txt"
  setup_command_field: setup
  reward:
    type: command
    result: json
    files: {check.sh: check.sh}
    script: 'sh "$REWARD_DIR/check.sh"'
`),
		"check.sh": `test "$(cat sub/a.txt seen.txt ~/b.txt c five.txt kit/tool/x.txt; ./run.sh)" = "$(printf 'one\none\ntwofourfive\nsixthree')" && ok=1 || ok=0
test "$(cat "$REWARD_DIR/answer.txt")" = done || ok=0
printf '{"score": %s, "parts": {"found": 1}}\n' $ok
`,
	})
	code, output := w.run("process", "--config", "c.yaml", "--run-dir", "run")
	require.Zero(t, code, output)
	require.Contains(t, output, "1.000")
	r := w.rollouts("run")[0]
	require.Equal(t, int64(1), r.Get("score").Int(), r.Raw)

	w.write("rows.jsonl", `{"prompt":"p","files":{"/tmp/hermes-env-must-not-be-there":"x"},"setup":null}`+"\n")
	_, output = w.run("process", "--config", "c.yaml", "--run-dir", "run2", "--env.retries", "0")
	require.Contains(t, w.rollouts("run2")[0].Get("error.message").String(), "outside its sandbox", output)
	require.NoFileExists(t, "/tmp/hermes-env-must-not-be-there")
	w.write("rows.jsonl", `{"prompt":"p","setup":"echo broken; exit 3"}`+"\n")
	w.write("c.yaml", strings.ReplaceAll(mustRead(t, "c.yaml"), `  setup_command: "cat sub/a.txt > seen.txt"`+"\n", ""))
	_, output = w.run("process", "--config", "c.yaml", "--run-dir", "run3", "--env.retries", "0")
	require.Contains(t, w.rollouts("run3")[0].Get("error.message").String(), "setup_command_field ended with exit code 3: broken", output)
	require.Equal(t, "sandbox_error", w.rollouts("run3")[0].Get("outcome").String())
}

func mustRead(t *testing.T, name string) string {
	raw, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(raw)
}

func TestTheDefaultConfigurationRunsAsWritten(t *testing.T) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	run := filepath.Join(t.TempDir(), "run")
	w := newWorkplace(t, nil)
	t.Chdir(root)
	code, output := w.run("process", "--config", "configs/prompts.yaml", "--run-dir", run)
	require.Zero(t, code, output)
	require.Contains(t, output, "12: 12 scored")
	require.Contains(t, output, "0.750")
	require.Equal(t, "prompts", prompts.Definition().Name)
}
