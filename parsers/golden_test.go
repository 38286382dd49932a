package parsers

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write what the parsers say into testdata/golden")

// goldenTools are the tools behind the golden files.
func goldenTools() []Tool {
	return []Tool{
		{Name: "get_weather", Parameters: json.RawMessage(`{"type": "object", "properties": {
			"city": {"type": "string"}, "days": {"type": "integer"}}}`)},
		{Name: "terminal", Parameters: json.RawMessage(`{"type": "object", "properties": {
			"command": {"type": "string"}, "timeout": {"type": "integer"}, "opts": {"type": "object"}}}`)},
		{Name: "write_file", Parameters: json.RawMessage(`{"type": "object", "properties": {
			"path": {"type": "string"}, "content": {"type": "string"}, "options": {"type": "object"},
			"append": {"type": "boolean"}, "lines": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}}`)},
	}
}

// fixedRandom makes the ids of a format the same in every run.
func fixedRandom(f *Format) *Format {
	return f.WithRandom(endless{})
}

// endless is an infinite source of one and the same byte.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 0x5a
	}
	return len(p), nil
}

func TestGoldenResponsesParseAsRecorded(t *testing.T) {
	paths, err := filepath.Glob("testdata/golden/*/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		format := filepath.Base(filepath.Dir(path))
		t.Run(format+"/"+strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			f, err := Lookup(format)
			require.NoError(t, err)
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			checkInvariants(t, f, string(text), goldenTools())
			got := encode(t, fixedRandom(f).Parse(string(text), goldenTools()))
			compareGolden(t, strings.TrimSuffix(path, ".txt")+".json", string(got))
		})
	}
}

func TestEveryFormatHasGoldenFiles(t *testing.T) {
	for _, f := range All() {
		paths, err := filepath.Glob("testdata/golden/" + f.Name() + "/*.txt")
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(paths), 3, "golden files of %s", f.Name())
	}
}

func encode(t *testing.T, p Parsed) []byte {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	require.NoError(t, e.Encode(p))
	return b.Bytes()
}

// compareGolden compares got with a golden file, or writes it with -update.
func compareGolden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run go test -update and check what it writes")
	require.Equal(t, string(want), got)
}
