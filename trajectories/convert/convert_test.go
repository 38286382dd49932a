package convert

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/trajectories"
	"github.com/hermes-env/hermes-env/trajectories/table"
)

func TestEveryFormatIsWrittenAsItsGoldenFileSays(t *testing.T) {
	dir := makeRun(t)
	for _, d := range Formats() {
		if d.Format == ATIF {
			continue // documents of their own, see below
		}
		t.Run(string(d.Format), func(t *testing.T) {
			o := Options{Inputs: []string{dir}, To: d.Format, Text: TextConfig{Parser: "hermes"}, Out: filepath.Join(t.TempDir(), "dataset"), Filter: Filter{IncludeUnscored: true}}
			report, lines := run(t, o)
			golden(t, filepath.Join("golden", string(d.Format)+".jsonl"), []byte(strings.Join(lines, "\n")+"\n"))
			card, err := os.ReadFile(filepath.Join(o.Out, "README.md"))
			require.NoError(t, err)
			golden(t, filepath.Join("golden", string(d.Format)+".md"), card)
			report.Out, report.Sources = "out", []string{"run"}
			raw, err := report.JSON()
			require.NoError(t, err)
			golden(t, filepath.Join("golden", string(d.Format)+".loss.json"), raw)
		})
	}
}

func TestParquetHoldsWhatJSONLinesHold(t *testing.T) {
	dir := makeRun(t)
	for _, d := range Formats() {
		if !d.Parquet {
			continue
		}
		t.Run(string(d.Format), func(t *testing.T) {
			o := Options{Inputs: []string{dir}, To: d.Format, Text: TextConfig{Parser: "hermes"}}
			_, lines := run(t, o)
			o.Encoding = table.Parquet
			_, rows := run(t, o)
			require.Equal(t, lines, rows)
		})
	}
}

func TestShareGPTRowsAreThoseOfTheRun(t *testing.T) {
	dir := makeRun(t)
	want, err := os.ReadFile(filepath.Join(dir, "trajectories.jsonl"))
	require.NoError(t, err)
	_, lines := run(t, Options{Inputs: []string{dir}, To: ShareGPT, Filter: Filter{IncludeUnscored: true}})
	wanted := strings.Split(strings.TrimSuffix(string(want), "\n"), "\n")
	require.Len(t, lines, len(wanted))
	for i := range wanted {
		// Columns have one form of numbers.
		require.Equal(t, strings.Replace(wanted[i], `"n":1.50}`, `"n":1.5}`, 1), lines[i])
	}
}

func TestFormatsThatCarryEverythingGiveTheRunBack(t *testing.T) {
	dir := makeRun(t)
	_, want := run(t, Options{Inputs: []string{dir}, To: Rollouts})
	for _, test := range []struct {
		to       Format
		encoding table.Encoding
	}{{Messages, table.JSONLines}, {Messages, table.Parquet}, {ATIFLines, ""}, {ATIF, ""}, {Rollouts, ""}} {
		t.Run(string(test.to)+" "+string(test.encoding), func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			report, err := Run(t.Context(), Options{Inputs: []string{dir}, To: test.to, Encoding: test.encoding, Out: out, Filter: Filter{IncludeUnscored: true}})
			require.NoError(t, err)
			require.NotContains(t, counts(report.Lost), "score")
			_, back := run(t, Options{Inputs: []string{out}, To: Rollouts})
			require.Len(t, back, len(want))
			for i := range want {
				requireSameRollout(t, want[i], back[i])
			}
		})
	}
}

// requireSameRollout compares two lines member by member; messages by what they say.
func requireSameRollout(t *testing.T, want, got string) {
	t.Helper()
	a, err := trajectories.DecodeRollout([]byte(want))
	require.NoError(t, err)
	b, err := trajectories.DecodeRollout([]byte(got))
	require.NoError(t, err)
	require.Len(t, b.Messages, len(a.Messages))
	for i := range a.Messages {
		require.JSONEq(t, string(a.Messages[i].JSON()), string(b.Messages[i].JSON()))
	}
	a.Messages, b.Messages = nil, nil
	require.Equal(t, a, b)
}

func TestShareGPTIsReadBackAsTheConversationItCameFrom(t *testing.T) {
	dir := makeRun(t)
	for _, to := range []Format{ShareGPT, ShareGPTPublished} {
		out := filepath.Join(t.TempDir(), "out")
		report, err := Run(t.Context(), Options{Inputs: []string{dir}, To: to, Out: out})
		require.NoError(t, err)
		for _, c := range report.Lost {
			require.NotContains(t, c.What, "messages", "nothing of the conversations is lost")
		}
		_, back := run(t, Options{Inputs: []string{out}, To: OpenAI})
		_, want := run(t, Options{Inputs: []string{dir}, To: OpenAI})
		require.Len(t, back, len(want))
		for i := range want {
			a, b := gjson.Parse(want[i]).Get("messages").Array(), gjson.Parse(back[i]).Get("messages").Array()
			require.Len(t, b, len(a))
			for k := range a {
				require.Equal(t, a[k].Get("tool_call_id").String(), b[k].Get("tool_call_id").String())
				require.Equal(t, a[k].Get("reasoning_content").String(), b[k].Get("reasoning_content").String())
				require.Equal(t, a[k].Get("tool_calls.#.id").String(), b[k].Get("tool_calls.#.id").String())
				require.Equal(t, a[k].Get("tool_calls.#.function.name").String(), b[k].Get("tool_calls.#.function.name").String())
			}
			require.JSONEq(t, orEmpty(gjson.Get(want[i], "tools").Raw), orEmpty(gjson.Get(back[i], "tools").Raw))
		}
	}
}

func orEmpty(raw string) string {
	if raw == "" {
		return "[]"
	}
	return raw
}

func TestPreferencePairsAreTheBestAndTheWorstOfAPrompt(t *testing.T) {
	dir := makeRun(t)
	report, lines := run(t, Options{Inputs: []string{dir}, To: Preference, Pairing: Pairing{Margin: 0.7}})
	require.Len(t, lines, 1, "item 0 has scores from 0.25 to 0.75, item 1 from 0 to 0.75")
	v := gjson.Parse(lines[0])
	require.Equal(t, "r-1-3", v.Get("rollout_id_chosen").String())
	require.Equal(t, "r-1-0", v.Get("rollout_id_rejected").String())
	require.Equal(t, 0.75, v.Get("margin").Float())
	require.Equal(t, "user", v.Get("prompt.0.role").String())
	require.Equal(t, int64(1), v.Get("prompt.#").Int())
	require.Equal(t, "assistant", v.Get("chosen.0.role").String())
	require.EqualValues(t, map[string]int64{
		"outcome verifier_error, which has no score (--include-unscored keeps it)": 1, "the scores of its prompt are closer than the margin": 3, "neither the best nor the worst of its prompt": 2,
	}, counts(report.Filtered))
}

func TestGroupsKeepTheirTokens(t *testing.T) {
	line := `{"tokens": [[1, 2, 3], [1, 4]], "masks": [[-100, 2, 3], [-100, 4]], "scores": [1.0, 0.0], "advantages": [], "ref_logprobs": [[-9.0, -9.0, -9.0], [-9.0, -9.0]], "inference_logprobs": [[-0.5, -0.25, -1.0], [-2.0, -3.0]], "messages": [[{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}], [{"role": "user", "content": "q"}, {"role": "assistant", "content": "b"}]], "group_overrides": {}, "overrides": [], "images": []}`
	path := writeLines(t, "groups.jsonl", line)
	_, back := run(t, Options{Inputs: []string{path}, To: Groups})
	require.Len(t, back, 1)
	require.JSONEq(t, gjson.Get(line, "tokens").Raw, gjson.Get(back[0], "tokens").Raw)
	require.JSONEq(t, gjson.Get(line, "masks").Raw, gjson.Get(back[0], "masks").Raw)
	require.JSONEq(t, gjson.Get(line, "messages").Raw, gjson.Get(back[0], "messages").Raw)
	require.JSONEq(t, gjson.Get(line, "inference_logprobs").Raw, gjson.Get(back[0], "inference_logprobs").Raw)
	record, lines := run(t, Options{Inputs: []string{path}, To: Rollouts})
	require.NotContains(t, counts(record.Lost), "tokens")
	require.EqualValues(t, 2, counts(record.Lost)["log-probabilities of a reference model"])
	_, again := run(t, Options{Inputs: []string{writeLines(t, "rollouts.jsonl", lines...)}, To: Groups})
	require.JSONEq(t, gjson.Get(line, "tokens").Raw, gjson.Get(again[0], "tokens").Raw)
	_, rows := run(t, Options{Inputs: []string{path}, To: Messages, Encoding: table.Parquet})
	require.Equal(t, "[1,2,3]", gjson.Get(rows[0], "tokens").Raw)
	require.Equal(t, "[-100,2,3]", gjson.Get(rows[0], "masks").Raw)
	require.Equal(t, "[-0.5,-0.25,-1.0]", gjson.Get(rows[0], "logprobs").Raw)
}

func TestFiltersCountWhyRowsAreLeftOut(t *testing.T) {
	dir := makeRun(t)
	tests := map[string]struct {
		filter Filter
		left   int
		why    map[string]int64
	}{
		"score range":        {Filter{MinScore: pointer(0.25), MaxScore: pointer(0.5)}, 4, map[string]int64{"no score": 1, "score below 0.25": 1, "score above 0.5": 2}},
		"outcome":            {Filter{Outcomes: []string{"limit"}}, 2, map[string]int64{"outcome scored": 5, "outcome verifier_error": 1}},
		"passed":             {Filter{Passed: pointer(true)}, 4, map[string]int64{"not passed": 3, "neither passed nor failed": 1}},
		"not passed":         {Filter{Passed: pointer(false)}, 3, map[string]int64{"passed": 4, "neither passed nor failed": 1}},
		"reasoning":          {Filter{WithReasoning: true}, 7, map[string]int64{"no reasoning": 1}},
		"finish reason":      {Filter{FinishReasons: []string{"length"}}, 2, map[string]int64{"finish reason stop": 5, "finish reason natural": 1}},
		"stop reason":        {Filter{FinishReasons: []string{"max_turns"}}, 2, map[string]int64{"finish reason stop": 5, "finish reason natural": 1}},
		"turns":              {Filter{MaxTurns: 1}, 1, map[string]int64{"more than 1 turns": 7}},
		"tokens":             {Filter{MaxTokens: 129}, 1, map[string]int64{"more than 129 tokens": 7}},
		"characters":         {Filter{MaxChars: 60}, 1, map[string]int64{"more than 60 characters": 7}},
		"hallucinated tools": {Filter{DropHallucinated: true}, 6, map[string]int64{"calls a tool it was not offered": 2}},
		"duplicate prompts":  {Filter{Dedupe: DedupePrompt}, 2, map[string]int64{"the same prompt as an earlier row": 6}},
		"best of group":      {Filter{BestOfGroup: true}, 2, map[string]int64{"not the best of its prompt": 6}},
		"sample":             {Filter{Sample: 3, Seed: 7}, 3, map[string]int64{"not in the sample": 5}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			report, lines := run(t, Options{Inputs: []string{dir}, To: Rollouts, Filter: test.filter})
			require.Len(t, lines, test.left)
			require.Equal(t, test.why, counts(report.Filtered))
			require.EqualValues(t, 8, report.Read)
			_, again := run(t, Options{Inputs: []string{dir}, To: Rollouts, Filter: test.filter})
			require.Equal(t, lines, again, "the same choice every time")
		})
	}
}

func TestDuplicateConversationsAreLeftOut(t *testing.T) {
	row := `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}`
	path := writeLines(t, "in.jsonl", row, strings.ReplaceAll(row, `"a"`, `"b"`), row)
	report, lines := run(t, Options{Inputs: []string{path}, To: OpenAI, Filter: Filter{Dedupe: DedupeConversation}})
	require.Len(t, lines, 2)
	require.Equal(t, map[string]int64{"the same conversation as an earlier row": 1}, counts(report.Filtered))
}

func TestOpenAIRowsKeepMessagesByteForByte(t *testing.T) {
	messages := `[{"role":"user","content":[{"type":"text","text":"a<b"},{"type":"image_url","image_url":{"url":"u"}}],"name":"n"},{"content":"x","role":"assistant","vendor":{"z":1.0,"a":2}}]`
	path := writeLines(t, "in.jsonl", `{"messages":`+messages+`,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],"source":"web"}`)
	report, lines := run(t, Options{Inputs: []string{path}, To: OpenAI})
	require.Equal(t, messages, gjson.Get(lines[0], "messages").Raw)
	require.Equal(t, "f", gjson.Get(lines[0], "tools.0.function.name").String())
	require.Equal(t, map[string]int64{"metadata": 1, "finished_naturally": 1}, withoutMadeUp(report))

	report, lines = run(t, Options{Inputs: []string{path}, To: Messages})
	require.Equal(t, "a<b", gjson.Get(lines[0], "messages.0.content").String())
	require.JSONEq(t, `{"source":"web"}`, gjson.Get(lines[0], "metadata").String())
	require.Equal(t, map[string]int64{"parts of messages that are no text": 1, "member name of messages": 1, "member vendor of messages": 1}, counts(report.Lost))
}

// withoutMadeUp are the losses; finished_naturally is made up for foreign rows and
// so never one of them.
func withoutMadeUp(r *Report) map[string]int64 {
	m := counts(r.Lost)
	m["finished_naturally"] = 1
	return m
}

func TestBrokenLinesAreCountedAndNamed(t *testing.T) {
	good := `{"conversations":[{"from":"human","value":"q"},{"from":"gpt","value":"a"}]}`
	path := writeLines(t, "in.jsonl", good, `{"conversations":[{"from"`, ``, `[1]`, `{"text":"x"}`, `{"conversations":[{"from":1,"value":"q"}]}`, good, `{"conversations":`)
	o := Options{Inputs: []string{path}, To: Messages}
	report, lines := run(t, o)
	require.Len(t, lines, 2)
	require.EqualValues(t, 5, report.Broken)
	var at []int64
	for _, b := range report.Lines {
		at = append(at, b.Line)
		require.True(t, strings.HasSuffix(b.File, "in.jsonl"))
	}
	require.Equal(t, []int64{2, 4, 5, 6, 8}, at)

	o.Strict, o.Out = true, filepath.Join(t.TempDir(), "strict")
	_, err := Run(t.Context(), o)
	require.ErrorIs(t, err, ErrUsage)
	require.ErrorContains(t, err, "in.jsonl:2")
	require.NoDirExists(t, o.Out)
}

func TestWhatCanNotBeDoneIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	dir := makeRun(t)
	taken := filepath.Join(t.TempDir(), "taken")
	require.NoError(t, os.MkdirAll(filepath.Join(taken, "precious"), 0o755))
	free := filepath.Join(t.TempDir(), "free")
	tests := map[string]struct {
		o    Options
		says string
	}{
		"no such input":               {Options{Inputs: []string{"nowhere"}, To: Messages, Out: free}, "nowhere"},
		"unknown target":              {Options{Inputs: []string{dir}, To: "xml", Out: free}, "xml"},
		"text can't be read":          {Options{Inputs: []string{dir}, From: Text, To: Messages, Out: free}, "can't be read"},
		"groups as Parquet":           {Options{Inputs: []string{dir}, To: Groups, Encoding: table.Parquet, Out: free}, "Parquet"},
		"documents in one file":       {Options{Inputs: []string{dir}, To: ATIF, Out: free + ".jsonl"}, "folder"},
		"an extension that lies":      {Options{Inputs: []string{dir}, To: Messages, Encoding: table.Parquet, Out: free + ".jsonl"}, "encoding"},
		"the output exists":           {Options{Inputs: []string{dir}, To: Messages, Out: taken}, "--overwrite"},
		"not a conversion's folder":   {Options{Inputs: []string{dir}, To: Messages, Out: taken, Overwrite: true}, "not written by a conversion"},
		"text without a format":       {Options{Inputs: []string{dir}, To: Text, Out: free}, "--parser"},
		"text of an unknown format":   {Options{Inputs: []string{dir}, To: Text, Text: TextConfig{Parser: "nope"}, Out: free}, "nope"},
		"text whose frame is unknown": {Options{Inputs: []string{dir}, To: Text, Text: TextConfig{Parser: "mistral"}, Out: free}, "--chat-template"},
		"nothing left":                {Options{Inputs: []string{dir}, To: Messages, Filter: Filter{MinScore: pointer(9.0)}, Out: free}, "7 rows: score below 9"},
		"contradictory scores":        {Options{Inputs: []string{dir}, To: Messages, Filter: Filter{MinScore: pointer(1.0), MaxScore: pointer(0.0)}, Out: free}, "--min-score"},
		"unknown outcome":             {Options{Inputs: []string{dir}, To: Messages, Filter: Filter{Outcomes: []string{"won"}}, Out: free}, "won"},
		"a margin that is negative":   {Options{Inputs: []string{dir}, To: Preference, Pairing: Pairing{Margin: -1}, Out: free}, "margin"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Run(t.Context(), test.o)
			require.ErrorIs(t, err, ErrUsage)
			require.ErrorContains(t, err, test.says)
			require.NoDirExists(t, free)
			require.DirExists(t, filepath.Join(taken, "precious"))
		})
	}
}

func TestOutputAppearsWholeOrNotAtAll(t *testing.T) {
	dir := makeRun(t)
	parent := t.TempDir()
	out := filepath.Join(parent, "out")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Run(ctx, Options{Inputs: []string{dir}, To: Messages, Out: out})
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, names(t, parent))

	// What a killed conversion left is removed by the next one; process 2^30 is no more.
	host, err := os.Hostname()
	require.NoError(t, err)
	left := filepath.Join(parent, ".out"+partial+host+"-1073741824")
	require.NoError(t, os.MkdirAll(filepath.Join(left, "data"), 0o755))
	_, _ = run(t, Options{Inputs: []string{dir}, To: Messages, Out: out})
	require.Equal(t, []string{"out"}, names(t, parent))
	require.ElementsMatch(t, []string{"README.md", "data", ReportFile}, names(t, out))

	_, lines := run(t, Options{Inputs: []string{dir}, To: OpenAI, Out: out, Overwrite: true, Filter: Filter{IncludeUnscored: true}})
	require.Len(t, lines, 8)
	require.Equal(t, []string{"out"}, names(t, parent))
}

func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func TestOneFileHasItsReportBesideIt(t *testing.T) {
	dir := makeRun(t)
	parent := t.TempDir()
	for _, name := range []string{"a.jsonl", "a.parquet"} {
		out := filepath.Join(parent, name)
		report, err := Run(t.Context(), Options{Inputs: []string{dir}, To: Messages, Out: out, Filter: Filter{IncludeUnscored: true}})
		require.NoError(t, err)
		require.EqualValues(t, 8, report.Written)
		_, back := run(t, Options{Inputs: []string{out}, To: Rollouts})
		require.Len(t, back, 8)
	}
	require.ElementsMatch(t, []string{"a.jsonl", "a.jsonl.loss.json", "a.parquet", "a.parquet.loss.json"}, names(t, parent))
}

func TestUnfinishedRowsCanHaveASplitOfTheirOwn(t *testing.T) {
	dir := makeRun(t)
	out := filepath.Join(t.TempDir(), "out")
	report, _ := run(t, Options{Inputs: []string{dir}, To: ShareGPTPublished, SplitCompleted: true, Out: out, Filter: Filter{IncludeUnscored: true}})
	require.Len(t, report.Splits, 2)
	require.EqualValues(t, 6, report.Splits[0].Rows)
	require.EqualValues(t, 2, report.Splits[1].Rows)
	card, err := os.ReadFile(filepath.Join(out, "README.md"))
	require.NoError(t, err)
	require.Contains(t, string(card), "  - split: failed\n    path: data/failed-*\n")
}

func TestEveryRowOfAFileHasTheSameColumns(t *testing.T) {
	dir := makeRun(t)
	for _, to := range []Format{Messages, ShareGPT, ShareGPTPublished, Preference} {
		_, lines := run(t, Options{Inputs: []string{dir}, To: to})
		want := columns(lines[0])
		for _, line := range lines {
			require.Equal(t, want, columns(line), to)
			for _, m := range gjson.Get(line, "messages").Array() {
				require.Equal(t, columns(gjson.Get(lines[0], "messages.0").Raw), columns(m.Raw))
			}
		}
	}
}

func columns(line string) (list []string) {
	gjson.Parse(line).ForEach(func(key, _ gjson.Result) bool {
		list = append(list, key.Str)
		return true
	})
	return list
}

func TestColumnsNobodyFillsAreLeftOutOfJSONLines(t *testing.T) {
	path := writeLines(t, "in.jsonl", `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}`)
	_, lines := run(t, Options{Inputs: []string{path}, To: Messages})
	require.NotContains(t, columns(lines[0]), "score")
	require.Equal(t, []string{"role", "content"}, columns(gjson.Get(lines[0], "messages.0").Raw))
	_, rows := run(t, Options{Inputs: []string{path}, To: Messages, Encoding: table.Parquet})
	require.Contains(t, columns(rows[0]), "score", "Parquet has types without values")
}

func TestChatTemplatesWriteTheTextOfAModel(t *testing.T) {
	path := writeLines(t, "in.jsonl", `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}`)
	config, err := json.Marshal(map[string]string{"bos_token": "<s>", "chat_template": "{{ bos_token }}{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}{{ flag }}"})
	require.NoError(t, err)
	text := TextConfig{Template: string(config), TemplateName: "tokenizer_config.json"}
	text.Variables.Set("flag", json.RawMessage(`"!"`))
	_, lines := run(t, Options{Inputs: []string{path}, To: Text, Text: text})
	require.Equal(t, "<s>[user:q][assistant:a]!", gjson.Get(lines[0], "text").String())
}

func TestConvert_RendersMessagesAsAServerDoes(t *testing.T) {
	path := writeLines(t, "in.jsonl", `{"messages":[{"role":"user","content":"q","name":"bob","mood":"calm"},{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}}]},{"role":"tool","tool_call_id":"1","content":"r"}]}`)
	template := "{% for m in messages %}[{{ m.role }}:{{ m.content }}{{ m.name }}{{ m.mood }}{% for c in m.tool_calls or [] %}{{ c.function.arguments.a }}{% endfor %}]{% endfor %}"
	report, lines := run(t, Options{Inputs: []string{path}, To: Text, Text: TextConfig{Template: template, TemplateName: "t"}})
	require.Equal(t, "[user:qbob][assistant:1][tool:r]", gjson.Get(lines[0], "text").String())
	require.Equal(t, map[string]int64{"member mood of messages": 1}, counts(report.Lost))
}

func TestCompressedAndMixedFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "b.jsonl"), []byte("\xef\xbb\xbf"+`{"messages":[{"role":"user","content":"b"}]}`), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.jsonl"), []byte(`{"conversations":[{"from":"human","value":"a"}]}`+"\r\n"), 0o644))
	_, lines := run(t, Options{Inputs: []string{dir}, To: OpenAI, Filter: Filter{IncludeUnanswered: true}})
	require.Equal(t, []string{`{"messages":[{"role":"user","content":"a"}]}`, `{"messages":[{"role":"user","content":"b"}]}`}, lines)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "c.parquet"), []byte("x"), 0o644))
	_, err := Run(t.Context(), Options{Inputs: []string{dir}, To: OpenAI, Out: filepath.Join(t.TempDir(), "out")})
	require.ErrorContains(t, err, "both Parquet and JSON Lines")
}

func TestCardOfARunNamesTheColumnsOfItsTrajectories(t *testing.T) {
	dir := makeRun(t)
	reader, err := trajectories.OpenReadOnly(dir)
	require.NoError(t, err)
	content, err := os.ReadFile(filepath.Join(dir, "trajectories.jsonl"))
	require.NoError(t, err)
	lines, err := DescribeTrajectories(bytes.NewReader(content))
	require.NoError(t, err)
	require.EqualValues(t, bytes.Count(content, []byte{'\n'}), lines.Rows)
	require.EqualValues(t, len(content), lines.Bytes)
	lines.Bytes = 100
	card := RunCard(reader.Manifest(), "run", "1.2.3", lines).Text()
	golden(t, "golden/run-card.md", []byte(card))
	line, _, _ := bytes.Cut(content, []byte{'\n'})
	for _, name := range columns(string(line)) {
		require.Contains(t, card, "\n  - name: "+name+"\n")
	}
}
