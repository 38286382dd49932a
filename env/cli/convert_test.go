package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/env/cli"
)

// processed generates data once into the directory out.
func (p *program) processed() {
	p.t.Helper()
	p.write("quick.yaml", quickstart)
	code, _, stderr := p.run("process", "--config", "quick.yaml", "--run-dir", "out")
	require.Equal(p.t, cli.ExitOK, code, stderr)
}

func TestARunIsConvertedIntoTrainingFiles(t *testing.T) {
	p := newProgram(t)
	p.processed()
	code, stdout, stderr := p.run("convert", "out", "--to", "parquet")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "nothing was lost")
	require.FileExists(t, filepath.Join("out-parquet", "data", "train-00000-of-00001.parquet"))
	require.FileExists(t, filepath.Join("out-parquet", "README.md"))

	code, stdout, stderr = p.run("convert", "out-parquet", "--to", "sharegpt", "--out", "s.jsonl", "--json")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Equal(t, "s.jsonl", gjson.Get(stdout, "out").String())
	want, err := os.ReadFile(filepath.Join("out", "trajectories.jsonl"))
	require.NoError(t, err)
	got, err := os.ReadFile("s.jsonl")
	require.NoError(t, err)
	require.Equal(t, strings.Count(string(want), "\n"), strings.Count(string(got), "\n"))

	code, _, stderr = p.run("convert", "out", "--to", "parquet")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "--overwrite")
	code, _, stderr = p.run("convert", "out", "--to", "parquet", "--overwrite", "--min-score", "0.5")
	require.Equal(t, cli.ExitOK, code, stderr)
}

func TestConvert_FiltersByWhatTextsSay(t *testing.T) {
	p := newProgram(t)
	question := "a train leaves the station at noon and travels north at sixty miles an hour until three"
	row := func(q, a string) string {
		return `{"messages":[{"role":"user","content":"` + q + `"},{"role":"assistant","content":"` + a + `"}]}` + "\n"
	}
	p.write("in.jsonl", row("one two three four five six seven", "eight")+row("One, two, three, four, five, six, seven!", "eight")+row(question, "180")+
		row("q", "I'm sorry, but I can't help with that.")+row("key", "sk-123")+row("loop", strings.Repeat("and so it goes on and on ", 20))+
		row("sprich", "Die Funktion liest die Datei Zeile für Zeile und gibt die Anzahl der gefundenen Wörter danach zurück."))
	p.write("eval.jsonl", `{"question":"`+question+`","id":"7"}`+"\n")
	code, stdout, stderr := p.run("convert", "in.jsonl", "--near-duplicates", "0.8", "--decontaminate", "eval.jsonl", "--decontaminate-field", "question", "--decontaminate-share", "0.5",
		"--drop-refusals", "--drop-matching", `sk-\d{3}`, "--max-repetition", "0.3", "--language", "en", "--removed", "removed.jsonl", "-o", "out")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Contains(t, stdout, "out: 1 rows of 7 rollouts")
	require.Contains(t, stdout, "evaluation set eval.jsonl: 1 of 1 rows found, in 1 row\n")
	removed, err := os.ReadFile("removed.jsonl")
	require.NoError(t, err)
	require.Equal(t, 6, strings.Count(string(removed), "\n"))
	require.Contains(t, string(removed), `{"file":"in.jsonl","line":2,"reason":"similar to an earlier row by 0.8 or more (--near-duplicates)","similar_to":{"file":"in.jsonl","line":1},"similarity":1}`)
	for _, wrong := range [][]string{{"--near-duplicates", "80"}, {"--language", "english"}, {"--drop-matching", "("}, {"--decontaminate", "nowhere"}, {"--match-in", "tools", "--keep-matching", "x"}} {
		code, _, stderr = p.run(append([]string{"convert", "in.jsonl", "-o", "wrong"}, wrong...)...)
		require.Equal(t, cli.ExitUsage, code, wrong)
		require.Contains(t, stderr, wrong[0])
	}
}

func TestConvert_WritesForATrainerByDefault(t *testing.T) {
	p := newProgram(t)
	p.processed()
	code, stdout, stderr := p.run("convert", "out", "--json")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.Equal(t, "trl", gjson.Get(stdout, "for").String())
	require.FileExists(t, filepath.Join("out-trl", "README.md"))
	code, _, stderr = p.run("convert", "out", "--for", "llamafactory", "-o", "factory")
	require.Equal(t, cli.ExitOK, code, stderr)
	require.FileExists(t, filepath.Join("factory", "dataset_info.json"))
	code, _, stderr = p.run("convert", "out", "--for", "nobody")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "llamafactory")
}

func TestProcessWritesADatasetCardAndKeepsOneOfAPerson(t *testing.T) {
	p := newProgram(t)
	p.processed()
	card, err := os.ReadFile(filepath.Join("out", "README.md"))
	require.NoError(t, err)
	require.Contains(t, string(card), "path: trajectories.jsonl")
	require.Contains(t, string(card), "- name: conversations\n    list:\n    - name: from\n      dtype: string\n")
	p.write("out/README.md", "mine")
	code, _, stderr := p.run("process", "--config", "quick.yaml", "--run-dir", "out", "--resume")
	require.Equal(t, cli.ExitOK, code, stderr)
	card, err = os.ReadFile(filepath.Join("out", "README.md"))
	require.NoError(t, err)
	require.Equal(t, "mine", string(card))
}

func TestLinesThatCanNotBeReadGiveTheExitCodeOfProblems(t *testing.T) {
	p := newProgram(t)
	p.write("in.jsonl", `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}`+"\n{\n")
	code, stdout, stderr := p.run("convert", "in.jsonl", "--to", "messages")
	require.Equal(t, cli.ExitProblems, code)
	require.Contains(t, stdout, "in.jsonl:2: not valid JSON")
	require.Contains(t, stderr, "1 lines could not be read")
	code, _, stderr = p.run("convert", "in.jsonl", "--to", "openai", "--strict")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "in.jsonl:2")
	require.NoDirExists(t, "in-openai")
}

func TestWrongConversionsSayWhatToDo(t *testing.T) {
	p := newProgram(t)
	p.write("in.jsonl", `{"messages":[{"role":"user","content":"q"}]}`+"\n")
	for _, test := range []struct{ flags, says string }{
		{"nowhere --to messages", "nowhere"},
		{"in.jsonl --to xml", "there are: rollouts"},
		{"in.jsonl --to messages --from xml", "--from"},
		{"in.jsonl --to messages --shard-size lots", "500MB"},
		{"in.jsonl --to text", "--parser"},
		{"in.jsonl --to text --chat-template nothing.jinja", "nothing.jinja"},
		{"in.jsonl --to text --parser qwen --template-var x", "NAME=JSON"},
		{"in.jsonl --to messages --passed", "neither passed nor failed"},
		{"in.jsonl --to messages --dedupe all", "conversation or prompt"},
	} {
		code, _, stderr := p.run(append([]string{"convert"}, strings.Fields(test.flags)...)...)
		require.Equal(t, cli.ExitUsage, code, test.flags)
		require.Contains(t, stderr, test.says, test.flags)
	}
}
