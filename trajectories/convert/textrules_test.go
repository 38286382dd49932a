package convert

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// chatLine is a row of messages, of which those with odd numbers are the model's.
func chatLine(texts ...string) string {
	var messages []chat.Message
	for i, text := range texts {
		if i%2 == 1 {
			messages = append(messages, chat.Assistant(text, ""))
		} else {
			messages = append(messages, chat.User(text))
		}
	}
	return `{"messages":` + string(chat.AppendMessages(nil, messages)) + `}`
}

// essay returns n words that are the same for the same seed.
func essay(seed uint64, n int) string {
	random := rand.New(rand.NewPCG(seed, 1))
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint("word", random.IntN(5000))
	}
	return strings.Join(list, " ")
}

func removedRows(t *testing.T, path string) (list []Removed) {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	for line := range strings.Lines(string(content)) {
		var r Removed
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		list = append(list, r)
	}
	return list
}

func TestRun_LeavesNearDuplicatesOut(t *testing.T) {
	a, b := essay(1, 300), essay(2, 300)
	system := `{"messages":[{"role":"system","content":"` + essay(9, 2000) + `"},`
	path := writeLines(t, "in.jsonl",
		chatLine(a, "short one"), chatLine(strings.ToUpper(a)+"!", "short two"), chatLine(b, "short one"),
		system+`{"role":"user","content":"`+essay(3, 60)+`"}]}`, system+`{"role":"user","content":"`+essay(4, 60)+`"}]}`)
	list := filepath.Join(t.TempDir(), "removed.jsonl")
	o := Options{Inputs: []string{path}, To: Messages, Removed: list, Filter: Filter{IncludeUnanswered: true, Text: TextFilter{NearDuplicates: 0.8}}}
	report, lines := run(t, o)
	require.Equal(t, map[string]int64{"similar to an earlier row by 0.8 or more (--near-duplicates)": 1}, counts(report.Filtered))
	require.Len(t, lines, 4, "the same system message makes no duplicate")
	removed := removedRows(t, list)
	require.Len(t, removed, 1)
	require.EqualValues(t, 2, removed[0].Line)
	require.Equal(t, &Place{filepath.ToSlash(path), 1}, removed[0].SimilarTo)
	require.Greater(t, removed[0].Similarity, 0.9)

	o.Filter.Text.NearDuplicateIn, o.Removed = AnswersPart, ""
	report, _ = run(t, o)
	require.Equal(t, map[string]int64{"similar to an earlier row by 0.8 or more (--near-duplicates)": 1}, counts(report.Filtered), "the answers of the first and the third row; rows without answers are kept")
}

func TestRun_ChoosesTheSameNearDuplicatesEveryTime(t *testing.T) {
	var lines []string
	for i := range 400 {
		words := strings.Fields(essay(uint64(i%60), 80))
		words[i/60*7] = "changed"
		lines = append(lines, chatLine(strings.Join(words, " "), "ok"))
	}
	path := writeLines(t, "in.jsonl", lines...)
	dir := t.TempDir()
	var first string
	for i := range 3 {
		list := filepath.Join(dir, fmt.Sprint("removed", i))
		run(t, Options{Inputs: []string{path}, To: Messages, Removed: list, Filter: Filter{Text: TextFilter{NearDuplicates: 0.7}}})
		content, err := os.ReadFile(list)
		require.NoError(t, err)
		require.NotEmpty(t, content)
		if i == 0 {
			first = string(content)
		}
		require.Equal(t, first, string(content))
	}
}

func TestRun_RemovesRowsOfEvaluationSets(t *testing.T) {
	question := "A train leaves the station at noon and travels north at sixty miles an hour. How far has it gone at three?"
	sets := t.TempDir()
	for name, content := range map[string]string{
		"sums/test.jsonl": `{"id":1,"question":"` + question + `","answer":"180"}` + "\n" + `{"id":2,"question":"` + essay(5, 30) + `","answer":"7"}` + "\n" + `{"id":3,"question":"too short","answer":"1"}` + "\n",
		"facts.json":      `[{"q":"` + essay(6, 20) + `","a":"` + essay(7, 20) + `"}]`,
	} {
		path := filepath.Join(sets, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	}
	input := writeLines(t, "in.jsonl",
		chatLine("Solve: "+strings.ToLower(question), "180 miles"), chatLine("What is new?", "Here is something: "+essay(7, 20)), chatLine(essay(8, 50), essay(9, 50)), `{"messages":`)
	list := filepath.Join(t.TempDir(), "removed.jsonl")
	o := Options{Inputs: []string{input}, To: Messages, Removed: list, Filter: Filter{Text: TextFilter{Decontaminate: []string{filepath.Join(sets, "sums"), filepath.Join(sets, "facts.json")}}}}
	report, lines := run(t, o)
	require.Len(t, lines, 1)
	require.Equal(t, map[string]int64{
		"text of the evaluation set " + o.Filter.Text.Decontaminate[0] + " (--decontaminate)": 1,
		"text of the evaluation set " + o.Filter.Text.Decontaminate[1] + " (--decontaminate)": 1,
	}, counts(report.Filtered))
	require.Len(t, report.EvaluationSets, 2)
	for i, want := range []EvaluationSet{{Path: o.Filter.Text.Decontaminate[0], Rows: 3, Short: 1, Found: 1, Left: 1}, {Path: o.Filter.Text.Decontaminate[1], Rows: 1, Found: 1, Left: 1, first: 3}} {
		require.Equal(t, want, report.EvaluationSets[i])
	}
	removed := removedRows(t, list)
	require.Len(t, removed, 3)
	require.Equal(t, Evaluation{Place: Place{filepath.ToSlash(filepath.Join(sets, "sums", "test.jsonl")), 1}, Share: 1, Text: "a train leaves the station at noon and travels north at sixty miles", Rows: 1}, *removed[0].Evaluation)
	require.EqualValues(t, 1, removed[1].Evaluation.Line)
	require.Contains(t, removed[2].Reason, "could not be read: not valid JSON")

	o.Filter.Text.DecontaminateIn, o.Removed = PromptPart, ""
	_, lines = run(t, o)
	require.Len(t, lines, 2, "the answer with a text of the set stays")
	o.Filter.Text.DecontaminateFields = []string{"answer", "a"}
	o.Out = filepath.Join(t.TempDir(), "out")
	_, err := Run(t.Context(), o)
	require.ErrorIs(t, err, ErrUsage)
	require.ErrorContains(t, err, "none of its 3 rows")
	o.Out = ""
	o.Filter.Text.DecontaminateFields = []string{"question", "q"}
	_, lines = run(t, o)
	require.Len(t, lines, 2)
}

func TestRun_TakesTheUsersMessagesOfEvaluationConversations(t *testing.T) {
	system := essay(1, 60)
	set := writeLines(t, "eval.jsonl", `{"messages":[{"role":"system","content":"`+system+`"},{"role":"user","content":"`+essay(2, 30)+`"},{"role":"assistant","content":"`+essay(3, 30)+`"}]}`)
	input := writeLines(t, "in.jsonl", `{"messages":[{"role":"system","content":"`+system+`"},{"role":"user","content":"hello"}]}`, chatLine(essay(2, 30), "a"), chatLine("b", essay(3, 30)))
	_, lines := run(t, Options{Inputs: []string{input}, To: OpenAI, Filter: Filter{IncludeUnanswered: true, Text: TextFilter{Decontaminate: []string{set}}}})
	require.Len(t, lines, 2)
	require.NotContains(t, lines[1], essay(2, 30))
}

func TestRun_RefusesEvaluationSetsThatCanNotBeRead(t *testing.T) {
	input := writeLines(t, "in.jsonl", chatLine("q", "a"))
	for content, says := range map[string]string{"{\n": "row 1: not valid JSON", "plain text\n": "row 1", `{"q":"short"}` + "\n": "8 words"} {
		set := writeLines(t, "eval.jsonl", strings.TrimSuffix(content, "\n"))
		out := filepath.Join(t.TempDir(), "out")
		_, err := Run(t.Context(), Options{Inputs: []string{input}, To: Messages, Out: out, Filter: Filter{Text: TextFilter{Decontaminate: []string{set}}}})
		require.ErrorIs(t, err, ErrUsage)
		require.ErrorContains(t, err, says)
		require.NoDirExists(t, out)
	}
}

func TestRun_FiltersRowsByTheirTexts(t *testing.T) {
	english := "The function reads the file line by line and returns the number of words that it has found there."
	german := "Die Funktion liest die Datei Zeile für Zeile und gibt die Anzahl der gefundenen Wörter danach zurück."
	loop := strings.Repeat("let me try this once more and ", 30)
	reasoned := `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"ok","reasoning_content":"` + german + `"}]}`
	called := `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"I'm sorry, I can't help without a look.","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"secret\":\"k-123\"}"}}]},{"role":"tool","tool_call_id":"1","content":"r"},{"role":"assistant","content":"done"}]}`
	path := writeLines(t, "in.jsonl", chatLine("q", english), chatLine("q", german), chatLine("q", loop), chatLine("q", "<think>Is it allowed?</think>I'm sorry, but I can't assist with that."), reasoned, called)
	tests := map[string]struct {
		filter TextFilter
		why    map[string]int64
	}{
		"repetition":  {TextFilter{MaxRepetition: 0.3}, map[string]int64{"more than 0.3 of an answer is repetition (--max-repetition)": 1}},
		"refusals":    {TextFilter{DropRefusals: true}, map[string]int64{"the model refuses (--drop-refusals)": 1}},
		"language":    {TextFilter{Languages: []string{"en"}}, map[string]int64{"language de of the answers (--language)": 1, "language de of the reasoning (--language)": 1}},
		"drop":        {TextFilter{DropMatching: []string{`nothing`, `k-\d+`}}, map[string]int64{`matches "k-\\d+" (--drop-matching)`: 1}},
		"drop, part":  {TextFilter{DropMatching: []string{`k-\d+`, "^q$"}, MatchIn: PromptPart}, map[string]int64{`matches "^q$" (--drop-matching)`: 6}},
		"keep":        {TextFilter{KeepMatching: []string{`(?i)FUNK?C?TION`}, MatchIn: AnswersPart}, map[string]int64{`does not match "(?i)FUNK?C?TION" (--keep-matching)`: 3}},
		"all of them": {TextFilter{MaxRepetition: 0.3, DropRefusals: true, Languages: []string{"en", "de"}}, map[string]int64{"more than 0.3 of an answer is repetition (--max-repetition)": 1, "the model refuses (--drop-refusals)": 1}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			o := Options{Inputs: []string{path}, To: Messages, Out: filepath.Join(t.TempDir(), "out"), Filter: Filter{Text: test.filter}}
			report, err := Run(t.Context(), o)
			if report.Kept > 0 {
				require.NoError(t, err)
			}
			require.Equal(t, test.why, counts(report.Filtered))
		})
	}
}

func TestFilter_ChecksWhatTextsAreFilteredBy(t *testing.T) {
	for says, filter := range map[string]TextFilter{
		"--near-duplicates is 0.2":    {NearDuplicates: 0.2},
		"--near-duplicates-in":        {NearDuplicateIn: "tools"},
		"--decontaminate-share":       {DecontaminateShare: 50},
		"--max-repetition is 30":      {MaxRepetition: 30},
		"--language: unknown":         {Languages: []string{"english"}},
		"--drop-matching: error pars": {DropMatching: []string{"("}},
		"--keep-matching: error pars": {KeepMatching: []string{"("}},
		"must not be negative":        {NearDuplicateWords: -1},
	} {
		require.ErrorContains(t, (&Filter{Text: filter}).Check(), says)
	}
}

func TestRun_ListsEveryRowThatIsLeftOut(t *testing.T) {
	dir := makeRun(t)
	for _, test := range []Options{
		{To: Messages, Filter: Filter{MinScore: pointer(0.25), Sample: 2, Seed: 3}},
		{To: Preference, Pairing: Pairing{Margin: 0.7}},
		{To: Messages, Filter: Filter{BestOfGroup: true, Dedupe: DedupeConversation}},
	} {
		o := test
		o.Inputs, o.Removed = []string{dir}, filepath.Join(t.TempDir(), "removed.jsonl")
		report, _ := run(t, o)
		got, want := map[string]int64{}, counts(report.Filtered)
		lines := map[int64]bool{}
		for _, r := range removedRows(t, o.Removed) {
			require.Equal(t, filepath.ToSlash(filepath.Join(dir, "rollouts.jsonl")), r.File)
			require.False(t, lines[r.Line], "listed once")
			lines[r.Line] = true
			got[r.Reason]++
		}
		require.Equal(t, want, got)
	}
}

func TestRun_ListsRowsOfLinesWithSeveral(t *testing.T) {
	pair := `{"prompt":"q","chosen":"` + essay(1, 20) + `","rejected":"` + essay(2, 20) + `"}`
	path := writeLines(t, "in.jsonl", pair, strings.ReplaceAll(pair, `"q"`, `"r"`))
	list := filepath.Join(t.TempDir(), "removed.jsonl")
	run(t, Options{Inputs: []string{path}, To: Messages, Removed: list, Filter: Filter{Text: TextFilter{DropMatching: []string{essay(2, 3)}}}})
	removed := removedRows(t, list)
	require.Len(t, removed, 2)
	require.Equal(t, []int64{1, 2}, []int64{removed[0].Line, removed[1].Line})
	require.Equal(t, 1, removed[1].Row)
}

func TestRun_RefusesPlacesForTheListThatAreTaken(t *testing.T) {
	dir, parent := makeRun(t), t.TempDir()
	taken := filepath.Join(parent, "taken")
	require.NoError(t, os.WriteFile(taken, []byte("x"), 0o644))
	out := filepath.Join(parent, "out")
	for removed, says := range map[string]string{taken: "--overwrite", parent: "is a folder", filepath.Join(out, "removed.jsonl"): "outside", filepath.Join(parent, "no", "list"): "--removed"} {
		_, err := Run(t.Context(), Options{Inputs: []string{dir}, To: Messages, Out: out, Removed: removed})
		require.ErrorIs(t, err, ErrUsage)
		require.ErrorContains(t, err, says)
	}
	input := filepath.Join(dir, "rollouts.jsonl")
	before, err := os.ReadFile(input)
	require.NoError(t, err)
	_, err = Run(t.Context(), Options{Inputs: []string{input}, To: Messages, Out: out, Removed: input, Overwrite: true})
	require.ErrorContains(t, err, "input or output")
	after, err := os.ReadFile(input)
	require.NoError(t, err)
	require.Equal(t, before, after)

	// A conversion that fails leaves no list.
	_, err = Run(t.Context(), Options{Inputs: []string{dir}, To: Messages, Out: out, Removed: filepath.Join(parent, "list"), Filter: Filter{MinScore: pointer(9.0)}})
	require.ErrorContains(t, err, "nothing is left")
	require.Equal(t, []string{"taken"}, names(t, parent))
	report, _ := run(t, Options{Inputs: []string{dir}, To: Messages, Out: out, Removed: taken, Overwrite: true})
	require.Len(t, removedRows(t, taken), 1)
	require.EqualValues(t, 7, report.Kept)
}
