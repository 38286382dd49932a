package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// judged is an environment with a model server of its own and rules about a list.
type judged struct {
	Judge Server `yaml:"judge"`
	Parts []part `yaml:"parts"`
}

type part struct {
	Word string `yaml:"word" nullable:"true"`
}

func (j *judged) ValidateConfig(*Config) []error {
	if len(j.Parts) == 0 {
		return nil
	}
	return []error{&FieldError{Field: "parts[0].word", Message: "is missing"}}
}

func loadJudged(t *testing.T, file string, flags ...Flag) (*judged, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.yaml")
	require.NoError(t, os.WriteFile(path, []byte(file), 0o600))
	variables := map[string]string{"OPENAI_API_KEY": "sk-openai", "JUDGE_KEY": "sk-judge"}
	resolved, err := Load(Options{
		File:  path,
		Flags: append(flags, Flag{Name: "openai.base_url", Value: "http://one.example/v1"}, Flag{Name: "openai.model_name", Value: "m"}),
		LookupEnv: func(name string) (string, bool) {
			value, ok := variables[name]
			return value, ok
		},
		WorkDir: t.TempDir(),
		Environments: []Environment{{Name: "judged", Own: func() any { return &judged{} },
			Defaults: func(c *Config) { c.Own.(*judged).Judge.BaseURL = "" }}},
	})
	if err != nil {
		return nil, err
	}
	return resolved.Own.(*judged), nil
}

func TestAServerOfAnEnvironmentsOwnGetsTheKeyThatWasMeantForIt(t *testing.T) {
	for name, test := range map[string]struct{ judge, want string }{
		"named by variable":                  {"{base_url: 'http://j.example/v1', api_key_env: JUDGE_KEY}", "sk-judge"},
		"named in the key":                   {"{base_url: 'http://j.example/v1', api_key: $JUDGE_KEY}", "sk-judge"},
		"by its host":                        {"{base_url: 'https://api.openai.com/v1'}", "sk-openai"},
		"none for a host nobody gave one to": {"{base_url: 'http://j.example/v1'}", ""},
		"none without a server":              {"{model_name: j}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			own, err := loadJudged(t, "environment: judged\nenv:\n  judge: "+test.judge+"\n")
			require.NoError(t, err)
			require.Equal(t, test.want, own.Judge.APIKey.Reveal())
		})
	}
	_, err := loadJudged(t, "environment: judged\nenv:\n  judge: {base_url: 'http://j.example/v1', api_key_env: NOT_THERE}\n")
	require.ErrorContains(t, err, "x.yaml:3:")
	require.ErrorContains(t, err, "NOT_THERE is not set")
}

func TestTheKeyOfAFileDoesNotTravelToTheHostOfAFlag(t *testing.T) {
	const file = "environment: judged\nenv:\n  judge: {base_url: 'http://j.example/v1', api_key_env: JUDGE_KEY}\n"
	elsewhere := Flag{Name: "env.judge.base_url", Value: "http://elsewhere.example/v1"}
	_, err := loadJudged(t, file, elsewhere)
	require.ErrorContains(t, err, "is not sent to elsewhere.example; pass --env.judge.api_key_env too")
	own, err := loadJudged(t, file, elsewhere, Flag{Name: "env.judge.api_key_env", Value: "OPENAI_API_KEY"})
	require.NoError(t, err)
	require.Equal(t, "sk-openai", own.Judge.APIKey.Reveal())
}

func TestAProblemOfAFieldNobodyGaveIsPlacedAtWhatIsAroundIt(t *testing.T) {
	_, err := loadJudged(t, "environment: judged\nenv:\n  parts:\n    - {}\n")
	require.ErrorContains(t, err, "x.yaml:4:7: env.parts[0].word: is missing")
	_, err = loadJudged(t, "environment: judged\nenv:\n  parts:\n    - word: x\n")
	require.ErrorContains(t, err, "x.yaml:4:13: env.parts[0].word: is missing")
}
