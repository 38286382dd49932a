package prompts_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
)

func TestPrompts_RowsAreNamedByTheirIDColumn(t *testing.T) {
	const rows = `{"id":"q-1","prompt":"say a","answer":"a","meta":{"n":7}}` + "\n" +
		`{"id":2,"prompt":"say b","answer":"b","meta":{"n":8.50}}` + "\n" +
		`{"id":"q-1","prompt":"say c","answer":"c","meta":{"n":9}}` + "\n" +
		`{"id":null,"prompt":"say d","answer":"d","meta":{"n":10}}` + "\n"
	for name, test := range map[string]struct {
		section string
		want    []string
	}{
		"the column id":  {"", []string{"q-1", "2", "q-1#2", "sha256:"}},
		"another column": {"  id_field: meta.n\n", []string{"7", "8.50", "9", "10"}},
	} {
		t.Run(name, func(t *testing.T) {
			server := modeltest.NewServer(t, echo)
			w := newWorkplace(t, map[string]string{"rows.jsonl": rows, "c.yaml": config(server.URL, "  dataset_name: rows.jsonl\n  attempts: 1\n"+test.section+exact)})
			for _, command := range []string{"process", "evaluate"} {
				code, output := w.run(command, "--config", "c.yaml", "--run-dir", command)
				require.Zero(t, code, output)
				var ids []string
				for _, r := range w.rollouts(command) {
					id := r.Get("item_id").String()
					ids = append(ids, id[:min(len(id), len(test.want[r.Get("metadata.row").Int()]))])
				}
				require.ElementsMatch(t, test.want, ids)
			}
		})
	}
}

func TestPrompts_ARowWithoutTheNamedIDIsABadRow(t *testing.T) {
	server := modeltest.NewServer(t, echo)
	w := newWorkplace(t, map[string]string{
		"rows.jsonl": `{"key":"a","prompt":"say a","answer":"a"}` + "\n" + `{"key":["b"],"prompt":"say b","answer":"b"}` + "\n",
		"c.yaml":     config(server.URL, "  dataset_name: rows.jsonl\n  id_field: key\n"+exact),
	})
	code, output := w.run("process", "--config", "c.yaml", "--run-dir", "run")
	require.Equal(t, 2, code, output)
	require.Contains(t, output, "rows.jsonl, row 2: id_field key: neither text nor a number")
	code, output = w.run("process", "--config", "c.yaml", "--env.on_bad_row", "skip", "--run-dir", "run")
	require.Zero(t, code, output)
	require.Len(t, w.rollouts("run"), 1)
}

func TestPrompts_LimitAndSampleTakePartOfTheRows(t *testing.T) {
	const rows = `{"id":1,"prompt":"say a","answer":"a"}` + "\n" + `{"id":2,"prompt":"say b","answer":"b"}` + "\n" + `{"id":3,"prompt":"say c","answer":"c"}` + "\n"
	server := modeltest.NewServer(t, echo)
	w := newWorkplace(t, map[string]string{"rows.jsonl": rows, "c.yaml": config(server.URL, "  dataset_name: rows.jsonl\n  attempts: 1\n"+exact)})
	for _, command := range []string{"process", "evaluate"} {
		code, output := w.run(command, "--config", "c.yaml", "--limit", "2", "--run-dir", command+"-limit")
		require.Zero(t, code, output)
		require.Len(t, w.rollouts(command+"-limit"), 2)
		code, output = w.run(command, "--config", "c.yaml", "--sample", "2", "--run-dir", command+"-sample")
		require.Zero(t, code, output)
		require.Len(t, w.rollouts(command+"-sample"), 2)
		code, output = w.run(command, "--config", "c.yaml", "--limit", "3", "--run-dir", command+"-limit", "--resume")
		require.Zero(t, code, output)
		require.Len(t, w.rollouts(command+"-limit"), 3)
	}
	code, output := w.run("evaluate", "--config", "c.yaml", "--sample", "2", "--limit", "2")
	require.Equal(t, 2, code, output)
	require.Contains(t, output, "can't be combined with env.max_items")
}
