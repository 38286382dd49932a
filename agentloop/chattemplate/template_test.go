package chattemplate

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// goldenCase is a line that testdata/reference.py wrote.
type goldenCase struct {
	Template string
	Vars     json.RawMessage
	Out      *string
	Error    string
	Message  string
}

var goldenNow = time.Date(2026, 11, 5, 9, 3, 7, 0, time.UTC)

// renderCase returns what a case gives here, in the terms of the reference.
func renderCase(c goldenCase) (out, failure string, err error) {
	vars, err := decodeJSON(c.Vars)
	if err != nil {
		return "", "", err
	}
	names := map[string]value{}
	d := vars.(*dict)
	for i, k := range d.keys {
		names[k.(string)] = d.values[i]
	}
	t, err := Parse("case", c.Template)
	if err != nil {
		return "", "syntax", err
	}
	r, err := t.render(names, goldenNow, nil)
	var raised *RaisedError
	switch {
	case errors.As(err, &raised):
		return "", "raised", err
	case err != nil:
		return "", "runtime", err
	}
	return r.Text, "", nil
}

func goldenCases(t testing.TB, path string) []goldenCase {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	var out []goldenCase
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var c goldenCase
		require.NoError(t, json.Unmarshal(lines.Bytes(), &c))
		out = append(out, c)
	}
	require.NoError(t, lines.Err())
	return out
}

// The goldens are what Python's Jinja2 gives; testdata/reference.py says how they are made.
func TestExpressionsGiveWhatPythonGives(t *testing.T) {
	for _, c := range goldenCases(t, "testdata/expressions.golden.jsonl") {
		checkCase(t, c)
	}
}

func TestChatTemplatesRenderWhatPythonRenders(t *testing.T) {
	for _, c := range goldenCases(t, "testdata/chats.golden.jsonl") {
		checkCase(t, c)
	}
}

func checkCase(t *testing.T, c goldenCase) {
	t.Helper()
	out, failure, err := renderCase(c)
	if c.Error != "" {
		// What Python finds while it compiles is found here while it renders.
		if failure == "" || (failure == "raised") != (c.Error == "raised") {
			t.Errorf("%s\nwant error %s (%s), got %q %v", c.Template, c.Error, c.Message, out, err)
		}
		return
	}
	if err != nil || out != *c.Out {
		t.Errorf("%s\nwith %s\nwant %q\n got %q %v", c.Template, clip(c.Vars), *c.Out, out, err)
	}
}

func clip(raw []byte) string {
	if len(raw) > 300 {
		return string(raw[:300]) + "…"
	}
	return string(raw)
}

func TestASyntaxErrorNamesTheLine(t *testing.T) {
	_, err := Parse("chat_template.jinja", "a\nb {{ x\n{% if %}")
	var syntax *SyntaxError
	require.ErrorAs(t, err, &syntax)
	require.Equal(t, 3, syntax.Line)
	_, err = Parse("chat_template.jinja", "{% for m in messages %}\n{{ m|nosuch }}{% endfor %}")
	require.EqualError(t, err, "chat template chat_template.jinja, line 2: no filter named 'nosuch'")
	_, err = Parse("t", "{% include 'x' %}")
	require.ErrorContains(t, err, "not available")
}

func TestForeignTemplatesCanNotRunAway(t *testing.T) {
	for name, source := range map[string]string{
		"endless recursion": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
		"nested loops":      "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% endfor %}{% endfor %}",
		"large text":        "{% set ns = namespace(s='xxxxxxxxxxxxxxxx') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
		"repeated text":     "{{ 'x' * 99999999999 }}",
		"large number":      "{{ 9 ** 999999 }}",
		"wide field":        "{{ '%999999999999d' % 1 }}",
		"wide padding":      "{{ 'x'.ljust(99999999999) }}",
		"replaced text":     "{% set ns = namespace(s='x' * 99999) %}{% for i in range(9) %}{% set ns.s = ns.s.replace('x', 'x' * 99999) %}{% endfor %}",
		"deep nesting":      "{{ " + strings.Repeat("(", 9999) + "1" + strings.Repeat(")", 9999) + " }}",
		"deep statements":   strings.Repeat("{% if 1 %}", 9999),
		"large range":       "{{ range(10 ** 12)|list|length }}",
	} {
		t.Run(name, func(t *testing.T) {
			tmpl, err := Parse(name, source)
			if err == nil {
				_, err = tmpl.Render(Input{})
			}
			require.Error(t, err)
		})
	}
}
