package reward

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/toolcontext"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/local"
	"github.com/hermes-env/hermes-env/toolcontext/tools"
)

// newContext makes the handle on a local sandbox as the runner does.
func newContext(t *testing.T) *toolcontext.Context {
	provider, err := local.New(local.Config{BaseDir: t.TempDir()})
	require.NoError(t, err)
	registry, err := tools.NewRegistry(tools.Builtin()...)
	require.NoError(t, err)
	tc, err := toolcontext.New(toolcontext.Config{Provider: provider, Registry: registry})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, tc.Cleanup(context.Background()))
		require.NoError(t, provider.Close(context.Background()))
	})
	return tc
}

func TestAScriptInTheSandboxSaysTheScore(t *testing.T) {
	tests := map[string]struct {
		result, script string
		want           float64
		wrong          string
	}{
		"exit code 0":                    {"exit_code", "true", 1, ""},
		"another exit code":              {"exit_code", "exit 3", 0, ""},
		"what the agent left":            {"exit_code", "test -f left.txt", 1, ""},
		"the answer":                     {"exit_code", `grep -q 'the answer' "$REWARD_DIR/answer.txt"`, 1, ""},
		"row and messages":               {"exit_code", `grep -q '"n":1.50' "$REWARD_DIR/row.json" && grep -q '"role":"assistant"' "$REWARD_DIR/messages.json"`, 1, ""},
		"a file of the configuration":    {"exit_code", `test "$(sh "$REWARD_DIR/lib/f.sh")" = from-file`, 1, ""},
		"a variable":                     {"exit_code", `test "$MODE" = strict`, 1, ""},
		"a command that is not there":    {"exit_code", "no_such_command", 0, "could not be run: exit code 127"},
		"killed":                         {"exit_code", "kill -9 $$", 0, "could not be run: exit code 137"},
		"too slow":                       {"exit_code", "sleep 100", 0, "did not end within"},
		"a number":                       {"number", "echo working; echo 0.25", 0.25, ""},
		"no number":                      {"number", "echo half", 0, `want a number on the last line of the output, got "half"`},
		"NaN":                            {"number", "echo NaN", 0, "not a finite number"},
		"a number of a failing script":   {"number", "echo 1; echo why >&2; exit 1", 0, "ended with exit code 1; it said: why"},
		"nothing":                        {"number", "true", 0, "want a number"},
		"JSON":                           {"json", `echo '{"reward": 0.5, "parts": {"style": 1}, "details": "ok"}'`, 0.5, ""},
		"JSON over lines":                {"json", "printf '{\\n\"score\": 1\\n}\\n'", 1, ""},
		"JSON on the last line":          {"json", `echo noise; echo '{"score": 0.75}'`, 0.75, ""},
		"no JSON":                        {"json", "echo noise", 0, "want a JSON object with score in the output"},
		"JSON without score":             {"json", "echo '{}'", 0, "it has no score"},
		"output without end, then score": {"json", `head -c 3000000 /dev/zero | tr '\0' 'x'; echo '{"score":1}'`, 0, "wrote more than"},
	}
	file := filepath.Join(t.TempDir(), "f.sh")
	require.NoError(t, os.WriteFile(file, []byte("echo from-file"), 0o600))
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc := newContext(t)
			_, err := tc.Terminal(t.Context(), "touch left.txt; export MODE=agent", 0)
			require.NoError(t, err)
			require.NoError(t, tc.Seal(t.Context()))
			s, err := New(Options{Config: Config{Part: configured(func(p *Part) {
				p.Type, p.Result, p.Script, p.Environment = TypeCommand, test.result, test.script, map[string]string{"MODE": "strict"}
				p.Files = map[string]string{"lib/f.sh": file}
				if test.wrong == "did not end within" {
					p.Timeout = 0.3
				}
			})}})
			require.NoError(t, err)
			score, err := s.Score(t.Context(), Input{ItemID: "i", Row: []byte(`{"n":1.50}`), Result: said("the answer"), Tools: tc})
			if test.wrong != "" {
				require.ErrorContains(t, err, test.wrong)
				var failure *env.VerifierError
				require.ErrorAs(t, err, &failure)
				require.False(t, failure.Infrastructure)
				require.Equal(t, classCommand, failure.Class)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.want, score.Value)
			if name == "JSON" {
				require.Equal(t, map[string]float64{"command": 0.5, "command.style": 1}, score.Parts)
			}
		})
	}
}

// fixed is a scorer that returns what it is told.
type fixed struct {
	result
	err error
}

func (f fixed) check([]byte) error                           { return nil }
func (f fixed) score(context.Context, Input) (result, error) { return f.result, f.err }
func (f fixed) close() error                                 { return nil }

func TestPartsAreAddedUpWithTheirWeights(t *testing.T) {
	a := part{"a", TypeExact, 0.7, fixed{result: result{score: 1}}}
	b := part{"b", TypeCommand, 0.3, fixed{result: result{score: 0.5, parts: map[string]float64{"x": 2}}}}
	penalty := part{"penalty", TypeProgram, -0.2, fixed{result: result{score: 1}}}
	broken := part{"broken", TypeJudge, 1, fixed{err: failing(classJudge, "no verdict")}}
	lost := part{"lost", TypeCommand, 1, fixed{err: &tools.InfrastructureError{Op: "run", Err: errors.New("gone")}}}

	score, err := (&Scorer{parts: []part{a, b, penalty}}).Score(t.Context(), Input{})
	require.NoError(t, err)
	require.InDelta(t, 0.65, score.Value, 1e-12)
	require.Equal(t, map[string]float64{"a": 1, "b": 0.5, "b.x": 2, "penalty": 1}, score.Parts)
	require.Equal(t, "[0.7,0.3,-0.2]", gjson.GetBytes(score.Details, "parts.#.weight").Raw)

	_, err = (&Scorer{parts: []part{a, broken}}).Score(t.Context(), Input{})
	var failure *env.VerifierError
	require.ErrorAs(t, err, &failure)
	require.Equal(t, classJudge, failure.Class)
	require.Equal(t, "reward broken: no verdict", failure.Error())
	require.Equal(t, "no verdict", gjson.GetBytes(failure.Details, "parts.1.error").String())
	require.Equal(t, 1.0, gjson.GetBytes(failure.Details, "parts.0.score").Float(), "what the other part found is recorded")

	score, err = (&Scorer{skip: true, parts: []part{a, b, broken}}).Score(t.Context(), Input{})
	require.NoError(t, err)
	require.InDelta(t, 0.85*2, score.Value, 1e-12)
	require.Equal(t, 2.0, gjson.GetBytes(score.Details, "scale").Float())
	require.Equal(t, "no verdict", gjson.GetBytes(score.Details, "parts.2.error").String())

	_, err = (&Scorer{skip: true, parts: []part{broken}}).Score(t.Context(), Input{})
	require.ErrorAs(t, err, &failure, "nothing is left to score with")
	_, err = (&Scorer{skip: true, parts: []part{a, lost}}).Score(t.Context(), Input{})
	require.True(t, toolcontext.IsInfrastructure(err), "a lost sandbox is nobody's score")
}

func TestAConfigurationOfOnePartNeedsNoList(t *testing.T) {
	c := Config{Part: Part{Type: TypeExact, ReferenceField: "a", Weight: 1}}
	require.Empty(t, c.Problems("reward", config.Server{}))
	c.Parts = []Part{{Type: TypeCommand, Script: "true", Weight: 1}}
	require.ErrorContains(t, errors.Join(c.Problems("reward", config.Server{})...), "can't be combined with parts")
	require.True(t, Config{}.Empty())
	require.True(t, Config{Parts: c.Parts}.NeedsSandbox())
	require.False(t, Config{Parts: c.Parts}.UsesJudge())
	zero := Config{Part: Part{Type: TypeExact, ReferenceField: "a"}}
	require.ErrorContains(t, errors.Join(zero.Problems("reward", config.Server{})...), "every weight is 0")
	_, err := New(Options{})
	require.ErrorContains(t, err, "no reward is configured")
}
