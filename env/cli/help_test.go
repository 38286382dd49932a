package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/env/cli"
)

func TestHelp_ShowsTheFieldsPeopleUseAndHowToSeeAll(t *testing.T) {
	p := newProgram(t)
	code, short, _ := p.run("evaluate", "--help")
	require.Zero(t, code)
	require.Less(t, strings.Count(short, "\n  --env."), 25)
	require.Contains(t, short, "--env.attempts")
	require.NotContains(t, short, "--env.interrupt_grace")
	require.Contains(t, short, "more fields: hermes-env evaluate --help-all shows all, hermes-env envs NAME those of an environment")
	code, all, _ := p.run("evaluate", "--help-all")
	require.Zero(t, code)
	require.Contains(t, all, "--env.interrupt_grace")
	require.NotContains(t, all, "more fields")
	code, again, _ := p.run("help", "evaluate")
	require.Zero(t, code)
	require.Equal(t, short, again)
	_, commands, _ := p.run("help")
	_, plain, _ := p.run("--help")
	require.Equal(t, plain, commands)
}

func TestRun_AnswersVersionAsAFlag(t *testing.T) {
	p := newProgram(t)
	_, want, _ := p.run("version")
	for _, flag := range []string{"--version", "-V"} {
		code, got, _ := p.run(flag)
		require.Zero(t, code)
		require.Equal(t, want, got)
	}
}

func TestRun_HintsAtTheFlagOfAnArgument(t *testing.T) {
	p := newProgram(t)
	p.write("c.yaml", quickstart)
	code, _, stderr := p.run("evaluate", "--config", "c.yaml", "--run-dir", "out")
	require.Zero(t, code, stderr)
	for argument, want := range map[string]string{
		"c.yaml":        "--config c.yaml",
		"missing.yml":   "--config missing.yml",
		"mix.jsonl":     "--env.dataset_name mix.jsonl",
		"rows.csv.gz":   "--env.dataset_name rows.csv.gz",
		"out":           "--resume out",
		"tb2":           "--environment tb2",
		"terminal-test": "--environment terminal-test",
	} {
		code, _, stderr := p.run("evaluate", argument)
		require.Equal(t, cli.ExitUsage, code)
		require.Contains(t, stderr, "unexpected argument "+argument+"; ")
		require.Contains(t, stderr, want)
	}
}

func TestResume_GoesOnWithTheRecordedConfiguration(t *testing.T) {
	p := newProgram(t)
	p.write("c.yaml", quickstart)
	for _, command := range []string{"evaluate", "process"} {
		code, _, stderr := p.run(command, "--config", "c.yaml", "--run-dir", command, "--limit", "1", "--env.agent_temperature", "0.5")
		require.Zero(t, code, stderr)
		require.Len(t, lines(t, command+"/rollouts.jsonl"), 2)
		code, _, stderr = p.run(command, "--resume", command)
		require.Zero(t, code, stderr)
		require.Len(t, lines(t, command+"/rollouts.jsonl"), 2)
		code, _, stderr = p.run(command, "--resume="+command, "--limit", "2")
		require.Zero(t, code, stderr)
		require.Len(t, lines(t, command+"/rollouts.jsonl"), 4)
		run, err := os.ReadFile(filepath.Join(command, "run.json"))
		require.NoError(t, err)
		require.EqualValues(t, 0.5, gjson.GetBytes(run, "config.env.agent_temperature").Float())
		code, _, stderr = p.run(command, "--run-dir", command, "--resume", "--env.agent_temperature", "0.1")
		require.Equal(t, cli.ExitUsage, code)
		require.Contains(t, stderr, "env.agent_temperature: 0.5 -> 0.1")
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"process", "--resume", "evaluate"}, "evaluate is a run of evaluate: go on with it by that command, evaluate --resume evaluate"},
		{[]string{"evaluate", "--resume", "nowhere"}, "nowhere holds no run to go on with"},
		{[]string{"evaluate", "--resume", "evaluate", "--run-dir", "process"}, "name two directories"},
		{[]string{"evaluate", "--resume"}, "--resume DIR"},
	} {
		code, _, stderr := p.run(tt.args...)
		require.Equal(t, cli.ExitUsage, code, tt.args)
		require.Contains(t, stderr, tt.want)
	}
}

func TestResume_BeginsARunThatWasKilledBeforeItBegan(t *testing.T) {
	p := newProgram(t)
	for _, dir := range []string{"locked", "other"} {
		require.NoError(t, os.MkdirAll(filepath.Join(p.dir, dir), 0o755))
		p.write(filepath.Join(dir, "lock"), "")
	}
	p.write("other/notes.txt", "mine")
	args := []string{"--environment", "terminal-test", "--openai.base_url", "replay:", "--openai.model_name", "replay"}
	code, _, stderr := p.run("process", "--resume", "locked")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "killed before; add --config or --environment to begin it")
	for _, dir := range []string{"other", "nowhere"} {
		code, _, stderr = p.run(append([]string{"process", "--resume", dir}, args...)...)
		require.Equal(t, cli.ExitUsage, code)
		require.Contains(t, stderr, dir+" holds no run to go on with")
	}
	code, _, stderr = p.run(append([]string{"process", "--resume", "locked"}, args...)...)
	require.Equal(t, cli.ExitOK, code, stderr)
	code, _, stderr = p.run(append([]string{"process", "--resume", "locked"}, args...)...)
	require.Equal(t, cli.ExitOK, code, stderr)
}

func TestResume_GoesOnWithARecordedValidation(t *testing.T) {
	p := newProgram(t)
	p.env["XDG_DATA_HOME"] = p.dir
	code, _, stderr := p.run("validate", "--environment", "terminal-test", "--repeat", "2", "--run-dir", "v")
	require.Zero(t, code, stderr)
	code, stdout, stderr := p.run("validate", "--resume", "v")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "2 attempts of each agent")
	require.Len(t, lines(t, "v/nop/rollouts.jsonl"), 2)
}

func TestCompletion_OffersCommandsFlagsAndValues(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("needs bash")
	}
	p := newProgram(t)
	_, script, _ := p.run("completion", "bash")
	p.write("c.sh", script)
	p.write("quick.yaml", quickstart)
	complete := func(words ...string) []string {
		t.Helper()
		command := exec.Command(bash, append([]string{"--norc", "-c", `source ./c.sh; COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); _hermes_env; printf '%s\n' "${COMPREPLY[@]}"`, "bash", "hermes-env"}, words...)...)
		out, err := command.CombinedOutput()
		require.NoError(t, err, string(out))
		return strings.Fields(string(out))
	}
	require.Equal(t, []string{"evaluate", "envs", "export"}, []string{complete("ev")[0], complete("env")[0], complete("exp")[0]})
	require.Equal(t, []string{"run", "status"}, complete("api", ""))
	require.Equal(t, []string{"model", "nop", "oracle"}, complete("evaluate", "--agent", ""))
	require.Equal(t, []string{"docker"}, complete("evaluate", "--env.terminal_backend", "=", "d"))
	require.Contains(t, complete("evaluate", "--env.term"), "--env.terminal_backend")
	require.Equal(t, []string{"prompts"}, complete("envs", "p"))
	require.Equal(t, []string{"terminal-bench-2", "terminal-test"}, complete("evaluate", "--environment", "termi"))
	require.Equal(t, []string{"quick.yaml"}, complete("evaluate", "--config", "qu"))
	_, fish, _ := p.run("completion", "fish")
	require.Contains(t, fish, "-l agent -x -a 'model nop oracle'")
	require.Contains(t, fish, "complete -c hermes-env -n '__fish_seen_subcommand_from api; and not __fish_seen_subcommand_from run status' -f -a 'run status'")
}
