package convert

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hermes-env/hermes-env/trajectories/table"
	"github.com/stretchr/testify/require"
)

func TestFilesIn_LeavesOutTheSameRolloutsInAnotherFormat(t *testing.T) {
	dir := makeRun(t)
	record, err := os.ReadFile(filepath.Join(dir, "rollouts.jsonl"))
	require.NoError(t, err)
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "z-record.jsonl"), record, 0o644))
	view := filepath.Join(folder, "a-rows.jsonl")
	report, _ := run(t, Options{Inputs: []string{dir}, To: ShareGPT, Out: view, Filter: Filter{IncludeUnscored: true}})
	require.Positive(t, report.Written)
	require.NoError(t, os.Remove(view+"."+ReportFile))
	other := filepath.Join(folder, "b-other.jsonl")
	require.NoError(t, os.WriteFile(other, []byte(answeredLine+"\n"), 0o644))
	files, err := FilesIn(folder)
	require.NoError(t, err)
	require.Equal(t, []string{other, filepath.Join(folder, "z-record.jsonl")}, files)

	// Parts of one data set have one format.
	require.NoError(t, os.WriteFile(filepath.Join(folder, "z2-record.jsonl"), record, 0o644))
	files, err = FilesIn(folder)
	require.NoError(t, err)
	require.Len(t, files, 3)
}

func TestFilesIn_LeavesOutConversionsBesideRuns(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "run")
	require.NoError(t, os.Rename(makeRun(t), dir))
	for _, encoding := range []table.Encoding{table.JSONLines, table.Parquet} {
		run(t, Options{Inputs: []string{dir}, To: Messages, Encoding: encoding, Out: dir + "-" + string(encoding), Filter: Filter{IncludeUnscored: true}})
	}
	files, err := FilesIn(parent)
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(dir, "rollouts.jsonl")}, files)
	files, err = FilesIn(dir + "-" + string(table.JSONLines))
	require.NoError(t, err)
	require.Len(t, files, 1)
}

func TestRun_CountsHalvesOfSurrogatePairs(t *testing.T) {
	path := writeLines(t, "x.jsonl",
		`{"messages":[{"role":"user","content":"\ud83d\ude00 \\ud83d"},{"role":"assistant","content":"fine"}]}`,
		`{"messages":[{"role":"user","content":"\ud83d"},{"role":"assistant","content":"a"}]}`,
		`{"messages":[{"role":"user","content":"\ude00\ud83d\n"},{"role":"assistant","content":"a"}]}`)
	report, _ := run(t, Options{Inputs: []string{path}, To: Messages})
	require.EqualValues(t, 2, counts(report.Lost)[lossSurrogates])
	report, _ = run(t, Options{Inputs: []string{path}, To: OpenAI})
	require.Zero(t, counts(report.Lost)[lossSurrogates])
	report, _ = run(t, Options{Inputs: []string{path}, For: OpenAITuning})
	require.EqualValues(t, 2, counts(report.Lost)[lossSurrogates])
}
