package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

func TestKeysGoOnlyWhereTheyAreMeantToGo(t *testing.T) {
	const head = "environment: terminal-test\nopenai:\n"
	tests := []struct {
		name   string
		yaml   string
		flags  []string
		vars   []string
		dotenv string
		keys   []string // per server
		source []string
		want   string // error
		warns  string
	}{
		{name: "a key written out", yaml: "  {base_url: 'http://h', model_name: m, api_key: sk-literal}", vars: []string{"OPENAI_API_KEY", "sk-other"},
			keys: []string{"sk-literal"}, source: []string{"config file"}},
		{name: "a key from a variable named with a dollar", yaml: "  {base_url: 'http://h', model_name: m, api_key: $MY_KEY}", vars: []string{"MY_KEY", " sk-mine\n"},
			keys: []string{"sk-mine"}, source: []string{"environment variable MY_KEY"}},
		{name: "a key from a variable named with braces", yaml: "  {base_url: 'http://h', model_name: m, api_key: '${MY_KEY}'}", vars: []string{"MY_KEY", "sk-mine"},
			keys: []string{"sk-mine"}, source: []string{"environment variable MY_KEY"}},
		{name: "a key from a variable named by itself", yaml: "  {base_url: 'http://h', model_name: m, api_key_env: MY_KEY}", vars: []string{"MY_KEY", "sk-mine"},
			keys: []string{"sk-mine"}, source: []string{"environment variable MY_KEY"}},
		{name: "a variable that is not set", yaml: "  {base_url: 'http://h', model_name: m, api_key: $MY_KEY}",
			want: "x.yaml:3:50: openai.api_key: $MY_KEY is not set; export MY_KEY, or write it into a .env file beside the config or in the working directory"},
		{name: "a named variable that is empty", yaml: "  {base_url: 'http://h', model_name: m, api_key_env: MY_KEY}", vars: []string{"MY_KEY", " "},
			want: "x.yaml:3:54: openai.api_key_env: MY_KEY is not set; export MY_KEY, or write it into a .env file beside the config or in the working directory"},
		{name: "something that looks like a variable and is none", yaml: "  {base_url: 'http://h', model_name: m, api_key: '${MY_KEY:-x}'}",
			want: "x.yaml:3:50: openai.api_key: starts with $ but is no variable; write $NAME or ${NAME}"},
		{name: "a key in the place of a variable's name", yaml: "  {base_url: 'http://h', model_name: m, api_key_env: sk-secret-1}",
			want: "x.yaml:3:54: openai.api_key_env: want the name of an environment variable without $, got 11 characters that are none"},
		{name: "both at once", yaml: "  {base_url: 'http://h', model_name: m, api_key: a, api_key_env: B}",
			want: "x.yaml:3:66: openai.api_key_env: api_key is given as well; keep one of the two"},
		{name: "a flag replaces the file's way to a key", yaml: "  {base_url: 'http://h', model_name: m, api_key: a}", flags: []string{"openai.api_key_env=B"}, vars: []string{"B", "sk-b"},
			keys: []string{"sk-b"}, source: []string{"environment variable B"}},
		{name: "a key on the command line", yaml: "  {base_url: 'http://h', model_name: m, api_key_env: A}", flags: []string{"openai.api_key=sk-flag"},
			keys: []string{"sk-flag"}, source: []string{"flag"}, warns: "flag --openai.api_key: other users of this machine can see the command line"},
		{name: "a key that is a number", yaml: "  {base_url: 'http://h', model_name: m, api_key: 123456}",
			want: "x.yaml:3:50: openai.api_key: want text; put the value in quotes"},
		{name: "a key with a line break", yaml: "  {base_url: 'http://h', model_name: m, api_key_env: A}", vars: []string{"A", "sk\r\nX-Evil: 1"},
			want: "x.yaml:3:54: openai.api_key_env: the value of A (environment variable A) holds a space, a line break or a control character; it was probably copied with something around it"},
		{name: "a key with a curly quote", yaml: "  {base_url: 'http://h', model_name: m, api_key: “sk”}",
			want: "x.yaml:3:50: openai.api_key: holds a character outside ASCII; it was probably copied with something around it"},
		{name: "a redacted key", yaml: "  {base_url: 'http://h', model_name: m, api_key: '[redacted]'}",
			want: "x.yaml:3:50: openai.api_key: [redacted] is what a printed configuration shows in place of a secret; write the secret, or $NAME of a variable"},
		{name: "an empty key is none", yaml: "  {base_url: 'http://h', model_name: m, api_key: ''}", vars: []string{"OPENAI_API_KEY", "sk-o"},
			keys: []string{""}, source: []string{""}},

		{name: "api.openai.com by rule", yaml: "  {model_name: m}", vars: []string{"OPENAI_API_KEY", "sk-o", "OPENROUTER_API_KEY", "sk-r"},
			keys: []string{"sk-o"}, source: []string{"environment variable OPENAI_API_KEY"}},
		{name: "openrouter.ai by rule", yaml: "  {base_url: 'https://OpenRouter.ai/api/v1', model_name: m}", vars: []string{"OPENAI_API_KEY", "sk-o", "OPENROUTER_API_KEY", "sk-r"},
			keys: []string{"sk-r"}, source: []string{"environment variable OPENROUTER_API_KEY"}},
		{name: "openrouter.ai without its key", yaml: "  {base_url: 'https://openrouter.ai/api/v1', model_name: m}", vars: []string{"OPENAI_API_KEY", "sk-o"},
			want: "openai.api_key: no key for openrouter.ai: set OPENROUTER_API_KEY in the environment or in .env, or name another variable with api_key_env"},
		{name: "any other single host by rule", yaml: "  {base_url: 'http://127.0.0.1:9001', model_name: m}", vars: []string{"OPENAI_API_KEY", "sk-o"},
			keys: []string{"sk-o"}, source: []string{"environment variable OPENAI_API_KEY"}},
		{name: "any other single host without a key", yaml: "  {base_url: 'http://127.0.0.1:9001', model_name: m}", keys: []string{""}, source: []string{""}},
		{name: "a host that only looks like a known one", yaml: "\n  - {base_url: 'http://api.openai.com.evil.example', model_name: m}\n  - {base_url: 'http://h', model_name: m}", vars: []string{"OPENAI_API_KEY", "sk-o"},
			keys: []string{"", ""}, source: []string{"", ""}},
		{name: "several hosts get no key that is not theirs", yaml: "  - {model_name: m}\n  - {base_url: 'http://h', model_name: m}\n  - {base_url: 'http://i', model_name: m, api_key: $I}", vars: []string{"OPENAI_API_KEY", "sk-o", "I", "sk-i"},
			keys: []string{"sk-o", "", "sk-i"}, source: []string{"environment variable OPENAI_API_KEY", "", "environment variable I"}},
		{name: "an embedded server gets none", yaml: "  {base_url: replay, model_name: m}", vars: []string{"OPENAI_API_KEY", "sk-o"}, keys: []string{""}, source: []string{""}},
		{name: "another host on the command line doesn't get the file's key", yaml: "  {base_url: 'http://h', model_name: m, api_key: sk-h}", flags: []string{"openai.base_url=http://other"},
			keys: []string{""}, source: []string{""}, warns: "flag --openai.base_url: the key of x.yaml:3 is for h and is not sent to other; pass --openai.api_key_env to name one for it"},
		{name: "another path on the same host does", yaml: "  {base_url: 'http://h', model_name: m, api_key: sk-h}", flags: []string{"openai.base_url=http://h/v1"},
			keys: []string{"sk-h"}, source: []string{"config file"}},

		{name: "a key from .env", yaml: "  {model_name: m}", dotenv: "# keys\nA=b\nexport OPENAI_API_KEY=\"sk-file\"\n", keys: []string{"sk-file"}, source: []string{".env:3"}},
		{name: "the environment beats .env", yaml: "  {model_name: m}", dotenv: "OPENAI_API_KEY=sk-file", vars: []string{"OPENAI_API_KEY", "sk-o"},
			keys: []string{"sk-o"}, source: []string{"environment variable OPENAI_API_KEY"}},
		{name: "a broken line in .env is named and its text is not", yaml: "  {model_name: m}", dotenv: "sk-secret\nOPENAI_API_KEY=sk-file", keys: []string{"sk-file"}, source: []string{".env:2"},
			warns: ".env:1: not NAME=VALUE, left out"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := options()
			o.LookupEnv = vars(tt.vars...)
			o.WorkDir = t.TempDir()
			if tt.dotenv != "" {
				require.NoError(t, os.WriteFile(filepath.Join(o.WorkDir, ".env"), []byte(tt.dotenv), 0o600))
			}
			r, err := loadText(t, o, head+tt.yaml+"\n", tt.flags...)
			if tt.want != "" {
				require.EqualError(t, err, tt.want)
				return
			}
			require.NoError(t, err)
			var keys, sources []string
			for _, s := range r.Servers {
				keys = append(keys, s.APIKey.Reveal())
				sources = append(sources, strings.ReplaceAll(s.KeySource, o.WorkDir+"/", ""))
			}
			require.Equal(t, tt.keys, keys)
			require.Equal(t, tt.source, sources)
			warnings := strings.Join(r.Warnings, "\n")
			if tt.warns == "" {
				require.Empty(t, warnings)
			}
			for _, part := range strings.Split(tt.warns, "x.yaml") {
				require.Contains(t, warnings, part)
			}

			// Nothing that is printed or recorded shows a key.
			var printed bytes.Buffer
			require.NoError(t, r.WriteYAML(&printed))
			shown := printed.String() + string(r.CanonicalJSON()) + warnings + fmt.Sprintf("%v %+v %#v", r.Servers, r.Servers, r.Servers)
			for _, k := range keys {
				if k != "" {
					require.NotContains(t, shown, k)
				}
			}
		})
	}
}

func TestDotenvBesideTheConfigComesAfterTheOneInTheWorkingDirectory(t *testing.T) {
	dir, work := t.TempDir(), t.TempDir()
	file := filepath.Join(dir, "x.yaml")
	require.NoError(t, os.WriteFile(file, []byte("environment: terminal-test\nopenai: {model_name: m}\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".env"), []byte("OPENAI_API_KEY=beside"), 0o600))
	o := options()
	o.File, o.WorkDir = file, work
	r, err := Load(o)
	require.NoError(t, err)
	require.Equal(t, "beside", r.Servers[0].APIKey.Reveal())

	require.NoError(t, os.WriteFile(filepath.Join(work, ".env"), []byte("OPENAI_API_KEY=here"), 0o600))
	r, err = Load(o)
	require.NoError(t, err)
	require.Equal(t, "here", r.Servers[0].APIKey.Reveal())
	_, set := os.LookupEnv("OPENAI_API_KEY")
	if set {
		require.NotEqual(t, "here", os.Getenv("OPENAI_API_KEY"), "a .env file never changes the process environment")
	}
}

func TestKeysAreNotNeededToPrintAConfiguration(t *testing.T) {
	o := options()
	o.WithoutKeys = true
	r, err := loadText(t, o, "environment: demo\nopenai: {model_name: m, api_key: $NOT_SET}\nenv: {judge: {key: $ALSO_NOT}}\n")
	require.NoError(t, err)
	require.Equal(t, "$NOT_SET", r.Servers[0].APIKey.String())
	require.Contains(t, string(r.CanonicalJSON()), `"key":"$ALSO_NOT"`)
}

func TestAServerThatNobodyAsksNeedsNoKey(t *testing.T) {
	r, err := loadText(t, options(), "environment: demo\nagent: oracle\nopenai: {model_name: m}\n")
	require.NoError(t, err)
	require.False(t, r.Servers[0].APIKey.IsSet())
}

func TestAnEnvironmentsOwnSecretsAreFoundAndRedacted(t *testing.T) {
	o := options()
	o.LookupEnv = vars("JUDGE", "sk-judge")
	r, err := loadText(t, o, "environment: demo\nenv: {judge: {key: $JUDGE}}\n"+server)
	require.NoError(t, err)
	require.Equal(t, "sk-judge", r.Own.(*demoConfig).Judge.Key.Reveal())
	require.NotContains(t, string(r.CanonicalJSON()), "sk-judge")

	o.LookupEnv = nil
	_, err = loadText(t, o, "environment: demo\nenv: {judge: {key: $JUDGE}}\n"+server)
	require.EqualError(t, err, "x.yaml:2:20: env.judge.key: $JUDGE is not set; export JUDGE, or write it into a .env file beside the config or in the working directory")
}

func TestASecretNeverShows(t *testing.T) {
	s := NewSecret("sk-very-secret")
	require.Equal(t, "sk-very-secret", s.Reveal())
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		require.Equal(t, Redacted, fmt.Sprintf(verb, s), verb)
		require.NotContains(t, fmt.Sprintf(verb, struct{ S *Secret }{&s}), "sk-very", verb)
	}
	raw, err := json.Marshal(map[string]any{"k": s, "p": &s})
	require.NoError(t, err)
	require.Equal(t, `{"k":"[redacted]","p":"[redacted]"}`, string(raw))
	text, err := yaml.Marshal(map[string]any{"k": s})
	require.NoError(t, err)
	require.Equal(t, "k: '[redacted]'\n", string(text))
	var buf bytes.Buffer
	slog.New(slog.NewTextHandler(&buf, nil)).Info("x", "k", s)
	slog.New(slog.NewJSONHandler(&buf, nil)).Info("x", "k", s, "server", Server{APIKey: s})
	require.NotContains(t, buf.String(), "sk-very")

	require.Empty(t, Secret{}.String())
	raw, err = json.Marshal(Secret{})
	require.NoError(t, err)
	require.Equal(t, "null", string(raw))
}

func TestDotenvLines(t *testing.T) {
	tests := []struct {
		name, in string
		want     []Variable
		bad      []int
	}{
		{"plain, exported and spaced", "A=1\nexport B = two words \n\tC=\n", []Variable{{"A", "1", 1}, {"B", "two words", 2}, {"C", "", 3}}, nil},
		{"comments", "# x\nA=1 # y\nB=1#2\nC=#z\n  # w", []Variable{{"A", "1", 2}, {"B", "1#2", 3}, {"C", "", 4}}, nil},
		{"windows line ends and a byte order mark", "\ufeffA=1\r\nB='2'\r\n", []Variable{{"A", "1", 1}, {"B", "2", 2}}, nil},
		{"single quotes keep everything", `A='a "b" \n $C # d' # e`, []Variable{{"A", `a "b" \n $C # d`, 1}}, nil},
		{"double quotes know escapes", `A="a \"b\" \n\t\\ \$C \q"`, []Variable{{"A", "a \"b\" \n\t\\ $C \\q", 1}}, nil},
		{"quotes span lines", "A=\"x\ny\"\nB=2", []Variable{{"A", "x\ny", 1}, {"B", "2", 3}}, nil},
		{"an equals sign in the value", "A=b=c==", []Variable{{"A", "b=c==", 1}}, nil},
		{"quotes inside a bare value", `A=b"c"`, []Variable{{"A", `b"c"`, 1}}, nil},
		{"lines that are none", "sk-123\nA B=1\n1A=2\n=3\nA=\"open\nB='x' y\nC=1", []Variable{{"C", "1", 7}}, []int{1, 2, 3, 4, 5, 6}},
		{"bytes that are no text", "A=\xff\nB=\x00\nC=1", []Variable{{"C", "1", 3}}, []int{1, 2}},
		{"nothing", "", nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			vars, bad := ParseDotenv([]byte(tt.in))
			require.Equal(t, tt.want, vars)
			require.Equal(t, tt.bad, bad)
		})
	}
}
