package convert

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/trajectories"
	"github.com/hermes-env/hermes-env/trajectories/table"
)

const tamperedReason = "tampered with the verification (--tampered include keeps them)"

// makeTamperedRun records two items with four attempts each; the agent of attempt 2 of
// item 0, the best of its prompt, tampered with the verification.
func makeTamperedRun(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	run, err := trajectories.Create(dir, trajectories.Info{Command: "process", Environment: "test", Config: json.RawMessage(`{"a":1}`), Version: "1", Tools: testTools(t)})
	require.NoError(t, err)
	for item := range 2 {
		for attempt := range 4 {
			r := rollout(t, item, attempt)
			if item == 0 && attempt == 2 {
				*r.Score = 1
				r.Tampering = []trajectories.Tampering{{Kind: "reward_write", Target: "/logs/verifier/reward.txt", Active: true}, {Kind: "replaced", Target: "/usr/bin/curl"}}
			}
			require.NoError(t, run.Append(t.Context(), r))
		}
	}
	require.NoError(t, run.Close(trajectories.StatusDone))
	return dir
}

func TestRun_LeavesTamperedRolloutsOutOfTrainingData(t *testing.T) {
	dir := makeTamperedRun(t)
	for _, d := range Formats() {
		if d.Format == ATIF {
			continue // written as atif-jsonl is, in files of its own
		}
		t.Run(string(d.Format), func(t *testing.T) {
			o := Options{Inputs: []string{dir}, To: d.Format, Text: TextConfig{Parser: "hermes"}}
			report, lines := run(t, o)
			switch d.Format {
			case Rollouts, ATIFLines:
				require.EqualValues(t, 8, report.Kept, "a record of what happened is whole")
				require.NotContains(t, counts(report.Filtered), tamperedReason)
			default:
				require.EqualValues(t, 1, counts(report.Filtered)[tamperedReason])
				require.NotContains(t, strings.Join(lines, "\n"), "r-0-2")
			}
			o.Filter.Tampered = trajectories.TamperedInclude
			report, _ = run(t, o)
			require.NotContains(t, counts(report.Filtered), tamperedReason)
		})
	}
}

func TestRun_PrefersNoTamperedRollout(t *testing.T) {
	_, lines := run(t, Options{Inputs: []string{makeTamperedRun(t)}, To: Preference})
	require.Equal(t, "r-0-3", gjson.Get(lines[0], "rollout_id_chosen").String(), "the best of those that count")
	_, lines = run(t, Options{Inputs: []string{makeTamperedRun(t)}, To: Messages, Filter: Filter{BestOfGroup: true}})
	require.Equal(t, "r-0-3", gjson.Get(lines[0], "rollout_id").String())
}

func TestFilter_ChoosesByTampering(t *testing.T) {
	dir := makeTamperedRun(t)
	ids := func(input string, filter trajectories.TamperedFilter) []string {
		_, lines := run(t, Options{Inputs: []string{input}, To: Messages, Filter: Filter{Tampered: filter, IncludeUnscored: true}})
		var list []string
		for _, l := range lines {
			list = append(list, gjson.Get(l, "rollout_id").String())
		}
		return list
	}
	require.ElementsMatch(t, []string{"r-0-2"}, ids(dir, trajectories.TamperedOnly))
	require.ElementsMatch(t, []string{"r-0-1", "r-1-1"}, ids(dir, trajectories.TamperedNoted))
	require.Len(t, ids(dir, trajectories.TamperedExclude), 7)
	require.Len(t, ids(dir, trajectories.TamperedInclude), 8)
	require.ElementsMatch(t, []string{"r-0-2"}, ids(filepath.Join(dir, "trajectories.jsonl"), trajectories.TamperedOnly), "rows of a run say so too")

	_, err := Run(t.Context(), Options{Inputs: []string{dir}, To: Messages, Out: filepath.Join(t.TempDir(), "x"), Filter: Filter{Tampered: "yes"}})
	require.ErrorIs(t, err, ErrUsage)
	require.ErrorContains(t, err, `--tampered: "yes" is not a choice of rollouts`)
}

func TestRun_CarriesTamperingThroughEveryFormatThatCan(t *testing.T) {
	dir := makeTamperedRun(t)
	want := map[string][]trajectories.Tampering{}
	run0, err := trajectories.OpenReadOnly(dir)
	require.NoError(t, err)
	require.NoError(t, run0.Each(func(r *trajectories.Rollout) error { want[r.ID] = r.Tampering; return nil }))
	for _, format := range []Format{Rollouts, Messages, ShareGPT, ATIFLines} {
		for _, encoding := range []table.Encoding{table.JSONLines, table.Parquet} {
			if encoding == table.Parquet && !describe(format).Parquet {
				continue
			}
			out := filepath.Join(t.TempDir(), "out")
			report, _ := run(t, Options{Inputs: []string{dir}, To: format, Encoding: encoding, Out: out, Filter: Filter{Tampered: trajectories.TamperedInclude, IncludeUnscored: true}})
			require.NotContains(t, counts(report.Lost), "tampering", format)
			_, lines := run(t, Options{Inputs: []string{out}, To: Rollouts})
			require.Len(t, lines, 8, format)
			for _, l := range lines {
				r, err := trajectories.DecodeRollout([]byte(l))
				require.NoError(t, err)
				require.Equal(t, want[r.ID], r.Tampering, "%s %s", format, encoding)
				require.NotContains(t, string(r.Metadata), "tamper")
			}
		}
	}
}

func TestDecode_KeepsAForeignColumnTampered(t *testing.T) {
	path := writeLines(t, "x.jsonl", `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}],"tampered":true}`)
	_, lines := run(t, Options{Inputs: []string{path}, To: Rollouts})
	require.Len(t, lines, 1)
	require.True(t, gjson.Get(lines[0], "metadata.tampered").Bool())
	require.False(t, gjson.Get(lines[0], "tampering").Exists())
}
