package tools_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox/local"
	"github.com/hermes-env/hermes-env/toolcontext/tools"
)

func searchable(t *testing.T) *rollout {
	r := newRollout(t, tools.Options{AllowRepeatedReads: true})
	r.put("a.py", "import os\ndef main():\n    return 42\n")
	r.put("src/b.py", "import sys\nx = 'é 7'\n")
	r.put("src/c:12:d.txt", "import nothing\n")
	r.put("src/sp ace's.md", "Import me\n")
	r.put("src/deep/e.go", "package main\n")
	r.put(".git/config", "import hidden\n")
	r.put("node_modules/m/index.js", "import module\n")
	r.put("bin.dat", "import\x00binary\n")
	return r
}

func TestSearchFindsLinesWithPathAndNumber(t *testing.T) {
	r := searchable(t)
	for _, c := range []struct{ name, arguments, want string }{
		{"few matches are a list", `{"pattern":"^import \\w+$"}`,
			`{"total_count":3,"matches":[{"path":"a.py","line":1,"content":"import os"},{"path":"src/b.py","line":1,"content":"import sys"},{"path":"src/c:12:d.txt","line":1,"content":"import nothing"}]}`},
		{"digits and groups", `{"pattern":"(?:return|x) .*\\d"}`,
			`{"total_count":2,"matches":[{"path":"a.py","line":3,"content":"    return 42"},{"path":"src/b.py","line":2,"content":"x = 'é 7'"}]}`},
		{"ignoring case", `{"pattern":"(?i)IMPORT me"}`, `{"total_count":1,"matches":[{"path":"src/sp ace's.md","line":1,"content":"Import me"}]}`},
		{"a glob", `{"pattern":"import","file_glob":"*.{txt,md}"}`, `{"total_count":1,"matches":[{"path":"src/c:12:d.txt","line":1,"content":"import nothing"}]}`},
		{"one file", `{"pattern":"main","path":"a.py"}`, `{"total_count":1,"matches":[{"path":"a.py","line":2,"content":"def main():"}]}`},
		{"a hidden directory when asked for", `{"pattern":"import","path":".git"}`, `{"total_count":1,"matches":[{"path":".git/config","line":1,"content":"import hidden"}]}`},
		{"files only", `{"pattern":"main","output_mode":"files_only"}`, `{"total_count":2,"files":["a.py","src/deep/e.go"]}`},
		{"counts", `{"pattern":"m","output_mode":"count","file_glob":"*.py"}`, `{"total_count":3,"counts":{"a.py":2,"src/b.py":1}}`},
		{"names", `{"pattern":"*.py","target":"files"}`, `{"total_count":2,"files":["a.py","src/b.py"]}`},
		{"names by the other word", `{"pattern":"src/*.go","target":"find"}`, `{"total_count":1,"files":["src/deep/e.go"]}`},
		{"nothing", `{"pattern":"no such thing"}`, `{"total_count":0}`},
		{"a pattern like an option", `{"pattern":"-rf"}`, `{"total_count":0}`},
		{"context", `{"pattern":"main","path":"a.py","context":1}`,
			`{"total_count":1,"matches_format":"each path on a line of its own, its matches below as '  LINE: text' (context as '  LINE- text')","matches_text":"a.py\n  1- import os\n  2: def main():\n  3-     return 42"}`},
		{"no such path", `{"pattern":"x","path":"nowhere"}`, `{"total_count":0,"error":"Path not found: nowhere"}`},
		{"an unknown target", `{"pattern":"x","target":"web"}`, `{"error":"search_files: invalid target \"web\"; use content or files"}`},
		{"an unknown mode", `{"pattern":"x","output_mode":"web"}`, `{"error":"search_files: invalid output_mode \"web\"; use content, files_only or count"}`},
		{"no pattern", `{}`, `{"error":"search_files: missing required argument: pattern"}`},
		{"several lines", `{"pattern":"a\nb"}`, `{"total_count":0,"error":"The pattern contains a line break, but files are searched line by line; search for a part of one line"}`},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, r.call("search_files", c.arguments)) })
	}
	require.Contains(t, r.do("search_files", "pattern", "(unclosed").Get("error").String(), "Invalid regular expression: ")
	require.Equal(t, r.path("a.py"), r.do("search_files", "pattern", "def main", "path", r.box.Info().Dir).Get("matches.0.path").String())
}

func TestSearchPagesAndSaysSo(t *testing.T) {
	r := newRollout(t, tools.Options{AllowRepeatedReads: true})
	for i := range 12 {
		r.put(fmt.Sprintf("d/f%02d.txt", i), "hit one\nmiss\nhit two\n")
	}
	raw := r.call("search_files", `{"pattern":"hit","limit":5}`)
	require.True(t, strings.HasSuffix(raw, "\n\n[Hint: Results truncated. Use offset=5 to see more, or narrow with a more specific pattern or file_glob.]"))
	page := r.do("search_files", "pattern", "hit", "limit", 5)
	require.Equal(t, "d/f00.txt\n  1: hit one\n  3: hit two\nd/f01.txt\n  1: hit one\n  3: hit two\nd/f02.txt\n  1: hit one", page.Get("matches_text").String())
	require.Equal(t, "6 true true", fmt.Sprint(page.Get("total_count"), page.Get("truncated"), page.Get("total_count_is_lower_bound")))
	last := r.do("search_files", "pattern", "hit", "limit", 5, "offset", 22)
	require.Equal(t, `[{"path":"d/f11.txt","line":1,"content":"hit one"},{"path":"d/f11.txt","line":3,"content":"hit two"}]`, last.Get("matches").Raw)
	require.False(t, last.Get("truncated").Exists())
	names := r.do("search_files", "pattern", "*", "target", "files", "limit", 2, "offset", 3)
	require.Equal(t, `["d/f03.txt","d/f04.txt"]`, names.Get("files").Raw)
	require.Equal(t, "12 true false", fmt.Sprint(names.Get("total_count"), names.Get("truncated"), names.Get("total_count_is_lower_bound").Exists()))
	counts := r.do("search_files", "pattern", "hit", "output_mode", "count", "limit", 2, "offset", 1)
	require.Equal(t, `{"d/f01.txt":2,"d/f02.txt":2}`, counts.Get("counts").Raw)
}

func TestSearchCutsLongLines(t *testing.T) {
	r := newRollout(t, tools.Options{})
	r.put("min.js", "hit"+strings.Repeat("é", 1<<20)+"\n")
	require.Equal(t, "hit"+strings.Repeat("é", 497), r.do("search_files", "pattern", "hit").Get("matches.0.content").String())
}

func TestSearchWarnsAndThenBlocksIdenticalSearchesInARow(t *testing.T) {
	r := newRollout(t, tools.Options{})
	r.put("f", "x\n")
	var results []string
	for range 4 {
		results = append(results, r.call("search_files", `{"pattern":"x"}`))
	}
	require.Equal(t, results[0], results[1])
	require.Contains(t, results[2], `"_warning"`)
	require.Contains(t, results[3], "BLOCKED")
	require.Equal(t, results[0], func() string { r.do("todo"); return r.call("search_files", `{"pattern":"x"}`) }())
}

func TestSearchGivesUpInTime(t *testing.T) {
	r := newRollout(t, tools.Options{SearchTimeout: 1})
	raw := r.call("search_files", `{"pattern":"x"}`)
	require.Contains(t, raw, `"limit_reason":"search_timeout"`)
	require.Contains(t, raw, "[Hint: The search timed out")
}

func TestSearchWorksWithAPlainPOSIXShell(t *testing.T) {
	r := newRolloutIn(t, tools.Options{}, local.Config{Shell: "/bin/sh"})
	r.put("-odd [name]*", "hit 1\n")
	require.Equal(t, `[{"path":"-odd [name]*","line":1,"content":"hit 1"}]`, r.do("search_files", "pattern", `hit \d`).Get("matches").Raw)
	require.Equal(t, `[{"path":"-odd [name]*","line":1,"content":"hit 1"}]`, r.do("search_files", "pattern", `hit`, "path", "-odd [name]*").Get("matches").Raw)
}
