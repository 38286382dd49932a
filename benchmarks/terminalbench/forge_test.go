package terminalbench

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/trajectories"
)

// chosenForgeries is an environment that knows only some of the forgeries.
type chosenForgeries struct {
	*Environment
	tried func(env.Forgery) bool
}

func (e chosenForgeries) Forgeries(item env.Item) []env.Forgery {
	return slices.DeleteFunc(e.Environment.Forgeries(item), func(f env.Forgery) bool { return e.tried != nil && !e.tried(f) })
}

const pythonImage = "hermes-env-demo:python"

// pythonTask is a task in an image with Python and pytest.
func pythonTask(own files) files {
	all := files{
		"task.toml":              "[agent]\ntimeout_sec = 60\n[verifier]\ntimeout_sec = 60\n[environment]\ndocker_image = \"" + pythonImage + "\"\nallow_internet = false\n",
		"environment/Dockerfile": "FROM " + pythonImage + "\n",
	}
	for name, text := range own {
		all[name] = text
	}
	return all
}

func makePythonImage(t *testing.T) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "testdata/base-images", "python").CombinedOutput()
	require.NoError(t, err, "make the image with Python: %s", out)
}

// pytestScript is a usual test script.
const pytestScript = `#!/bin/bash
python3 -m pytest -rA /tests/test_outputs.py
if [ $? -eq 0 ]; then echo 1 >/logs/verifier/reward.txt; else echo 0 >/logs/verifier/reward.txt; fi
`

// Tasks that forgeries are tried on. The tests of the first two run a program; those of
// the third load it into their own process.
func writeShellTask(t *testing.T, root string) {
	writeTask(t, root, "shell", "#!/bin/sh\nprintf '#!/bin/sh\\nexec sort -u\\n' >/work/unique.sh\nchmod 755 /work/unique.sh\n", files{"tests/test.sh": `#!/bin/sh
if [ "$(printf 'b\na\nb\n' | timeout 20 /work/unique.sh | tr '\n' ,)" = a,b, ]; then echo 1 >/logs/verifier/reward.txt; else echo 0 >/logs/verifier/reward.txt; fi
`})
}

func writePythonTask(t *testing.T, root string) {
	writeTask(t, root, "python", "#!/bin/sh\nprintf '#!/usr/bin/env python3\\nimport sys\\nprint(sum(map(int, sys.argv[1:])))\\n' >/app/add.py\nchmod 755 /app/add.py\n", pythonTask(files{
		"tests/test.sh": pytestScript,
		"tests/test_outputs.py": `import subprocess
def test_sum():
    assert subprocess.run(["python3", "/app/add.py", "40", "2"], capture_output=True, text=True, timeout=30).stdout.strip() == "42"
`,
	}))
}

func writeImportTask(t *testing.T, root string) {
	writeTask(t, root, "import", "#!/bin/sh\nprintf 'def add(*numbers):\\n    return sum(numbers)\\n' >/app/adding.py\n", pythonTask(files{
		"tests/test.sh": pytestScript,
		"tests/test_outputs.py": `import sys
sys.path.insert(0, "/app")
def test_sum():
    from adding import add
    assert add(40, 2) == 42
`,
	}))
}

// stopped says whether a forgery got no passing reward, or is on the record.
func stopped(r *trajectories.Rollout) bool {
	return r.Score == nil || *r.Score <= 0 || r.Tampered()
}

// requireStopped tries forgeries on the tasks of a bench.
func requireStopped(b *bench, inProcess ...string) {
	b.t.Helper()
	b.agent = env.AgentForger
	tried := 0
	for name, r := range b.run() {
		_, forgery, _ := strings.Cut(name, " ")
		switch {
		case r.Error != nil && r.Error.Class == env.ClassForgery:
			assert.Contains(b.t, r.Error.Message, "it needs ", name)
			continue
		case slices.Contains(inProcess, name):
			assert.Equal(b.t, "1", outcome(r), "%s: %s", name, r.Metadata)
		default:
			assert.True(b.t, stopped(r), "%s: %s %v %s", name, outcome(r), r.Tampering, r.Metadata)
			assert.NotEqual(b.t, trajectories.OutcomeSandboxError, r.Outcome, "%s: %s", name, problemOf(r))
		}
		require.NotEmpty(b.t, forgery)
		tried++
	}
	require.NotZero(b.t, tried)
}

func TestForgeries_GetNoRewardInShellTasks(t *testing.T) {
	b := newBench(t)
	writeShellTask(t, b.root)
	requireStopped(b)
}

func TestForgeries_GetNoRewardInPythonTasks(t *testing.T) {
	b := newBench(t)
	makePythonImage(t)
	writePythonTask(t, b.root)
	// What does not depend on Python is tried on the shell task.
	b.tried = func(f env.Forgery) bool {
		for _, word := range []string{"python", "pytest", "conftest", "custom", "path-file", "patched", "modules", "test-files", "add-", "trace", "race", "shared", "control", "tools", "limited", "memory", "late", "socket", "hidden"} {
			if strings.Contains(f.Name, word) {
				return true
			}
		}
		return false
	}
	requireStopped(b)
}

func TestForgeries_GetRewardsInsideTheProcessOfTests(t *testing.T) {
	b := newBench(t)
	makePythonImage(t)
	writeImportTask(t, b.root)
	b.tried = func(f env.Forgery) bool {
		return strings.Contains(f.Name, "in-process") || f.Name == controlForgery || f.Name == "program/write-reward"
	}
	requireStopped(b, "import program/in-process-exit", "import program/in-process-pytest", "import program/in-process-reward")
}

func TestForgeries_GetNoRewardInOtherContainers(t *testing.T) {
	for _, where := range []string{verifyFresh, verifyClean} {
		t.Run(where, func(t *testing.T) {
			b := newBench(t)
			b.change = func(c *Config) { c.VerifyIn = where }
			writeShellTask(t, b.root)
			chosen := []string{"agent/background-writer", "agent/kill-tests", "agent/link-for-logs", "agent/own-tests", "agent/shadow-tools-kill", "agent/replace-shells",
				"program/control", "program/write-reward", "program/write-later", "program/kill-script", "program/edit-script-by-descriptor", "program/replace-results"}
			b.tried = func(f env.Forgery) bool { return slices.Contains(chosen, f.Name) }
			requireStopped(b)
		})
	}
}

func TestForgeries_SayWhatTheyTry(t *testing.T) {
	names := map[string]bool{}
	for _, f := range forgeries() {
		require.False(t, names[f.Name], f.Name)
		names[f.Name] = true
		require.Regexp(t, `^[A-Z].*\.$`, f.Summary, f.Name)
		require.NotContains(t, f.Summary, "Needs", f.Name)
	}
	require.True(t, names[controlForgery])
	require.Greater(t, len(names), 80)
	e := &Environment{}
	all := e.Forgeries(env.Item{Value: &task{solved: true}})
	require.Len(t, all, len(names))
	for _, f := range e.Forgeries(env.Item{Value: &task{}}) {
		require.True(t, strings.HasPrefix(f.Name, agentForgery+"/"), "without a solution there is nothing to replace: %s", f.Name)
	}
}

func TestVerification_BelievesHonestTests(t *testing.T) {
	b := newBench(t)
	makePythonImage(t)
	const solution = "#!/bin/sh\nprintf '#!/bin/sh\\necho 42\\n' >answer.sh; chmod 755 answer.sh; printf 'print(42)\\n' >answer.py; echo 42 >answer.txt\n" +
		"printf 'import http.server\\nhttp.server.test(http.server.SimpleHTTPRequestHandler, port=8080, bind=\"127.0.0.1\")\\n' >server.py\n"
	const passes = `[ "$ok" = 1 ] && echo 1 >/logs/verifier/reward.txt || echo 0 >/logs/verifier/reward.txt` + "\n"
	styles := map[string]files{
		"a program":               {"tests/test.sh": "#!/bin/bash\n[ \"$(./answer.sh)\" = 42 ] && ok=1\n" + passes},
		"a default first":         {"tests/test.sh": "#!/bin/bash\necho 0 >/logs/verifier/reward.txt\n[ \"$(./answer.sh)\" = 42 ] && echo 1 >/logs/verifier/reward.txt\n"},
		"an exit trap":            {"tests/test.sh": "#!/bin/bash\nok=0\ntrap '" + strings.TrimSpace(passes) + "' EXIT\nset -e\n[ \"$(./answer.sh)\" = 42 ]\nok=1\n"},
		"files that are moved":    {"tests/test.sh": "#!/bin/bash\n./answer.sh >/tmp/output; diff <(echo 42) /tmp/output && echo 1 >/tmp/reward\nmv /tmp/reward /logs/verifier/reward.txt\n"},
		"json with parts":         {"tests/test.sh": "#!/bin/bash\npython3 - <<'END'\nimport json, subprocess\nok = subprocess.run(['./answer.sh'], capture_output=True, text=True).stdout == '42\\n'\njson.dump({'reward': float(ok), 'style': 0.5}, open('/logs/verifier/reward.json', 'w'))\nEND\n"},
		"a helper":                {"tests/test.sh": "#!/bin/bash\ncd \"$(dirname \"$0\")\"\nsource ./helper.sh\ncheck /app/answer.sh && ok=1\n" + passes, "tests/helper.sh": "check() { [ \"$(\"$1\")\" = 42 ]; }\n"},
		"a helper in Python":      {"tests/test.sh": "#!/bin/bash\npython3 /tests/check.py\n", "tests/check.py": "import helper\nopen('/logs/verifier/reward.txt', 'w').write(str(helper.check()))\n", "tests/helper.py": "import subprocess\ndef check():\n    return int(subprocess.check_output(['/app/answer.sh']) == b'42\\n')\n"},
		"a copied program":        {"tests/test.sh": "#!/bin/bash\nwork=$(mktemp -d); cp -r /app/. $work; cd $work; chmod 755 answer.sh; [ \"$(./answer.sh)\" = 42 ] && [ \"$(python3 answer.py)\" = 42 ] && ok=1; rm -rf $work\n" + passes},
		"a server":                {"tests/test.sh": "#!/bin/bash\npython3 /app/server.py >/tmp/server.log 2>&1 &\nserver=$!\nfor i in $(seq 50); do wget -q -O - http://127.0.0.1:8080/answer.txt >/tmp/got && break; sleep 0.1; done\nkill $server; wait $server\n[ \"$(cat /tmp/got)\" = 42 ] && ok=1\n" + passes},
		"a server that is killed": {"tests/test.sh": "#!/bin/bash\nsetsid python3 /app/server.py >/dev/null 2>&1 &\nfor i in $(seq 50); do wget -q -O - http://127.0.0.1:8080/answer.txt >/tmp/got && break; sleep 0.1; done\nkill -9 $!\n[ \"$(cat /tmp/got)\" = 42 ] && ok=1\n" + passes},
		"another user":            {"tests/test.sh": "#!/bin/bash\nchmod 755 /app; [ \"$(su agent -s /bin/sh -c /app/answer.sh)\" = 42 ] && ok=1\n" + passes},
		"results in files":        {"tests/test.sh": "#!/bin/bash\n./answer.sh | tee /tmp/output.txt\necho ${PIPESTATUS[0]} >/tmp/code\n[ \"$(cat /tmp/code)\" = 0 ] && grep -qx 42 /tmp/output.txt && ok=1\n" + passes},
		"limits and signals":      {"tests/test.sh": "#!/bin/bash\n(ulimit -n 64; timeout -s KILL 10 ./answer.sh) | grep -qx 42 && ok=1\nsleep 100 & kill -9 $!; wait\n" + passes},
		"pytest":                  {"tests/test.sh": pytestScript},
		"pytest with reports":     {"tests/test.sh": "#!/bin/bash\ncd /tests\npytest --junitxml=/logs/verifier/junit.xml test_outputs.py -v 2>&1 | tee /logs/verifier/output.txt\n[ ${PIPESTATUS[0]} -eq 0 ] && ok=1\necho '{\"results\":{}}' >/logs/verifier/ctrf.json\n" + passes},
		"pytest with conftest":    {"tests/test.sh": pytestScript, "tests/conftest.py": "import pytest\n@pytest.fixture\ndef app():\n    return '/app'\n"},
		"unittest":                {"tests/test.sh": "#!/bin/bash\ncd /tests && python3 -m unittest -v check_outputs && ok=1\n" + passes, "tests/check_outputs.py": "import subprocess, unittest\nclass Outputs(unittest.TestCase):\n    def test_answer(self):\n        self.assertEqual(subprocess.check_output(['/app/answer.sh']), b'42\\n')\n"},
		"an import":               {"tests/test.sh": pytestScript, "tests/test_outputs.py": "import importlib.util\ndef test_answer(capsys):\n    spec = importlib.util.spec_from_file_location('answer', '/app/answer.py')\n    spec.loader.exec_module(importlib.util.module_from_spec(spec))\n    assert capsys.readouterr().out == '42\\n'\n"},
		"files beside the tests":  {"tests/test.sh": "#!/bin/bash\n./answer.sh >/tests/output; cp /tests/output /logs/verifier/output; echo 42 >/tests/expected; cmp /tests/output /tests/expected && ok=1\n" + passes},
		"a package":               {"tests/test.sh": "#!/bin/bash\ndir=$(python3 -c 'import site; print(site.getsitepackages()[0])'); mkdir -p $dir; echo 'want = \"42\"' >$dir/expected_answer.py; [ \"$(python3 -c 'import expected_answer; print(expected_answer.want)')\" = \"$(./answer.sh)\" ] && ok=1\n" + passes},
		"a tool":                  {"tests/test.sh": "#!/bin/bash\nmkdir -p /usr/local/bin; printf '#!/bin/sh\\n[ \"$1\" = 42 ]\\n' >/usr/local/bin/is42; chmod 755 /usr/local/bin/is42; is42 \"$(./answer.sh)\" && ok=1\n" + passes},
	}
	for name, own := range styles {
		if _, ok := own["tests/test_outputs.py"]; !ok && strings.Contains(own["tests/test.sh"], "test_outputs") {
			own["tests/test_outputs.py"] = "import subprocess\ndef test_answer(tmp_path):\n    (tmp_path / 'x').write_text('')\n    assert subprocess.run(['/app/answer.sh'], capture_output=True, text=True).stdout == '42\\n'\n"
		}
		writeTask(t, b.root, taskName(name), solution, pythonTask(own))
	}
	records := b.run()
	for name := range styles {
		r := records[taskName(name)]
		assert.Equal(t, "1", outcome(r), "%s: %s %s", name, problemOf(r), r.Metadata)
		assert.True(t, verifierOf(r).Get("isolated").Bool(), name)
		assert.False(t, verifierOf(r).Get("doubts").Exists(), "%s: %s", name, r.Metadata)
		assert.Empty(t, r.Tampering, name)
	}
	require.Contains(t, verifierOf(records["an-import"]).Get("loaded_by_tests").Raw, "/app/answer.py")
}
