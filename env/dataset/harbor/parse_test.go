package harbor_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/env/dataset/harbor"
)

var update = flag.Bool("update", false, "write the golden files")

func TestTaskFilesOfBothGenerationsAreRead(t *testing.T) {
	names, err := filepath.Glob("testdata/toml/*.toml")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			config, notes, err := harbor.Parse("task.toml", data)
			require.NoError(t, err)
			var out strings.Builder
			e := json.NewEncoder(&out)
			e.SetEscapeHTML(false)
			e.SetIndent("", "  ")
			require.NoError(t, e.Encode(config))
			for _, n := range notes {
				fmt.Fprintln(&out, "note:", n)
			}
			golden := strings.TrimSuffix(name, ".toml") + ".golden"
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(out.String()), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), out.String())
		})
	}
}

func TestDefaultsAreHarbors(t *testing.T) {
	c, notes, err := harbor.Parse("task.toml", nil)
	require.NoError(t, err)
	require.Empty(t, notes)
	require.Zero(t, c.Agent.Timeout)
	require.Equal(t, 10*time.Minute, c.Verifier.Timeout)
	require.Equal(t, harbor.Environment{
		BuildTimeout: 10 * time.Minute, CPUs: 1, MemoryMB: 2048, StorageMB: 10240, NetworkMode: harbor.Public, OS: "linux",
	}, c.Environment)
	require.False(t, c.Gives("environment.memory_mb"))
	c, _, err = harbor.Parse("task.toml", []byte("[environment]\nmemory = '1G'\n"))
	require.NoError(t, err)
	require.True(t, c.Gives("environment.memory_mb"))
	require.False(t, c.Gives("environment.cpus"))
}

func TestEveryProblemIsNamedWithItsLine(t *testing.T) {
	for name, c := range map[string]struct {
		toml string
		want []string
	}{
		"wrong types": {
			"version = '1.0'\n[agent]\ntimeout_sec = true\n[verifier]\ntimeout_sec = 'soon'\n[environment]\ncpus = '2x'\ndocker_image = 7\nallow_internet = 'no'\nenv = { A = 1 }\n",
			[]string{
				"task.toml:3: agent.timeout_sec: must be a number, not true or false",
				`task.toml:5: verifier.timeout_sec: must be a number, not "soon"`,
				`task.toml:7: environment.cpus: must be a number, not "2x"`,
				"task.toml:8: environment.docker_image: must be a string, not a number",
				"task.toml:9: environment.allow_internet: must be true or false, not a string",
				"task.toml:10: environment.env.A: must be a string, not a number",
			},
		},
		"wrong shapes": {
			"agent = 3\nsteps = 'one'\nartifacts = [1]\n[environment]\ngpu_types = 'H100'\nmcp_servers = [5]\nallowed_hosts = [1]\n",
			[]string{
				"task.toml:1: agent: must be a table, not a number",
				"task.toml:2: steps: must be an array of tables, not a string",
				"task.toml:3: artifacts[0]: must be a path or a table, not a number",
				"task.toml:5: environment.gpu_types: must be an array of strings, not a string",
				"task.toml:6: environment.mcp_servers[0]: must be a table, not a number",
				"task.toml:7: environment.allowed_hosts[0]: must be a string, not a number",
			},
		},
		"impossible values": {
			"multi_step_reward_strategy = 'max'\n[agent]\ntimeout_sec = 0\n[verifier]\ntimeout_sec = -5\nnetwork_mode = 'lan'\n[environment]\ncpus = 0\nmemory_mb = 0.5\ngpus = -1\nmemory = '2 apples'\nworkdir = 'app'\nbuild_timeout_sec = inf\ndocker_image = 'a b'\nallowed_hosts = ['https://x.org', 'x.org']\n[environment.healthcheck]\nretries = 0\n",
			[]string{
				`task.toml:1: multi_step_reward_strategy: must be one of mean, final, not "max"`,
				"task.toml:3: agent.timeout_sec: must be more than 0 seconds",
				"task.toml:5: verifier.timeout_sec: must be more than 0 seconds",
				`task.toml:6: verifier.network_mode: must be one of public, no-network, allowlist, not "lan"`,
				"task.toml:8: environment.cpus: must be more than 0",
				"task.toml:9: environment.memory_mb: must be a whole number",
				"task.toml:10: environment.gpus: must be at least 0",
				`task.toml:11: environment.memory: "2 apples" is no size: write such as "2G" or "512M"`,
				`task.toml:12: environment.workdir: must be an absolute path in the container, not "app"`,
				"task.toml:13: environment.build_timeout_sec: must be a finite number",
				`task.toml:14: environment.docker_image: is no name of an image: "a b"`,
				`task.toml:15: environment.allowed_hosts[0]: must be a host name or an IPv4 address alone, without scheme, port or path, not "https://x.org"`,
				`task.toml:16: environment.healthcheck: needs a "command"`,
				"task.toml:17: environment.healthcheck.retries: must be at least 1",
			},
		},
		"steps": {
			"[[steps]]\nname = 'a'\n[[steps]]\nname = 'a'\n[steps.agent]\ntimeout_sec = 'x'\n[[steps]]\n[[steps]]\nname = '../up'\nmin_reward = 'all'\n",
			[]string{
				`task.toml:4: steps[1].name: is the name of an earlier step too: "a"`,
				`task.toml:6: steps[1].agent.timeout_sec: must be a number, not "x"`,
				`task.toml:7: steps[2]: needs a "name"`,
				`task.toml:9: steps[3].name: must be the name of a folder below steps/, not "../up"`,
				`task.toml:10: steps[3].min_reward: must be a number, not "all"`,
			},
		},
		"the rest": {
			"[task]\nname = 'no-organisation'\nauthors = [{ email = 'x' }]\n[verifier]\nenvironment_mode = 'shared'\ncollect = [{ service = 'x' }]\n[verifier.environment]\n[environment]\nnetwork_mode = 'public'\nallowed_hosts = ['x.org']\nmcp_servers = [{ name = 'a' }, { name = 'b', transport = 'stdio' }, { transport = 'smoke', url = 'x' }]\n[environment.env]\n'A B' = 'x'\n[metadata]\nkeep_processes = 'yes'\n",
			[]string{
				`task.toml:2: task.name: must look like org/name, of letters, digits, '-', '_' and '.', not "no-organisation"`,
				`task.toml:3: task.authors[0]: needs a "name"`,
				`task.toml:6: verifier.collect[0]: needs a "command"`,
				`task.toml:7: verifier.environment: needs environment_mode = "separate"`,
				`task.toml:10: environment.allowed_hosts: needs network_mode = "allowlist", not "public"`,
				`task.toml:11: environment.mcp_servers[0]: needs a "url" for transport "sse"`,
				`task.toml:11: environment.mcp_servers[1]: needs a "command" for transport "stdio"`,
				`task.toml:11: environment.mcp_servers[2]: needs a "name"`,
				`task.toml:11: environment.mcp_servers[2].transport: must be one of sse, streamable-http, stdio, not "smoke"`,
				"task.toml:13: environment.env.A B: is no name of an environment variable",
				"task.toml:15: metadata.keep_processes: must be \"auto\", \"always\", \"services\" or \"never\", not a string",
			},
		},
		"no TOML at all": {"[agent\ntimeout_sec = 1\n", []string{"task.toml:2: expected '.' or ']'"}},
		"a key twice":    {"a = 1\nb = 2\na = 3\n", []string{"task.toml:3: "}},
	} {
		t.Run(name, func(t *testing.T) {
			config, _, err := harbor.Parse("task.toml", []byte(c.toml))
			require.Nil(t, config)
			var e *harbor.Error
			require.True(t, errors.As(err, &e))
			lines := strings.Split(err.Error(), "\n")
			if len(c.want) == 1 {
				require.Len(t, lines, 1)
				require.Contains(t, lines[0], c.want[0])
				return
			}
			require.Equal(t, strings.Join(c.want, "\n"), strings.Join(lines, "\n"))
		})
	}
}

func TestParse_SuggestsTheKeyThatAMisspeltOneStandsFor(t *testing.T) {
	c, notes, err := harbor.Parse("task.toml", []byte(`verify_in = "fresh"
[metadata]
isolate_test = false
workdirectories = ["/app"]
verify_inn = "clean"
keep-process = "never"
isolation = "none"
verified = true
work = "long"
processes = 3
test_timeout = 5
[agent]
timeout_secs = 5
[agents]
`))
	require.NoError(t, err)
	require.Empty(t, c.Metadata.VerifyIn)
	var lines []string
	for _, n := range notes {
		lines = append(lines, n.String())
	}
	require.Equal(t, []string{
		`task.toml:1: verify_in: is not known here and is ignored; it belongs in [metadata]`,
		`task.toml:3: metadata.isolate_test: is not known and is ignored; did you mean "isolate_tests"?`,
		`task.toml:4: metadata.workdirectories: is not known and is ignored; did you mean "work_directories"?`,
		`task.toml:5: metadata.verify_inn: is not known and is ignored; did you mean "verify_in"?`,
		`task.toml:6: metadata.keep-process: is not known and is ignored; did you mean "keep_processes"?`,
		`task.toml:13: agent.timeout_secs: is not known and is ignored; did you mean "timeout_sec"?`,
		`task.toml:14: agents: is not known and is ignored; did you mean "agent"?`,
	}, lines)
}

func TestSizesAreReadAsHarborDoes(t *testing.T) {
	for s, want := range map[string]int64{
		"2G": 2048, "512M": 512, "1.5g": 1536, "1048576K": 1024, " 4 G ": 4096, "2GB": 2048, "2GiB": 2048, "1T": 1 << 20, "1500K": 1,
	} {
		got, err := harbor.ParseSizeMB(s)
		require.NoError(t, err, s)
		require.Equal(t, want, got, s)
	}
	for _, s := range []string{"", "2", "G", "-1G", "2P", "1e3M", "0M", "1K", "99999999999T", "2G2"} {
		_, err := harbor.ParseSizeMB(s)
		require.Error(t, err, s)
	}
}

func TestStepsTakeWhatTheyLackFromTheTask(t *testing.T) {
	c, _, err := harbor.Parse("task.toml", []byte("[agent]\ntimeout_sec = 300\nuser = 'a'\n[verifier]\ntimeout_sec = 900\nuser = 'v'\nenv = { K = 'task' }\n"+
		"[[steps]]\nname = 'x'\n[[steps]]\nname = 'y'\n[steps.agent]\ntimeout_sec = 5\n[steps.verifier]\ntimeout_sec = 7\nenv = { L = 'step' }\n"))
	require.NoError(t, err)
	x, y := c.Steps[0], c.Steps[1]
	require.Equal(t, 300*time.Second, x.Agent.Timeout)
	require.Equal(t, "v", x.Verifier.User)
	require.Equal(t, 600*time.Second, x.Verifier.Timeout, "a step's verifier has the default time, not the task's")
	require.Equal(t, map[string]string{"K": "task"}, x.Verifier.Env)
	require.Equal(t, 5*time.Second, y.Agent.Timeout)
	require.Equal(t, "a", y.Agent.User)
	require.Equal(t, 7*time.Second, y.Verifier.Timeout)
	require.Equal(t, map[string]string{"L": "step"}, y.Verifier.Env)
}

func TestVariablesOfTheHostAreNamedAndFilledIn(t *testing.T) {
	values := map[string]string{
		"A": "${KEY}", "B": "${MODEL:-small}", "C": "plain", "D": "in ${THE} middle", "E": "${EMPTY:-x}",
		"F": "${J:-{\"a\": \"}\"}}", "G": "${}", "H": "$KEY", "I": "${KEY", "Z": "${Z:-}",
	}
	require.Equal(t, []string{"EMPTY", "J", "KEY", "MODEL", "Z"}, harbor.Variables(values, map[string]string{"X": "${KEY}"}))
	host := map[string]string{"KEY": "secret", "EMPTY": "", "THE": "no"}
	lookup := func(name string) (string, bool) { v, ok := host[name]; return v, ok }
	got, err := harbor.Expand(values, lookup)
	require.NoError(t, err)
	require.Equal(t, map[string]string{
		"A": "secret", "B": "small", "C": "plain", "D": "in ${THE} middle", "E": "",
		"F": `{"a": "}"}`, "G": "${}", "H": "$KEY", "I": "${KEY", "Z": "",
	}, got)
	_, err = harbor.Expand(map[string]string{"A": "${NOPE}", "B": "${ALSO}"}, lookup)
	require.ErrorContains(t, err, "NOPE (for A), ALSO (for B)")
}
