package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/cli"
)

func run(t *testing.T, args ...string) (int, string) {
	t.Helper()
	var out, errs bytes.Buffer
	app := cli.App{Name: "phonebook", Environments: []env.Definition{definition()}, Stdout: &out, Stderr: &errs, Getenv: func(name string) (string, bool) {
		if name == "XDG_DATA_HOME" {
			return t.TempDir(), true
		}
		return os.LookupEnv(name)
	}}
	return app.Run(t.Context(), args), out.String() + errs.String()
}

func TestPhonebook_IsSoundAndListsItsTool(t *testing.T) {
	t.Chdir(t.TempDir())
	code, output := run(t, "validate")
	require.Zero(t, code, output)
	require.Contains(t, output, "4 sound")
	code, output = run(t, "tools")
	require.Zero(t, code, output)
	require.Regexp(t, `lookup +phonebook +Finds entries of the phone book`, output)
	require.Contains(t, output, "toolsets for env.enabled_toolsets: coding, debugging, file, phonebook,")
	code, output = run(t, "evaluate", "--help")
	require.Zero(t, code, output)
	require.Contains(t, output, "Usage: phonebook evaluate")
	require.Contains(t, output, "--env.replies")
}

func TestPhonebook_RepliesToAnswersWithoutANumber(t *testing.T) {
	t.Chdir(t.TempDir())
	server := modeltest.NewServer(t, func(r *modeltest.Request) modeltest.Reply {
		switch {
		case strings.Contains(string(r.Body), "such as"):
			return modeltest.Text("555-0115")
		case r.Turn() == 0:
			return modeltest.Calls(chat.ToolCall{ID: "c", Name: "lookup", Arguments: `{"name":"ada"}`})
		}
		return modeltest.Text("I know it now.")
	})
	code, output := run(t, "evaluate", "--openai.base_url", server.URL, "--openai.model_name", "mock", "--limit", "1", "--run-dir", "out")
	require.Zero(t, code, output)
	require.Contains(t, output, "score      1.000")
	record, err := os.ReadFile("out/rollouts.jsonl")
	require.NoError(t, err)
	require.Contains(t, string(record), "1 entries\\nAda Lovelace: 555-0115")
	code, output = run(t, "evaluate", "--openai.base_url", server.URL, "--openai.model_name", "mock", "--limit", "1", "--env.replies", "0")
	require.Zero(t, code, output)
	require.Contains(t, output, "score      0.000")
}
