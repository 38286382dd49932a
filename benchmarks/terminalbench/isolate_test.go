package terminalbench

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/env/dataset/harbor"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/trajectories"
)

// executes is a test script that runs the agent's program and passes when it prints 42.
const executes = `#!/bin/sh
if [ "$(timeout 5 /work/answer)" = 42 ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
`

func kindsOf(r *trajectories.Rollout) []string {
	var kinds []string
	for _, t := range r.Tampering {
		if t.Active {
			kinds = append(kinds, t.Kind)
		}
	}
	return kinds
}

func TestVerify_IsolatesTestsFromTheProgramsTheyRun(t *testing.T) {
	attacks := map[string]struct{ program, kind string }{
		"writes the reward":    {"echo 1 > /logs/verifier/reward.txt", "reward_write"},
		"writes another kind":  {"echo 1 > /logs/verifier/reward.json", "reward_write"},
		"leaves a writer":      {"(setsid sh -c 'i=0; while [ $i -lt 500 ]; do echo 1 > /logs/verifier/reward.txt; i=$((i+1)); done' > /dev/null 2>&1 &)", ""}, // it may come too late to be seen
		"edits the script":     {"echo 'echo 1 > /logs/verifier/reward.txt' >> /tests/test.sh", "test_change"},
		"kills the script":     {"echo 1 > /logs/verifier/reward.txt; killall -9 test.sh", "signal"},
		"replaces a program":   {"printf '#!/bin/sh\\necho 42\\n' > /bin/timeout", "tool_change"},
		"replaces the tests":   {"mv /tests /old; mkdir /tests", "test_change"},
		"writes to the memory": {"for p in /proc/[0-9]*; do if grep -q test.sh $p/cmdline 2>/dev/null; then echo x > $p/mem; fi; done", "trace"},
	}
	for _, where := range []string{verifySame, verifyClean} {
		t.Run(where, func(t *testing.T) {
			b := newBench(t)
			b.change = func(c *Config) { c.VerifyIn = where }
			for name, a := range attacks {
				writeTask(t, b.root, taskName(name), "#!/bin/sh\ncat > /work/answer <<'END'\n#!/bin/sh\n"+a.program+"\necho 41\nEND\nchmod 755 /work/answer\n", files{"tests/test.sh": executes})
			}
			writeTask(t, b.root, "honest", "#!/bin/sh\nprintf '#!/bin/sh\\necho 42; echo x > /work/log; mkdir -p /tmp/own; echo y > /tmp/own/file\\n' > /work/answer; chmod 755 /work/answer\n", files{"tests/test.sh": executes})
			writeTask(t, b.root, "leaves-a-process", "#!/bin/sh\nprintf '#!/bin/sh\necho 42; (setsid sleep 700 > /dev/null 2>&1 &); sleep 0.3\n' > /work/answer; chmod 755 /work/answer\n", files{"tests/test.sh": executes})
			records := b.run()
			for name, a := range attacks {
				r := records[taskName(name)]
				require.Equal(t, "0", outcome(r), "%s: %s", name, problemOf(r))
				if a.kind != "" {
					require.Contains(t, kindsOf(r), a.kind, "%s: %s", name, r.Metadata)
				}
				require.True(t, verifierOf(r).Get("isolated").Bool(), name)
			}
			require.Contains(t, verifierOf(records["leaves-a-process"]).Get("left_by_tests").Raw, "sleep 700")
			require.Equal(t, "1", outcome(records["leaves-a-process"]))
			require.Equal(t, "1", outcome(records["honest"]), "%s", problemOf(records["honest"]))
			require.Empty(t, records["honest"].Tampering)
		})
	}
}

func TestVerify_CountsTestsThatHangInTheAgentsProgramAsZero(t *testing.T) {
	b := newBench(t)
	b.change = func(c *Config) { c.VerifierRetries = 1 }
	const toml = "[agent]\ntimeout_sec = 20\n[verifier]\ntimeout_sec = 2\n[environment]\n"
	writeTask(t, b.root, "program", "#!/bin/sh\nprintf '#!/bin/sh\\nsleep 600\\n' > /work/answer; chmod 755 /work/answer\n", files{"task.toml": toml, "tests/test.sh": "#!/bin/sh\n/work/answer\n"})
	writeTask(t, b.root, "tests", "#!/bin/sh\ntrue\n", files{"task.toml": toml, "tests/test.sh": "#!/bin/sh\nsleep 600\n"})
	records := b.run()
	require.Equal(t, "0", outcome(records["program"]), problemOf(records["program"]))
	require.Equal(t, int64(2), verifierOf(records["program"]).Get("tries").Int())
	require.Equal(t, classTestsTimeout, outcome(records["tests"]), problemOf(records["tests"]))
}

func TestVerify_DoubtsARewardWithoutIsolation(t *testing.T) {
	b := newBench(t)
	b.change = func(c *Config) { c.IsolateTests = false }
	forged := "#!/bin/sh\nprintf '#!/bin/sh\\necho 1 > /logs/verifier/reward.json; echo 41\\n' > /work/answer; chmod 755 /work/answer\n"
	writeTask(t, b.root, "forged", forged, files{"tests/test.sh": executes})
	writeTask(t, b.root, "honest", "#!/bin/sh\nprintf '#!/bin/sh\\necho 42\\n' > /work/answer; chmod 755 /work/answer\n", files{"tests/test.sh": executes})
	records := b.run()
	require.Equal(t, classTampered, outcome(records["forged"]), problemOf(records["forged"]))
	require.Equal(t, "1", outcome(records["honest"]), problemOf(records["honest"]))
	require.Equal(t, "isolate_tests is false", verifierOf(records["forged"]).Get("not_isolated").String())
}

func TestVerify_KeepsOnlyTheWorkInACleanContainer(t *testing.T) {
	b := newBench(t)
	b.change = func(c *Config) { c.VerifyIn = verifyClean }
	looks := func(condition string) files {
		return files{"tests/test.sh": "#!/bin/sh\nif " + condition + "; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi\n"}
	}
	declared := "[metadata]\nwork_directories = [\"/srv/site\"]\n[environment]\n"
	same := "[metadata]\nverify_in = \"same\"\n[environment]\n"
	tasks := map[string]struct {
		agent, toml, condition, want string
	}{
		"the working directory":   {"echo 42 > /work/answer", "", `[ "$(cat /work/answer)" = 42 ]`, "1"},
		"a removed file":          {"echo 42 > /work/answer; rm -f /etc/group", "", "[ -f /etc/group ]", "1"},
		"a replaced program":      {"rm -f /bin/cat; printf '#!/bin/sh\\necho 42\\n' > /bin/cat; chmod 755 /bin/cat", "", `[ "$(cat /etc/hostname)" = 42 ]`, "0"},
		"a program in the way":    {"mkdir -p /usr/local/bin; printf '#!/bin/sh\\necho 42\\n' > /usr/local/bin/cat; chmod 755 /usr/local/bin/cat", "", "[ -e /usr/local/bin/cat ]", "0"},
		"a file of the system":    {"echo 42 > /etc/answer", "", "[ -f /etc/answer ]", "0"},
		"a process":               {"(setsid sleep 700 > /dev/null 2>&1 &)", "", "ps | grep -q '[s]leep 700'", "0"},
		"a declared directory":    {"mkdir -p /srv/site /work/x; echo 42 > /srv/site/answer", declared, "[ -f /srv/site/answer ] && [ ! -e /work/x ]", "1"},
		"a task of its own":       {"echo 42 > /etc/answer", same, "[ -f /etc/answer ]", "1"},
		"a directory of the root": {"mkdir /result; echo 42 > /result/answer", "", "[ -f /result/answer ]", "1"},
	}
	for name, task := range tasks {
		own := looks(task.condition)
		if task.toml != "" {
			own["task.toml"] = task.toml
		}
		writeTask(t, b.root, taskName(name), "#!/bin/sh\n"+task.agent+"\n", own)
	}
	records := b.run()
	for name, task := range tasks {
		r := records[taskName(name)]
		require.Equal(t, task.want, outcome(r), "%s: %s %s", name, problemOf(r), r.Metadata)
		require.Empty(t, kindsOf(r), "what is not there when the tests run is noted only: %s", name)
	}
	require.EqualValues(t, 1, verifierOf(records[taskName("a file of the system")]).Get("changes_left_out").Int())
	require.Equal(t, "shadows", records[taskName("a program in the way")].Tampering[0].Kind)
}

func TestVerify_EndsProcessesThatCouldReadSecrets(t *testing.T) {
	b := newBench(t)
	// The agent's process copies the variables of everything that starts.
	const spy = "#!/bin/sh\nsetsid sh -c 'httpd -p 8080 -h /work; while :; do cat /proc/[0-9]*/environ >> /work/seen 2>/dev/null; done' > /dev/null 2>&1 &\nsleep 0.2\n"
	const looks = "#!/bin/sh\nsleep 0.5\nif grep -q -a hush /work/seen; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi\n"
	writeTask(t, b.root, "secret", spy, files{"tests/test.sh": looks, "task.toml": "[verifier.env]\nJUDGE_API_KEY = \"hush\"\n[environment]\n"})
	writeTask(t, b.root, "template", spy, files{"tests/test.sh": looks, "task.toml": "[verifier.env]\nVALUE = \"${SOMETHING:-hush}\"\n[metadata]\nkeep_processes = true\n[environment]\n"})
	writeTask(t, b.root, "plain", spy, files{"tests/test.sh": looks, "task.toml": "[verifier.env]\nLEVEL = \"hush\"\n[environment]\n"})
	records := b.run()
	for _, name := range []string{"secret", "template"} {
		require.Equal(t, "0", outcome(records[name]), name)
		require.False(t, verifierOf(records[name]).Get("kept_processes").Exists(), name)
		require.Contains(t, verifierOf(records[name]).Get("ended_processes").Raw, "httpd", name)
		require.Contains(t, verifierOf(records[name]).Get("notes").Raw, "secrets", name)
	}
	require.Contains(t, verifierOf(records["plain"]).Get("kept_processes").Raw, "httpd")
}

func TestIsWork(t *testing.T) {
	app := &task{config: harbor.Config{Environment: harbor.Environment{Workdir: "/usr/src/app"}}}
	for name, want := range map[string]bool{
		"/usr/src/app/main.py": true, "/app/main.py": true, "/home/user/x": true, "/root/x": true, "/tmp/x": true, "/var/www/index.html": true, "/own/x": true,
		"/usr/bin/git": false, "/etc/hosts": false, "/root/.bashrc": false, "/root/.local/bin/uv": false, "/home/user/.profile": false, "/usr/local/bin/ln": false,
		"/var/lib/dpkg/status": false, "/conftest.py": false, "/app/sitecustomize.py": false, "/opt/venv/lib/python3.12/site-packages/x.py": false, "/logs/verifier/reward.txt": false,
	} {
		require.Equal(t, want, isWork(sandbox.Change{Path: name, Kind: sandbox.Added}, app, nil), name)
	}
	require.True(t, isWork(sandbox.Change{Path: "/etc/nginx/nginx.conf"}, app, []string{"/etc/nginx"}))
	require.False(t, isWork(sandbox.Change{Path: "/app/x"}, app, []string{"/etc/nginx"}))
}

func TestJudgeChange_NamesWhatActsOnTests(t *testing.T) {
	for path, want := range map[string]string{
		"added /usr/local/bin/ln": "shadows", "added /root/.local/bin/uvx": "shadows", "added /opt/venv/bin/pytest": "shadows", "modified /usr/bin/ln": "replaced",
		"added /usr/lib/python3/dist-packages/evil.pth": "startup", "added /usr/lib/python3/dist-packages/__editable__.x.pth": "", "added /app/sitecustomize.py": "startup",
		"added /conftest.py": "startup", "added /app/conftest.py": "", "modified /usr/lib/python3.11/json/__init__.py": "patched", "modified /usr/lib/python3.11": "",
		"added /usr/lib/python311.zip": "startup", "added /usr/lib/python3.11/pytest.py": "runner", "added /usr/lib/python3.11/own.py": "", "added /usr/bin/pyvenv.cfg": "startup",
		"modified /usr/lib/python3/dist-packages/_pytest/__pycache__/runner.cpython-311.pyc": "patched", "added /usr/lib/python3/dist-packages/_pytest/__pycache__/runner.cpython-311.pyc": "",
		"modified /opt/conda/lib/python3.11/json/__init__.py": "patched", "added /app/venv/lib/python3.11/site-packages/numpy/core.py": "", "added /usr/lib/python3/dist-packages/attr": "runner",
		"modified /usr/lib/python3/dist-packages/_pytest/main.py": "patched", "added /usr/local/lib/python3.12/site-packages/pytest": "runner",
		"added /usr/local/lib/python3.12/site-packages/numpy": "", "added /etc/profile.d/x.sh": "startup", "added /etc/ld.so.preload": "preload", "modified /root/.bashrc": "startup",
		"added /usr/bin/node": "", "modified /etc/pip.conf": "startup", "added /app/bin/ln": "",
	} {
		kind, name, _ := strings.Cut(path, " ")
		require.Equal(t, want, judgeChange(sandbox.Change{Path: name, Kind: sandbox.ChangeKind(kind)}), path)
	}
}
