package rowtext

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const row = `{"question":"What is 2 < 3?","n":1.50,"meta":{"level":"easy","tags":["a","b"]},"a.b":"dotted","x":null,"flag":true,"text":"{{n}}"}`

func TestATemplateInsertsTextAsItIsAndTheRestAsJSON(t *testing.T) {
	tests := map[string]struct{ template, want string }{
		"nothing to insert":               {"plain } }} text", "plain } }} text"},
		"text":                            {"Q: {{question}}!", "Q: What is 2 < 3?!"},
		"spaces in the braces":            {"{{ question }}", "What is 2 < 3?"},
		"a number keeps its digits":       {"{{n}}", "1.50"},
		"an object is JSON":               {"{{meta}}", `{"level":"easy","tags":["a","b"]}`},
		"a value inside":                  {"{{meta.level}}/{{meta.tags.1}}", "easy/b"},
		"a column with a dot in its name": {"{{a.b}}", "dotted"},
		"null and booleans":               {"{{x}} {{flag}}", "null true"},
		"inserted text is not read again": {"{{text}}", "{{n}}"},
		"literal braces":                  {`{{"{{"}}n}} is {{n}}`, "{{n}} is 1.50"},
		"two side by side":                {"{{n}}{{n}}", "1.501.50"},
		"a special":                       {"<{{@answer}}>", "<42>"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			parsed, err := Parse(test.template, "answer", "other")
			require.NoError(t, err)
			got, err := parsed.Fill([]byte(row), map[string]string{"answer": "42"})
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
}

func TestAWrongTemplateIsRefusedWithItsLine(t *testing.T) {
	for template, want := range map[string]string{
		"a\nb {{question": "line 2: {{ without }}",
		"{{}}":            "names no column",
		"{{ a {{b}} }}":   "can't be a column",
		"{{@nothing}}":    "there is no {{@nothing}} here; there are {{@answer}}",
	} {
		_, err := Parse(template, "answer")
		require.ErrorContains(t, err, want, template)
	}
	_, err := Parse("{{@answer}}")
	require.ErrorContains(t, err, "only columns can be inserted")
}

func TestAMissingColumnIsNamedWithThoseThatThereAre(t *testing.T) {
	parsed, err := Parse("{{nope}}")
	require.NoError(t, err)
	_, err = parsed.Fill([]byte(`{"a":1,"b":2}`), nil)
	require.EqualError(t, err, `no "nope" in the row; its columns are a, b`)
	for _, path := range []string{"meta.none", "meta.tags.2", "meta.tags.-1", "meta.tags.01", "question.0", "n.a", ""} {
		_, ok := Lookup([]byte(row), path)
		require.False(t, ok, path)
	}
	_, err = Text([]byte("{}"), "a")
	require.ErrorContains(t, err, "which has no columns")
	wide := "{" + strings.Repeat(`"c":1,`, 40) + `"d":1}`
	_, err = Text([]byte(wide), "zz")
	require.ErrorContains(t, err, "and 11 more")
}

func TestStringRefusesOtherTypes(t *testing.T) {
	_, err := String([]byte(row), "n")
	require.EqualError(t, err, `"n" is a number (1.50), want text`)
	_, err = String([]byte(row), "x")
	require.EqualError(t, err, `"x" is null, want text`)
	_, err = String([]byte(row), "meta")
	require.ErrorContains(t, err, `"meta" is an object (`)
	text, err := String([]byte(row), "meta.level")
	require.NoError(t, err)
	require.Equal(t, "easy", text)
}

func TestPathsAndSpecialsOfATemplateAreKnown(t *testing.T) {
	parsed, err := Parse("{{a}}{{b.c}}{{a}}{{@answer}}", "answer", "other")
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b.c"}, parsed.Paths())
	require.True(t, parsed.Uses("answer"))
	require.False(t, parsed.Uses("other"))
}

func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{"", "{{", "{{a}}", `{{"{{"}}`, "{{a}}}}", "x{{@answer}}", "{{a.b.0}}", "{{\n}}"} {
		f.Add(seed, `{"a":{"b":[1]}}`)
	}
	f.Fuzz(func(t *testing.T, template, data string) {
		parsed, err := Parse(template, "answer")
		if err != nil {
			return
		}
		text, err := parsed.Fill([]byte(data), map[string]string{"answer": "x"})
		if err == nil && !strings.Contains(template, "{{") {
			require.Equal(t, template, text)
		}
	})
}
