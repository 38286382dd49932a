package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/env/cli"
)

// evaluated runs the demonstration once into the directory name.
func (p *program) evaluated(name string, flags ...string) {
	p.t.Helper()
	p.write("quick.yaml", quickstart)
	code, _, stderr := p.run(append([]string{"evaluate", "--config", "quick.yaml", "--run-dir", name}, flags...)...)
	require.Equal(p.t, cli.ExitOK, code, stderr)
}

func TestAReportIsOneFileInTheRunDirectory(t *testing.T) {
	p := newProgram(t)
	p.evaluated("out")
	code, stdout, stderr := p.run("report", "out", "--price-prompt", "1")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, filepath.Join("out", "report.html"))
	page, err := os.ReadFile("out/report.html")
	require.NoError(t, err)
	require.Contains(t, string(page), "0.875")
	require.Contains(t, string(page), "pass@2")
	require.Equal(t, 8, strings.Count(string(page), `<script type="text/plain"`))

	code, stdout, _ = p.run("report", "out", "--out", "-")
	require.Equal(t, cli.ExitOK, code)
	require.Contains(t, stdout, "<!doctype html>")

	code, _, stderr = p.run("evaluate", "--config", "quick.yaml", "--run-dir", "out", "--resume")
	require.Equal(t, cli.ExitOK, code, "a report in the directory keeps nobody from resuming: %s", stderr)
}

func TestAReportOfAnOracleSaysWhatItIs(t *testing.T) {
	p := newProgram(t)
	p.evaluated("out", "--agent", "oracle")
	code, _, stderr := p.run("report", "out")
	require.Equal(t, cli.ExitOK, code)
	require.Contains(t, stderr, "the score checks the environment")
}

func TestStatsDescribeRunsAndFiles(t *testing.T) {
	p := newProgram(t)
	p.evaluated("out")
	for _, args := range [][]string{{"out", "--invalid-arguments", "keep", "--to", "messages", "-o", "folder", "--encoding", "parquet"}, {"out", "--invalid-arguments", "keep", "--to", "sharegpt", "-o", "rows.parquet"}} {
		code, _, stderr := p.run(append([]string{"convert"}, args...)...)
		require.Equal(t, cli.ExitOK, code, stderr)
	}
	for _, source := range []string{"out", "out/rollouts.jsonl", "out/trajectories.jsonl", "out/samples.jsonl", "folder", "rows.parquet"} {
		code, stdout, stderr := p.run("stats", source)
		require.Equal(t, cli.ExitOK, code, stderr)
		require.Contains(t, stdout, "rows         8 of 4 items", source)
		require.Contains(t, stdout, "mean score   0.875", source)
		require.Contains(t, stdout, "terminal", source)
		code, stdout, _ = p.run("stats", source, "--json")
		require.Equal(t, cli.ExitOK, code)
		require.Equal(t, int64(8), gjson.Get(stdout, "rows").Int(), source)
		require.Equal(t, int64(8), gjson.Get(stdout, "score.n").Int(), source)
	}
	raw, err := os.ReadFile("out/trajectories.jsonl")
	require.NoError(t, err)
	p.write("broken.jsonl", string(raw)+"{\n")
	code, stdout, _ := p.run("stats", "broken.jsonl", "--html", "s.html")
	require.Equal(t, cli.ExitOK, code)
	require.Contains(t, stdout, "broken.jsonl line 9: not valid JSON")
	page, err := os.ReadFile("s.html")
	require.NoError(t, err)
	require.Contains(t, string(page), "broken.jsonl line 9")
}

func TestARunComparedWithItselfShowsNoDifference(t *testing.T) {
	p := newProgram(t)
	p.evaluated("a")
	code, stdout, stderr := p.run("compare", "a", "a", "--fail-if-worse")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "no difference")
}

func TestAWorseRunIsCalledWorse(t *testing.T) {
	p := newProgram(t)
	p.evaluated("good", "--agent", "oracle")
	p.evaluated("bad", "--agent", "nop")
	code, stdout, stderr := p.run("compare", "good", "bad", "--fail-if-worse")
	require.Equal(t, cli.ExitBelow, code)
	require.Contains(t, stderr, "B is worse")
	require.Contains(t, stdout, "passed in most attempts of A, not of B: 4")
	require.Contains(t, stdout, `agent: "oracle" -> "nop"`)
	code, stdout, _ = p.run("compare", "good", "bad", "--json")
	require.Equal(t, cli.ExitOK, code)
	require.True(t, json.Valid([]byte(stdout)))
	require.Equal(t, -1.0, gjson.Get(stdout, "paired.difference").Float())
	require.Len(t, gjson.Get(stdout, "lost").Array(), 4)
	require.Equal(t, "nop", gjson.Get(stdout, "b.model").String()[len("agent "):])
}

func TestRunsOfOtherEnvironmentsAreNotCompared(t *testing.T) {
	p := newProgram(t)
	p.evaluated("a")
	p.evaluated("b")
	raw, err := os.ReadFile("b/run.json")
	require.NoError(t, err)
	p.write("b/run.json", strings.Replace(string(raw), `"environment": "terminal-test"`, `"environment": "other"`, 1))
	code, _, stderr := p.run("compare", "a", "b")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "of environment terminal-test and b of other")
}

func TestExportsCanBeCheckedAgain(t *testing.T) {
	p := newProgram(t)
	p.evaluated("out")
	code, stdout, stderr := p.run("export", "harbor", "out", "--out", "jobs", "--job-name", "j")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "8 trials of 4 tasks")
	code, stdout, _ = p.run("export", "check", "--strict", "jobs")
	require.Equal(t, cli.ExitOK, code)
	require.Contains(t, stdout, "8 of 8 documents are valid")
	code, _, stderr = p.run("export", "harbor", "out", "--out", "jobs", "--job-name", "j")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "exists already")

	code, stdout, stderr = p.run("export", "atif", "out", "--out", "atif")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "8 trajectories")
	p.write("atif/other.json", `{"name":"not a trajectory"}`)
	code, stdout, stderr = p.run("export", "check", "--strict", "atif")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "8 of 8 documents are valid")
	// A folder of runs holds every rollout once.
	code, stdout, stderr = p.run("stats", ".", "--json")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.EqualValues(t, 8, gjson.Get(stdout, "rows").Int(), stdout)
	code, _, stderr = p.run("export", "atif", "out", "--out", "atif")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "is not empty")

	p.write("bad.json", `{"schema_version":"ATIF-v1.7"}`)
	code, stdout, _ = p.run("export", "check", "bad.json")
	require.Equal(t, cli.ExitProblems, code)
	require.Contains(t, stdout, "bad.json: agent: missing")

	code, stdout, stderr = p.run("export", "harbor", "out", "--leaderboard", "--out", "board")
	require.Equal(t, cli.ExitBelow, code)
	require.Contains(t, stdout, "would be rejected: the run is of terminal-test")
	require.Contains(t, stderr, "would reject")
}

func TestWrongInputIsExplained(t *testing.T) {
	p := newProgram(t)
	p.evaluated("runs/one")
	p.write("file.jsonl", "{}\n")
	require.NoError(t, os.Mkdir("empty", 0o755))
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"report", "nowhere"}, "runs near it: runs/one"},
		{[]string{"report", "file.jsonl"}, "is a file: give the run directory"},
		{[]string{"report", "runs/one", "--size", "0"}, "want a number from 1"},
		{[]string{"report", "runs/one", "--price-prompt", "-1"}, "want a price in USD"},
		{[]string{"stats", "nowhere"}, "nowhere does not exist"},
		{[]string{"stats", "empty"}, "holds no run and no .jsonl, .parquet or .json file"},
		{[]string{"stats", "file.jsonl"}, "line 1: neither a rollout nor"},
		{[]string{"stats", "runs/one", "--top", "0"}, "want 1 to 1000"},
		{[]string{"compare", "runs/one", "empty"}, "runs near it"},
		{[]string{"export", "harbor", "runs/one", "--job-name", "../x"}, "is no name for a job"},
		{[]string{"export", "check", "empty"}, "there is no trajectory.json"},
	} {
		code, _, stderr := p.run(test.args...)
		require.Equal(t, cli.ExitUsage, code, "%v: %s", test.args, stderr)
		require.Contains(t, stderr, test.want, "%v", test.args)
	}
	code, _, stderr := p.run("report", "runs/one", "--out", "nowhere/r.html")
	require.Equal(t, cli.ExitStore, code)
	require.Contains(t, stderr, "nowhere/r.html")
}
