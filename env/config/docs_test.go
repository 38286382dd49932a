package config

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheDocumentationListsEveryFieldWithItsDefault(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "config.md")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	text := string(data)

	env, err := Fields(nil)
	require.NoError(t, err)
	servers, err := ServerFields()
	require.NoError(t, err)
	tables := map[string]string{
		"fields:top": fieldTable(TopFields()), "fields:env": fieldTable(env), "fields:openai": fieldTable(servers), "unsupported": unsupportedTable(),
	}
	for name, table := range tables {
		block := regexp.MustCompile(`(?s)<!-- ` + name + ` -->\n.*?<!-- end -->`)
		require.Regexp(t, block, text, "docs/config.md lost its marker for %s", name)
		want := "<!-- " + name + " -->\n" + table + "<!-- end -->"
		if *update {
			text = block.ReplaceAllLiteralString(text, want)
		}
		require.Equal(t, want, block.FindString(text), "run go test ./env/config -update")
	}
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
}

func fieldTable(fields []Field) string {
	var b strings.Builder
	b.WriteString("| field | type | default | meaning | |\n|---|---|---|---|---|\n")
	for _, f := range fields {
		kind := f.Type
		if f.Unit != "" && (f.Type == "integer" || f.Type == "number") {
			kind = f.Unit
		}
		var marks []string
		if f.Mode != "" {
			marks = append(marks, string(f.Mode)+" only")
		}
		if !f.Affects {
			marks = append(marks, "free")
		}
		help := f.Help
		if len(f.Choices) > 0 {
			help += " (" + strings.Join(f.Choices, ", ") + ")"
		}
		fmt.Fprintf(&b, "| `%s` | %s | `%s` | %s | %s |\n", f.Name, kind, f.Default, help, strings.Join(marks, ", "))
	}
	return b.String()
}

func unsupportedTable() string {
	var b strings.Builder
	b.WriteString("| field | why it does nothing, or what to use |\n|---|---|\n")
	for _, u := range Unsupported() {
		why := u.Why
		if u.Harmless {
			why += "; any value is accepted"
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", join(u.Section, u.Name), why)
	}
	return b.String()
}

// The file that docs/config.md shows has to load.
func TestTheDocumentedExampleLoads(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "config.md"))
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(data), "```yaml\n")
	require.True(t, ok)
	example, _, ok := strings.Cut(rest, "```")
	require.True(t, ok)
	r, err := loadText(t, options(), example)
	require.NoError(t, err)
	require.Equal(t, 60, r.Env.MaxAgentTurns)
}
