package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzYAML feeds any bytes as a config file. Whatever loads must print as YAML that
// loads to the same, and whatever doesn't must say where.
func FuzzYAML(f *testing.F) {
	for _, s := range []string{"", "environment: demo\n" + server, printedExample + server, aliasBomb(), "a: &a [*a]\n", "{<<: *x}", "? [a]\n: 1", "env:\n\tx: 1",
		"environment: demo\nenv: {extra_body: {a: 1e5, b: .5, c: [0x10, ~, yes]}, seeds: [1], players: [{}]}\n" + server,
		"environment: demo\nenv: {extra_body: {\"\\x85\\u2028\\ufeff\": \"\\e\\0\"}}\n" + server,
		"environment: demo\nagent: nop\nenv: {judge: {key: $X}, limit: null, system_prompt: !!str 5}\nopenai: [{model_name: a}, {model_name: b}]\n",
		"environment: demo\nenv: &e {group_size: 2}\nopenai: {<<: *e}", "\xff\xfe", "%YAML 1.1\n--- \n", "a: !!binary x\n...\n"} {
		f.Add([]byte(s))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		o := options()
		o.File, o.WorkDir, o.WithoutKeys = filepath.Join(dir, "f.yaml"), dir, true
		require.NoError(t, os.WriteFile(o.File, data, 0o600))
		r, err := Load(o)
		if err != nil {
			e, ok := err.(*Error)
			require.True(t, ok, "%T", err)
			for _, p := range e.Problems {
				require.NotEmpty(t, p.Message)
				if p.line > 0 {
					require.LessOrEqual(t, p.line, bytes.Count(data, []byte("\n"))+1+bytes.Count(data, []byte("\r"))+3*strings.Count(string(data), "\u0085")+3*strings.Count(string(data), "\u2028"))
				}
			}
			return
		}
		require.True(t, json.Valid(r.CanonicalJSON()))
		var out bytes.Buffer
		require.NoError(t, r.WriteYAML(&out))
		require.NoError(t, os.WriteFile(o.File, out.Bytes(), 0o600))
		again, err := Load(o)
		require.NoError(t, err, out.String())
		require.Equal(t, r.Digest, again.Digest, out.String())
	})
}

// FuzzFlag gives any text to a field of every type.
func FuzzFlag(f *testing.F) {
	for _, s := range []string{"", "4", "-1", "1.5", "true", "None", "null", "[1, 2]", `["a", "b"]`, `{"a": {"b": [1.0, 12345678901234567890]}}`, "{a: &x 1, b: *x}",
		"[", "\x00", "\xff", "012", "0x1F", "1_000", "1e999", ".inf", "$NAME", "${NAME}", "a: b", "[redacted]", "---\n- a\n"} {
		f.Add(s)
	}
	e := demo()
	fields, err := e.Fields()
	if err != nil {
		f.Fatal(err)
	}
	servers, err := ServerFields()
	if err != nil {
		f.Fatal(err)
	}
	// One field of each kind, with and without null, does for all.
	var kinds []Field
	seen := map[string]bool{}
	for _, field := range append(fields, servers...) {
		kind := fmt.Sprint(field.Type, field.Nullable, field.Unit == "seconds", len(field.Choices) > 0, field.Section)
		if !seen[kind] {
			seen[kind] = true
			kinds = append(kinds, field)
		}
	}
	f.Fuzz(func(t *testing.T, value string) {
		for _, field := range kinds {
			o := options()
			o.WithoutKeys = true
			o.Flags = append(flagsOf("environment=demo", "openai.base_url=http://h", "openai.model_name=m"), Flag{Name: field.Flag(), Value: value})
			r, err := Load(o)
			if err != nil {
				require.NotContains(t, err.Error(), "\n\n")
				require.Contains(t, err.Error(), field.Flag())
				continue
			}
			require.True(t, json.Valid(r.CanonicalJSON()), "%s", r.CanonicalJSON())
		}
	})
}

// FuzzDotenv reads any bytes as a .env file and quotes what it found back into one.
func FuzzDotenv(f *testing.F) {
	for _, s := range []string{"", "A=1\n", "export A='b'\r\n", "A=\"b\\n\nc\" # d\n", "A=\"", "\ufeffA=1", "A=\xff", "A B=1\nC", "A=''x\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		found, bad := ParseDotenv(data)
		lines := bytes.Count(data, []byte("\n")) + 1
		for _, line := range bad {
			require.True(t, line >= 1 && line <= lines)
		}
		var back strings.Builder
		for _, v := range found {
			require.True(t, variableName(v.Name), "%q", v.Name)
			require.True(t, v.Line >= 1 && v.Line <= lines)
			back.WriteString("export " + v.Name + "=\"" + strings.NewReplacer("\\", "\\\\", "\"", "\\\"", "$", "\\$", "\r", "\\r").Replace(v.Value) + "\" # c\n")
		}
		again, bad := ParseDotenv([]byte(back.String()))
		require.Empty(t, bad)
		require.Len(t, again, len(found))
		for i := range again {
			require.Equal(t, found[i].Value, again[i].Value)
		}
	})
}
