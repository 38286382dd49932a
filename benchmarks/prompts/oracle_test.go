package prompts_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
)

func TestPrompts_TheReferenceIsASolution(t *testing.T) {
	server := modeltest.NewServer(t, echo)
	const rows = `{"id":"a","prompt":"q","answer":["12","13"]}` + "\n"
	for section, want := range map[string]string{
		"  reward: {type: exact, reference_field: answer}\n":                                              "12",
		"  reward: {type: normalized, reference_field: answer, extract: boxed}\n":                         `\boxed{12}`,
		"  reward: {type: numeric, reference_field: answer, extract: tag, extract_pattern: result}\n":     "<result>12</result>",
		"  reward: {type: exact, reference_field: answer, extract: regex, extract_pattern: '= (\\d+)'}\n": "",
		"  reward: {type: regex, pattern: '(\\d+)'}\n":                                                    "",
	} {
		w := newWorkplace(t, map[string]string{"rows.jsonl": rows, "c.yaml": config(server.URL, "  dataset_name: rows.jsonl\n  attempts: 1\n"+section)})
		code, output := w.run("evaluate", "--config", "c.yaml", "--agent", "oracle", "--run-dir", "run")
		record := w.rollouts("run")[0]
		if want == "" {
			require.NotZero(t, code, section)
			require.Equal(t, "verifier_error", record.Get("outcome").String(), section)
			continue
		}
		require.Zero(t, code, output)
		require.EqualValues(t, 1, record.Get("score").Float(), section)
		require.Equal(t, want, record.Get("messages.@reverse.0.content").String())
	}
}
