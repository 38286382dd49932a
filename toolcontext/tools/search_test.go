package tools

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPerlPatternsBecomeExtendedOnes(t *testing.T) {
	for pattern, want := range map[string]string{
		`\d+`:            `[0-9]+`,
		`[\d.]+\D`:       `[0-9.]+[^0-9]`,
		`(?:ab|c)+?x`:    `(ab|c)+x`,
		`a\.b\\d`:        `a\.b\\d`,
		`\w\s\S\W`:       `[[:alnum:]_][[:space:]][^[:space:]][^[:alnum:]_]`,
		`[\w-]`:          `[[:alnum:]_-]`,
		`[]x]y?`:         `[]x]y?`,
		`[^]x]z*?`:       `[^]x]z*`,
		`a\+?`:           `a\+?`,
		`tab\there`:      "tab\there",
		`trailing\`:      `trailing\`,
		`(?i)Hello`:      `Hello`,
		`func \bmain\b(`: `func \bmain\b(`,
	} {
		got, fold := extended(pattern)
		require.Equal(t, want, got, pattern)
		require.Equal(t, pattern == `(?i)Hello`, fold == "-i")
	}
}

func TestGlobsBecomeTestsOfFind(t *testing.T) {
	for glob, want := range map[string][]string{
		"":                nil,
		"*.py":            {"(", "-name", "*.py", ")"},
		"!*.py":           {"!", "(", "-name", "*.py", ")"},
		"*.{ts,tsx}":      {"(", "-name", "*.ts", "-o", "-name", "*.tsx", ")"},
		"src/**/*.go":     {"(", "-path", "*/src/*.go", ")"},
		"**/*.go":         {"(", "-name", "*.go", ")"},
		"docs/*.md":       {"(", "-path", "*/docs/*.md", ")"},
		"{a,b}{c,d}":      {"(", "-name", "ac", "-o", "-name", "ad", "-o", "-name", "bc", "-o", "-name", "bd", ")"},
		"unmatched{brace": {"(", "-name", "unmatched{brace", ")"},
	} {
		require.Equal(t, want, nameTests(glob), glob)
	}
}

func FuzzSearchOutputAndPatternsNeverPanic(f *testing.F) {
	f.Add("Ff\n12:text\n13-around\n--\nC3 x\nT9\n", `[\d](?:a`, "{a,b}*.{c}", 1, 2)
	f.Add("E pattern bad\n", `\`, "!{", 0, 0)
	f.Add("999999999999999999999:x\n-1-y\nT-5\nC\n", "[", "}{", 0, 1)
	f.Fuzz(func(t *testing.T, output, pattern, glob string, offset, limit int) {
		q := SearchQuery{Pattern: pattern, Offset: max(0, offset), Limit: max(1, limit%1000)}
		for _, mode := range []string{"content", "files_only", "count", "names"} {
			q.Mode, q.Files = mode, mode == "names"
			r := parseSearch(output, q, mode)
			require.LessOrEqual(t, len(r.Files)+len(r.Counts), q.Limit)
			require.NotEmpty(t, r.render(q, ""))
		}
		extended(pattern)
		require.LessOrEqual(t, len(nameTests(glob)), 4*maxAlternatives+len(glob)*4+4)
	})
}
