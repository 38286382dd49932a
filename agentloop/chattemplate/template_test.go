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
	_, err = Parse("t", "{% do x() %}")
	require.ErrorContains(t, err, "not available")
}

// Jinja2 lets a filter or a test be missing within an if of the same scope. Here it may be
// missing anywhere that is not reached.
func TestTemplate_UnknownNamesFailWhenReached(t *testing.T) {
	for _, test := range []struct{ name, use, want string }{
		{"a filter", "{{ 'x'|nosuch(1, a=2) }}", "no filter named 'nosuch'"},
		{"a dotted filter", "{{ 'x'|no.such }}", "no filter named 'no.such'"},
		{"a test", "{{ 'x' is nosuch }}", "no test named 'nosuch'"},
		{"a test with an argument", "{{ 'x' is not nosuch 3 }}", "no test named 'nosuch'"},
		{"a function", "{{ nosuch(1) }}", "'nosuch' is undefined"},
		{"a filter of a block", "{% filter nosuch %}x{% endfilter %}", "no filter named 'nosuch'"},
		{"a filter of a set block", "{% set a | nosuch %}x{% endset %}", "no filter named 'nosuch'"},
		{"include", "{% include 'x' ignore missing %}", "'include' is not available"},
		{"import", "{% import 'x' as y %}", "'import' is not available"},
		{"from", "{% from 'x' import y, z as w with context %}", "'from' is not available"},
		{"extends", "{% extends 'x' %}", "'extends' is not available"},
		{"autoescape", "{% autoescape true %}x{% endautoescape %}", "autoescape is not available"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, around := range []string{
				"a{% if false %}\n@{% endif %}b",
				"a{% if true %}{% else %}\n@{% endif %}b",
				"a{% for x in [] %}\n@{% endfor %}b",
				"a{% if false %}{% for x in [1] %}\n@{% endfor %}{% endif %}b",
				"{% macro m() %}\n@{% endmacro %}ab",
			} {
				tmpl, err := Parse("t", strings.Replace(around, "@", test.use, 1))
				require.NoError(t, err, around)
				got, err := tmpl.Render(Input{})
				require.NoError(t, err, around)
				require.Equal(t, "ab", got.Text, around)
			}
			for _, around := range []string{"\n@", "{% if true %}\n@{% endif %}", "{% for x in [1] %}\n@{% endfor %}", "{% macro m() %}\n@{% endmacro %}{{ m() }}"} {
				tmpl, err := Parse("chat_template.jinja", strings.Replace(around, "@", test.use, 1))
				require.NoError(t, err, around)
				_, err = tmpl.Render(Input{})
				require.ErrorContains(t, err, test.want, around)
				require.ErrorContains(t, err, "chat_template.jinja", around)
				if !strings.Contains(test.want, "undefined") {
					require.ErrorContains(t, err, "line 2", around)
				}
			}
		})
	}
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
