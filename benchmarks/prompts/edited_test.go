package prompts_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
)

const (
	twoRows   = `{"id":"q-1","prompt":"say a","answer":"a"}` + "\n" + `{"id":"q-2","prompt":"say b","answer":"b"}` + "\n"
	oneEdited = `{"id":"q-1","prompt":"say a","answer":"a"}` + "\n" + `{"id":"q-2","prompt":"say c","answer":"c"}` + "\n"
)

// byName rewrites the record of a run as versions wrote it that knew rows by name.
func (w *workplace) byName(run string) {
	w.t.Helper()
	path := filepath.Join(w.dir, run, "rollouts.jsonl")
	raw, err := os.ReadFile(path)
	require.NoError(w.t, err)
	text := string(raw)
	for _, r := range w.rollouts(run) {
		text = strings.ReplaceAll(text, r.Get("item_digest").Raw, r.Get("item_id").Raw)
	}
	require.NoError(w.t, os.WriteFile(path, []byte(text), 0o600))
}

func TestPrompts_AnEditedRowWithAnIDRunsAgain(t *testing.T) {
	for _, command := range []string{"process", "evaluate"} {
		t.Run(command, func(t *testing.T) {
			server := modeltest.NewServer(t, echo)
			w := newWorkplace(t, map[string]string{"rows.jsonl": twoRows, "c.yaml": config(server.URL, "  dataset_name: rows.jsonl\n  attempts: 1\n"+exact)})
			args := []string{command, "--config", "c.yaml", "--run-dir", "run"}
			code, output := w.run(args...)
			require.Zero(t, code, output)
			for _, r := range w.rollouts("run") {
				require.Regexp(t, "^sha256:[0-9a-f]{64}$", r.Get("item_digest").String())
			}
			sent := server.RequestCount()

			w.write("rows.jsonl", oneEdited)
			code, output = w.run(append(args, "--resume")...)
			require.Zero(t, code, output)
			require.Contains(t, output, "changed since it was run")
			require.Equal(t, sent+1, server.RequestCount(), "the edited row runs, the other does not")
			for _, r := range w.rollouts("run") {
				require.Equal(t, 1.0, r.Get("score").Float(), r.Raw)
			}
		})
	}
}

func TestPrompts_ARunRecordedByNameGoesOnWithAWarning(t *testing.T) {
	{
		server := modeltest.NewServer(t, echo)
		w := newWorkplace(t, map[string]string{"rows.jsonl": twoRows, "a.txt": "a", "c.yaml": config(server.URL, "  dataset_name: rows.jsonl\n  attempts: 1\n"+exact)})
		args := []string{"evaluate", "--config", "c.yaml", "--run-dir", "run"}
		code, output := w.run(args...)
		require.Zero(t, code, output)
		w.byName("run")
		sent := server.RequestCount()
		w.write("rows.jsonl", oneEdited)
		code, output = w.run(append(args, "--resume")...)
		require.Zero(t, code, output)
		require.Equal(t, 1, strings.Count(output, "whether their items changed since is unknown"), output)
		require.Equal(t, sent, server.RequestCount())

		code, output = w.run("rescore", "run", "--config", "c.yaml", "--run-dir", "again")
		require.Zero(t, code, output)
		require.Contains(t, output, "2 of them were recorded by a version that compared items by name")
	}
}

func TestPrompts_RescoreSaysThatARowWasEdited(t *testing.T) {
	server := modeltest.NewServer(t, echo)
	w := newWorkplace(t, map[string]string{"rows.jsonl": twoRows, "c.yaml": config(server.URL, "  dataset_name: rows.jsonl\n  attempts: 1\n"+exact)})
	code, output := w.run("evaluate", "--config", "c.yaml", "--run-dir", "run")
	require.Zero(t, code, output)
	w.write("rows.jsonl", oneEdited)
	code, output = w.run("rescore", "run", "--config", "c.yaml", "--run-dir", "again")
	require.Zero(t, code, output)
	require.Contains(t, output, "the items of 1 of them changed since")
}
