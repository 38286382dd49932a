package reward

import (
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/agentloop"
	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// part with the defaults that the configuration gives.
func configured(change func(*Part)) Part {
	p := Part{Weight: 1, Extract: "whole", ReferenceExtract: "whole", Compare: "exact", Result: "exit_code", Timeout: 20, Processes: 1,
		MaxInFlight: 16, JudgeSees: "answer", Verdict: "json", ScaleMax: 1, Votes: 1, VoteRule: "mean", JudgeMaxTokens: 100, JudgeRetries: 1, JudgeChars: 10000}
	change(&p)
	return p
}

// said is a rollout whose last message is text.
func said(text string) *agentloop.Result {
	return conversation(chat.User("the prompt"), chat.Assistant(text, ""))
}

func conversation(messages ...chat.Message) *agentloop.Result {
	return &agentloop.Result{Messages: messages, FinishedNaturally: true, TurnsUsed: 1, StopReason: "answer"}
}

func TestAnAnswerIsComparedAsTheTypeSays(t *testing.T) {
	tests := map[string]struct {
		part   Part
		row    string
		answer string
		want   float64
	}{
		"exact, but for white space around it": {configured(func(p *Part) { p.Type = TypeExact }), `{"ref":"Paris"}`, " Paris\n", 1},
		"exact minds the case":                 {configured(func(p *Part) { p.Type = TypeExact }), `{"ref":"Paris"}`, "paris", 0},
		"one of several references":            {configured(func(p *Part) { p.Type = TypeExact }), `{"ref":["Roma","Rome"]}`, "Rome", 1},
		"a number as reference":                {configured(func(p *Part) { p.Type = TypeExact }), `{"ref":42}`, "42", 1},
		"no answer":                            {configured(func(p *Part) { p.Type = TypeExact }), `{"ref":"x"}`, "  ", 0},
		"normalized":                           {configured(func(p *Part) { p.Type = TypeNormalized }), `{"ref":"The Eiffel Tower"}`, "eiffel tower!", 1},
		"the last line": {configured(func(p *Part) { p.Type, p.Extract = TypeExact, "last_line" }),
			`{"ref":"B"}`, "It is A, no:\n\nB\n", 1},
		"a tag": {configured(func(p *Part) { p.Type, p.Extract, p.ExtractPattern = TypeExact, "tag", "answer" }),
			`{"ref":"B"}`, "<answer>A</answer> no, <answer> B </answer>", 1},
		"a tag that is never closed": {configured(func(p *Part) { p.Type, p.Extract, p.ExtractPattern = TypeExact, "tag", "answer" }),
			`{"ref":"B"}`, "<answer>B", 0},
		"an expression": {configured(func(p *Part) { p.Type, p.Extract, p.ExtractPattern = TypeExact, "regex", `(?i)answer:\s*(\w)` }),
			`{"ref":"C"}`, "Answer: A ... ANSWER: C", 1},
		"a box": {configured(func(p *Part) { p.Type, p.Extract = TypeExact, "boxed" }),
			`{"ref":"\\frac{1}{2}"}`, `so \boxed{x} and \boxed{\frac{1}{2}}.`, 1},
		"a pattern alone":                       {configured(func(p *Part) { p.Type, p.Pattern = TypeRegex, `\b4\d\b` }), `{}`, "it is 42", 1},
		"a pattern that misses":                 {configured(func(p *Part) { p.Type, p.Pattern = TypeRegex, `^\d+$` }), `{}`, "it is 42", 0},
		"a group and a reference":               {configured(func(p *Part) { p.Type, p.Pattern, p.ReferenceField = TypeRegex, `is (\w+)`, "ref" }), `{"ref":"Rome"}`, "it is Rome", 1},
		"the reference's number":                {configured(func(p *Part) { p.Type = TypeNumeric }), `{"ref":"so 3 + 4\n#### 1,007"}`, "The result is **1007**.", 1},
		"a number within tolerance":             {configured(func(p *Part) { p.Type, p.AbsoluteTolerance = TypeNumeric, 0.01 }), `{"ref":3.14}`, "about 3.1415", 1},
		"a number beyond it":                    {configured(func(p *Part) { p.Type, p.RelativeTolerance = TypeNumeric, 0.001 }), `{"ref":100}`, "100.2", 0},
		"after reasoning":                       {configured(func(p *Part) { p.Type = TypeExact }), `{"ref":"B"}`, "<think>A or B?</think>\n\nB", 1},
		"after reasoning that the prompt began": {configured(func(p *Part) { p.Type = TypeExact }), `{"ref":"B"}`, "A or B?</think>B", 1},
		"reasoning that never ends":             {configured(func(p *Part) { p.Type = TypeNumeric }), `{"ref":7}`, "<think>it is 7", 0},
		"tags that are spoken of":               {configured(func(p *Part) { p.Type = TypeExact }), `{"ref":"write <think>x</think>"}`, "write <think>x</think>", 1},
		"reasoning that is kept":                {configured(func(p *Part) { p.Type, p.AnswerReasoning = TypeExact, "keep" }), `{"ref":"B"}`, "<think>B</think>B", 0},
		"a pattern that asks for reasoning":     {configured(func(p *Part) { p.Type, p.Pattern = TypeRegex, `^<think>.+</think>` }), `{}`, "<think>so</think>B", 1},
		"a pattern without it":                  {configured(func(p *Part) { p.Type, p.Pattern, p.AnswerReasoning = TypeRegex, `so`, "drop" }), `{}`, "<think>so</think>B", 0},
		"an answer without number":              {configured(func(p *Part) { p.Type = TypeNumeric }), `{"ref":100}`, "a hundred", 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.part.ReferenceField == "" && test.part.Type != TypeRegex {
				test.part.ReferenceField = "ref"
			}
			m, err := newMatcher(test.part)
			require.NoError(t, err)
			require.NoError(t, m.check([]byte(test.row)))
			r, err := m.score(t.Context(), Input{Row: []byte(test.row), Result: said(test.answer)})
			require.NoError(t, err)
			require.Equal(t, test.want, r.score)
		})
	}
}

func TestARowWithoutAUsableReferenceIsFoundBeforeItIsRun(t *testing.T) {
	m, err := newMatcher(configured(func(p *Part) { p.Type, p.ReferenceField = TypeNumeric, "ref" }))
	require.NoError(t, err)
	for row, want := range map[string]string{
		`{"other":1}`:         "its columns are other",
		`{"ref":null}`:        "want text, a number or a list",
		`{"ref":{"a":1}}`:     "want text, a number or a list",
		`{"ref":"no digits"}`: "no number in the reference",
		`{"ref":[]}`:          "list of references in \"ref\" is empty",
		`{"ref":["1",null]}`:  "want text",
	} {
		require.ErrorContains(t, m.check([]byte(row)), want, row)
	}
}

func TestTheLastNumberIsFoundHoweverItIsWritten(t *testing.T) {
	for text, want := range map[string]string{
		"42": "42", "-42": "-42", "+7": "7", "the answer is 3.50.": "7/2", ".5": "1/2", "−5 °C": "-5", "10-4": "4", "(-3)": "-3",
		"1,234": "1234", "1,234,567.89": "123456789/100", "12,34": "34", "1'000": "1000", "1_000": "1000", "1\u202f234": "1234", `1{,}234`: "1234", `1\,234`: "1234",
		"$5": "5", "-$5": "-5", "$-5": "-5", "€ 1,000": "1000", `\$12.50`: "25/2", "£3m": "3",
		"3/4": "3/4", "-3/4": "-3/4", `\frac{3}{4}`: "3/4", `-\dfrac{3}{4}`: "-3/4", `\frac34`: "3/4", `\frac{-1}{2}`: "-1/2", "½": "1/2", "2½": "5/2", "1 1/2": "3/2", `2\frac{1}{2}`: "5/2",
		"3/0": "0", "2024/05/06": "6",
		"50%": "1/2", `12.5\%`: "1/8", "50 %": "1/2",
		"1e3": "1000", "1.5E-2": "3/200", "1.5 × 10^3": "1500", `2 \times 10^{-2}`: "1/50", "2·10³": "2000", "10^6": "1000000", "10⁻²": "1/100", "3*10^2": "300",
		"x2 = 9": "9", "x^2 = 9 m^2": "9", "version 1.2.3": "6/5", "5kg": "5",
		`\boxed{7} because 8`: "7", `\boxed{none} but 8`: "8", `\boxed{ \frac{1}{3} }`: "1/3", "first 1, then 2": "2", "１２": "12",
	} {
		n, ok := LastNumber(text)
		require.True(t, ok, text)
		require.Equal(t, want, n.Value.RatString(), text)
	}
	for _, text := range []string{"", "none", "x2", "e5", "-", ".", "%", `\frac{a}{b}`, "1e999999999x", strings.Repeat("9", 2000)} {
		if n, ok := LastNumber(text); ok {
			require.NotContains(t, []string{""}, text)
			require.LessOrEqual(t, n.Value.Num().BitLen(), 5000, text)
		}
	}
	_, ok := LastNumber("no digits at all")
	require.False(t, ok)
}

func TestNumbersAreEqualExactlyOrWithinTheTolerance(t *testing.T) {
	tests := map[string]struct {
		answer, reference string
		tolerance         Tolerance
		want              bool
	}{
		"fraction and decimal":                      {"1/2", "0.5", Tolerance{}, true},
		"a third is not 0.333":                      {"0.333", "1/3", Tolerance{}, false},
		"but near":                                  {"0.333", "1/3", Tolerance{Absolute: 0.001}, true},
		"long integers digit by digit":              {"12345678901234567890", "12345678901234567891", Tolerance{}, false},
		"a tolerance is the decimal it is":          {"0.4", "0.3", Tolerance{Absolute: 0.1}, true},
		"relative":                                  {"101", "100", Tolerance{Relative: 0.01}, true},
		"relative to nought":                        {"0.001", "0", Tolerance{Relative: 0.01}, false},
		"percent and share":                         {"50%", "0.5", Tolerance{}, true},
		"percent where the question names the unit": {"50%", "50", Tolerance{}, true},
		"the bare number of a percentage":           {"50", "50%", Tolerance{}, true},
		"both in percent":                           {"5%", "50%", Tolerance{}, false},
		"the sign counts":                           {"-1", "1", Tolerance{Absolute: 1}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			a, ok := LastNumber(test.answer)
			require.True(t, ok)
			b, ok := LastNumber(test.reference)
			require.True(t, ok)
			require.Equal(t, test.want, equalNumbers(a, b, test.tolerance))
		})
	}
}

func TestNormalizeMakesFormsEqual(t *testing.T) {
	for a, b := range map[string]string{
		"The  Cat sat.": "cat SAT", "don't": "dont", "U.S.A": "u s a", "“quoted”": "quoted", "an apple a day": "apple day",
		"ｆｕｌｌ": "full", "Straße": "strasse", "3.14!": "3.14", "co-op": "co-op", "line\nbreak": "line break", "the": "the",
	} {
		require.Equal(t, Normalize(b), Normalize(a), a)
	}
	for a, b := range map[string]string{"3.14": "314", "-5": "5", "50%": "50", "cat": "cats"} {
		require.NotEqual(t, Normalize(b), Normalize(a), a)
	}
}

func FuzzLastNumber(f *testing.F) {
	for _, seed := range []string{"1,234.5", `\boxed{\frac{1}{2}}`, "10^400", "1e400", "2½%", "--5", "1/0", "x⁻⁵", strings.Repeat(`\boxed{`, 100), "1 \u2009 2"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, ok := LastNumber(text)
		if !ok {
			return
		}
		require.NotNil(t, n.Value)
		require.Less(t, n.Value.Num().BitLen(), 20000)
		require.True(t, equalNumbers(n, n, Tolerance{}))
		other := Number{Value: new(big.Rat).Add(n.Value, big.NewRat(1, 1)), Percent: n.Percent}
		require.False(t, equalNumbers(n, other, Tolerance{}))
	})
}

func FuzzNormalize(f *testing.F) {
	for _, seed := range []string{"The Cat!", "3.14", "\U0010FFFF", "a an the", "ﬁ"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		once := Normalize(text)
		require.Equal(t, once, strings.Join(strings.Fields(once), " "))
		require.NotContains(t, once, decimalMark)
	})
}
