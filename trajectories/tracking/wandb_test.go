package tracking

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// steadyClock goes on by a quarter of a second with every look.
func steadyClock() func() time.Time {
	at := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	return func() time.Time {
		now := at
		at = at.Add(250 * time.Millisecond)
		return now
	}
}

func rollouts(rows ...RolloutRow) Table {
	t := Table{Name: "train/rollouts", Columns: []string{"text", "score"}}
	for _, r := range rows {
		t.Rows = append(t.Rows, []Cell{TextCell(r.Text), NumberCell(r.Score)})
	}
	return t
}

// writeRun writes a run of two steps into dir.
func writeRun(t *testing.T, dir string, first int) *Wandb {
	w, err := NewWandb(WandbConfig{
		Dir: dir, Project: "p", Group: "g", Name: "toy-2026-11-21-abcdef", JobType: "process", Host: "h", Producer: "hermes-env test",
		Config: json.RawMessage(`{"group_size":4,"tokenizer_name":"<ü>","openai":{"model_name":"m"}}`), FirstStep: first, Now: steadyClock(),
	})
	require.NoError(t, err)
	require.NoError(t, w.Log(first+1, []Metric{{"train/items_sent_to_api", 2}, {"train/score", 0.25}}, []Table{rollouts(RolloutRow{"a <b> \"ü\"\n", 1}, RolloutRow{"", -0.5})}))
	require.NoError(t, w.Log(first+1, []Metric{{"train/score", 0.5}}, nil))
	require.NoError(t, w.Log(first+4, []Metric{{"train/items_sent_to_api", 3}}, nil))
	require.NoError(t, w.Close())
	return w
}

func wandbFile(w *Wandb) string { return filepath.Join(w.Dir(), "run-"+w.ID()+".wandb") }

func TestAnOfflineRunHoldsConfigurationRowsSummaryAndEnd(t *testing.T) {
	w := writeRun(t, filepath.Join(t.TempDir(), "wandb"), 0)
	require.Regexp(t, `^offline-run-20261121_060000-[a-z0-9]{8}$`, filepath.Base(w.Dir()))
	records := readWandb(t, wandbFile(w))
	require.Equal(t, []int{21, 17, 6, 2, 3, 2, 3, 18, 20, 22}, kinds(records))
	for i, r := range records {
		require.EqualValues(t, i+1, r.num)
	}
	run := records[1].payload
	require.Equal(t, w.ID(), string(only(t, run, 1)))
	require.Equal(t, "p", string(only(t, run, 3)))
	require.Equal(t, "g", string(only(t, run, 6)))
	require.Equal(t, "process", string(only(t, run, 7)))
	require.Equal(t, "toy-2026-11-21-abcdef", string(only(t, run, 8)))
	require.Equal(t, "h", string(only(t, run, 13)))
	require.EqualValues(t, time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC).Unix(), fields(t, only(t, run, 17))[0].number)
	require.Equal(t, map[string]string{"group_size": "4", "tokenizer_name": `"<ü>"`, "openai": `{"model_name":"m"}`}, items(t, only(t, run, 4), 1))

	history := items(t, records[3].payload, 1)
	require.Equal(t, "2", history["train/items_sent_to_api"])
	require.Equal(t, "0.5", history["train/score"], "the later value of one step wins")
	require.Equal(t, "1", history["_step"])
	require.Contains(t, history["_timestamp"], "1795240800.")
	require.EqualValues(t, 1, fields(t, only(t, records[3].payload, 2))[0].number)
	require.Equal(t, "4", items(t, records[5].payload, 1)["_step"])

	summary := items(t, records[6].payload, 1)
	require.Equal(t, "3", summary["train/items_sent_to_api"])
	require.Equal(t, "0.5", summary["train/score"], "what the last row lacks keeps its value")
	require.Equal(t, "4", summary["_step"])
	require.JSONEq(t, `{"runtime":0}`, summary["_wandb"])
}

func TestTheFileOfATableIsWhatItsRowSays(t *testing.T) {
	w := writeRun(t, t.TempDir(), 0)
	records := readWandb(t, wandbFile(w))
	path := string(only(t, only(t, records[2].payload, 1), 1))
	require.Regexp(t, `^media/table/train/rollouts_1_[0-9a-f]{20}\.table\.json$`, path)
	content, err := os.ReadFile(filepath.Join(w.Dir(), "files", path))
	require.NoError(t, err)
	require.JSONEq(t, `{"columns":["text","score"],"data":[["a <b> \"ü\"\n",1],["",-0.5]]}`, string(content))
	digest := sha256.Sum256(content)
	var value struct {
		Type  string `json:"_type"`
		NCols int    `json:"ncols"`
		NRows int    `json:"nrows"`
		SHA   string `json:"sha256"`
		Size  int    `json:"size"`
		Path  string `json:"path"`
	}
	require.NoError(t, json.Unmarshal([]byte(items(t, records[3].payload, 1)["train/rollouts"]), &value))
	require.Equal(t, "table-file", value.Type)
	require.Equal(t, []int{2, 2, len(content)}, []int{value.NCols, value.NRows, value.Size})
	require.Equal(t, hex.EncodeToString(digest[:]), value.SHA)
	require.Equal(t, path, value.Path)
}

func TestALaterSessionGoesOnUnderTheSameID(t *testing.T) {
	dir := t.TempDir()
	first := writeRun(t, dir, 0)
	second := writeRun(t, dir, 4)
	require.Equal(t, first.ID(), second.ID())
	require.NotEqual(t, first.Dir(), second.Dir())
	run := readWandb(t, wandbFile(second))[1].payload
	var start, resumed uint64
	for _, f := range fields(t, run) {
		switch f.num {
		case 14:
			start = f.number
		case 18:
			resumed = f.number
		}
	}
	require.EqualValues(t, 4, start)
	require.EqualValues(t, 1, resumed)
	require.Equal(t, "wandb sync --append "+dir+"/offline-run-*-"+first.ID(), second.SyncCommand())
}

func TestARunThatWasKilledReadsUpToItsLastRow(t *testing.T) {
	w, err := NewWandb(WandbConfig{Dir: t.TempDir()})
	require.NoError(t, err)
	for step := range 60 {
		require.NoError(t, w.Log(step, []Metric{{"train/score", float64(step)}}, nil))
	}
	records := readWandb(t, wandbFile(w)) // the file as it stands without Close
	last := records[len(records)-1]
	require.Equal(t, "58", items(t, last.payload, 1)["train/score"], "the row of step 59 may still grow")
	summaries := 0
	for _, r := range records {
		if r.kind == 3 {
			summaries++
		}
	}
	require.Equal(t, 3, summaries, "a killed run has a summary of its own")
	data, err := os.ReadFile(wandbFile(w))
	require.NoError(t, err)
	whole, _ := readFrames(data)
	for cut := len(data) - 40; cut < len(data); cut++ {
		got, err := readFrames(data[:cut])
		require.ErrorIs(t, err, errTorn)
		require.Equal(t, whole[:len(got)], got)
	}
	require.NoError(t, w.Close())
}

func TestRecordsOfAnySizeSurviveTheirBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.OneOf(rapid.IntRange(0, 40), rapid.IntRange(32740, 32790), rapid.IntRange(65500, 65560), rapid.IntRange(0, 100_000))
		data := wandbHead()
		var want [][]byte
		for range rapid.IntRange(1, 12).Draw(t, "records") {
			record := []byte(strings.Repeat("x", size.Draw(t, "size")))
			want = append(want, record)
			data = appendWandbFrame(data, int64(len(data)), record)
		}
		got, err := readFrames(data)
		require.NoError(t, err)
		require.Len(t, got, len(want))
		for i := range want {
			require.Equal(t, string(want[i]), string(got[i]))
		}
	})
}

func TestTheBytesOfARunStayTheSame(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "offline-run-20261120_000000-golden00"), 0o755))
	got, err := os.ReadFile(wandbFile(writeRun(t, dir, 0)))
	require.NoError(t, err)
	golden := filepath.Join("testdata", "run.wandb")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(golden, got, 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestNamesOfTablesStayInsideTheRun(t *testing.T) {
	for name, want := range map[string]string{
		"train/rollouts": "train/rollouts", "../../etc/passwd": "etc/passwd", "/": "table", "a b*[?]/ü": "a_b____/_", "..": "table", "toy_0_train/rollouts": "toy_0_train/rollouts",
	} {
		require.Equal(t, want, safePath(name))
	}
}

func TestABadConfigurationOrDirectoryIsAnErrorOfTheBeginning(t *testing.T) {
	for _, config := range []string{`[1]`, `{"a":`, `7`} {
		_, err := NewWandb(WandbConfig{Dir: t.TempDir(), Config: json.RawMessage(config)})
		require.ErrorContains(t, err, "configuration")
	}
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	_, err := NewWandb(WandbConfig{Dir: file})
	require.ErrorContains(t, err, file)
}
