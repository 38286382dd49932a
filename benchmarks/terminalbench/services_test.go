package terminalbench

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/trajectories"
)

// asks is a test script that passes when a server answers 42.
const asks = `#!/bin/sh
if [ "$(timeout 5 wget -q -O - http://127.0.0.1:8080/answer)" = 42 ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
`

func problemOf(r *trajectories.Rollout) string {
	if r == nil || r.Error == nil {
		return ""
	}
	return r.Error.Message
}

func TestServicesOutliveTheAgent(t *testing.T) {
	b := newBench(t)
	passing := func(condition string) files {
		return files{"tests/test.sh": "#!/bin/sh\nif " + condition + "; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi\n"}
	}
	services := map[string]struct {
		agent string
		files files
		want  string
		kept  string // part of a kept process's line
	}{
		"a daemon":                         {agent: "echo 42 > answer; httpd -p 8080 -h /work", files: files{"tests/test.sh": asks}, want: "1", kept: "httpd -p 8080 -h /work (tcp [::]:8080)"},
		"a job in the background":          {agent: "echo 42 > answer; httpd -f -p 8080 -h /work & sleep 0.2", files: files{"tests/test.sh": asks}, want: "1", kept: "httpd"},
		"a supervised server":              {agent: "echo 42 > answer; (while :; do timeout 1 httpd -f -p 8080 -h /work; done) > /dev/null 2>&1 & sleep 0.2", files: passing(`sleep 1.5; [ "$(timeout 5 wget -q -O - http://127.0.0.1:8080/answer)" = 42 ]`), want: "1", kept: "httpd"},
		"a server that forks":              {agent: "mkdir bin; printf '#!/bin/sh\\nread line; echo got $line\\n' > bin/serve; chmod 755 bin/serve; (setsid sh -c '(setsid nc -ll -p 9000 -e /work/bin/serve > /dev/null 2>&1 &)' > /dev/null 2>&1 &); sleep 0.2", files: passing(`[ "$(echo x | timeout 5 nc 127.0.0.1 9000)" = "got x" ]`), want: "1", kept: "nc -ll"},
		"a socket in the file system":      {agent: "syslogd -O /work/log; sleep 0.2", files: passing(`logger hello; sleep 0.3; grep -q hello /work/log`), want: "1", kept: "unix /dev/log"},
		"a server of another user":         {agent: "echo 42 > answer; su agent -s /bin/sh -c 'httpd -p 8080 -h /work'; su agent -s /bin/sh -c 'setsid sleep 700 > /dev/null 2>&1 &'", files: files{"tests/test.sh": asks}, want: "1", kept: "httpd -p 8080 -h /work"},
		"workers of a listener":            {agent: "echo 0 > count; setsid sh -c '(while :; do echo $(($(cat count)+1)) > next; mv next count; sleep 0.1; done) & exec httpd -f -p 8080 -h /work' > /dev/null 2>&1 & sleep 0.3", files: passing(`a=$(cat /work/count); sleep 0.5; [ "$(cat /work/count)" -gt "$a" ]`), want: "1", kept: "sh -c (while :; do"},
		"what listens to nobody":           {agent: "(setsid sh -c 'while :; do date > /work/tick; sleep 0.05; done' > /dev/null 2>&1 &)", files: passing(`rm -f /work/tick; sleep 0.5; [ -e /work/tick ]`), want: "1", kept: "sh -c while"},
		"a daemon although never":          {agent: "echo 42 > answer; httpd -p 8080 -h /work", files: files{"tests/test.sh": asks, "task.toml": "[metadata]\nkeep_processes = \"never\"\n[environment]\n"}, want: "0"},
		"what listens to nobody, services": {agent: "(setsid sh -c 'while :; do date > /work/tick; sleep 0.05; done' > /dev/null 2>&1 &)", files: files{"tests/test.sh": passing(`rm -f /work/tick; sleep 0.5; [ ! -e /work/tick ]`)["tests/test.sh"], "task.toml": "[metadata]\nkeep_processes = \"services\"\n[environment]\n"}, want: "1"},
	}
	for name, s := range services {
		writeTask(t, b.root, taskName(name), "#!/bin/sh\n"+s.agent+"\n", s.files)
	}
	records := b.run()
	for name, s := range services {
		r := records[taskName(name)]
		require.Equal(t, s.want, outcome(r), "%s: %s %s", name, problemOf(r), r.Metadata)
		require.False(t, verifierOf(r).Get("doubts").Exists(), "%s: %s", name, r.Metadata)
		kept := verifierOf(r).Get("kept_processes").Raw
		if s.kept == "" {
			require.Empty(t, kept, name)
			continue
		}
		require.Contains(t, kept, strings.SplitN(s.kept, " (tcp", 2)[0], name)
	}
	ended := verifierOf(records[taskName("what listens to nobody, services")])
	require.Equal(t, "services", ended.Get("keep_processes").String())
	require.Contains(t, ended.Get("ended_processes.0.command").String(), "sh -c while", "what was ended is on the record")
	b.agent = env.AgentNop
	require.Equal(t, "0", outcome(b.run()[taskName("a daemon")]))
}

func taskName(s string) string {
	return strings.NewReplacer(" ", "-", ",", "", "'", "", "/", "").Replace(s)
}

func TestAKeptProcessForgesNoReward(t *testing.T) {
	b := newBench(t)
	const failing = "#!/bin/sh\nsleep 0.7\necho 0 > /logs/verifier/reward.txt\n"
	// A listener of the agent's, which does something once the tests are there.
	listener := func(attack string) string {
		return "cat > /work/attack <<'EOF'\nwhile [ ! -e /tests/test.sh ]; do sleep 0.01; done\n" + attack + "\nEOF\nsetsid sh -c 'httpd -f -p 8080 -h /work & exec sh /work/attack' > /dev/null 2>&1 &\nsleep 0.3"
	}
	attacks := map[string]struct {
		agent string
		files files
		want  string
	}{
		"writes in a loop":                {agent: listener("while :; do echo 1 > /logs/verifier/reward.txt; done")},
		"writes once after the tests did": {agent: listener("while [ ! -e /logs/verifier/reward.txt ]; do :; done; sleep 0.02; echo 1 > /logs/verifier/reward.txt"), files: files{"tests/test.sh": failing + "sleep 0.5\n"}},
		"writes another kind of reward":   {agent: listener("sleep 0.2; echo 1 > /logs/verifier/reward.json")},
		"writes for tests that do not":    {agent: listener("sleep 0.2; while :; do echo 1 > /logs/verifier/reward.txt; sleep 0.1; done"), files: files{"tests/test.sh": "#!/bin/sh\nsleep 0.7\n"}},
		"writes under another name":       {agent: listener("echo 1 > /work/one; exec 5<> /work/one; ln /work/one /logs/verifier/reward.txt; rm /work/one; sleep 0.9; echo 1 >&5; exec 5>&-; sleep 5"), files: files{"tests/test.sh": failing + "sleep 0.5\n"}},
		"writes for tests that break off": {agent: listener("sleep 0.2; echo 1 > /logs/verifier/reward.txt; sleep 5"), files: files{"tests/test.sh": "#!/bin/sh\nsleep 0.7\nexit 1\n"}},
		"renames over the reward":         {agent: listener("echo 1 > /work/one; while [ ! -e /logs/verifier/reward.txt ]; do :; done; sleep 0.02; cp /work/one /logs/verifier/x; mv /logs/verifier/x /logs/verifier/reward.txt"), files: files{"tests/test.sh": failing + "sleep 0.5\n"}},
		"links the reward":                {agent: listener("echo 1 > /work/one; ln /work/one /logs/verifier/reward.txt; sleep 0.7; echo 1 > /work/one; rm /work/one; sleep 5"), files: files{"tests/test.sh": failing + "sleep 0.5\n"}},
		"holds the file open":             {agent: listener("while [ ! -e /logs/verifier/reward.txt ]; do :; done; exec 5<> /logs/verifier/reward.txt; sleep 0.02; echo 1 >&5; sleep 60"), files: files{"tests/test.sh": failing + "sleep 0.5\n"}},
		"kills the tests and writes":      {agent: listener("sleep 0.2; echo 1 > /logs/verifier/reward.txt; killall -9 test.sh")},
		"replaces the results by a link":  {agent: listener("sleep 0.2; mkdir /plant; echo 1 > /plant/reward.txt; mv /logs/verifier /logs/old; ln -s /plant /logs/verifier"), files: files{"tests/test.sh": "#!/bin/sh\nsleep 0.7\n"}},
		"replaces the logs":               {agent: listener("sleep 0.2; mkdir -p /plant/verifier; echo 1 > /plant/verifier/reward.txt; mv /logs /old; ln -s /plant /logs"), files: files{"tests/test.sh": "#!/bin/sh\nsleep 0.7\n"}},
		"edits the tests as they run":     {agent: listener("echo 42 > /tests/expected; sleep 5"), files: files{"tests/expected": "41", "tests/test.sh": "#!/bin/sh\nsleep 0.5; echo $(($(cat /tests/expected) == 42)) > /logs/verifier/reward.txt\n"}},
		"edits the tests and mends them":  {agent: listener("cp /tests/expected /work/old; echo 42 > /tests/expected; sleep 1; cat /work/old > /tests/expected"), files: files{"tests/expected": "41", "tests/test.sh": "#!/bin/sh\nsleep 0.5; r=$(($(cat /tests/expected) == 42)); sleep 1; echo $r > /logs/verifier/reward.txt\n"}},
		"adds a file that tests load":     {agent: listener("echo forge > /tests/conftest.py; sleep 5"), files: files{"tests/test.sh": "#!/bin/sh\nsleep 0.5; [ -e /tests/conftest.py ] && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n"}},
		"replaces the shell":              {agent: listener("rm /bin/sh; printf '#!/bin/busybox ash\\necho 1\\n' > /bin/sh; chmod 755 /bin/sh"), files: files{"tests/test.sh": "#!/bin/busybox ash\nsleep 0.7\n/bin/sh -c 'echo 0' > /logs/verifier/reward.txt\n"}},
		"replaces a program for a while":  {agent: listener("cp /bin/busybox /work/old; rm /bin/cat; printf '#!/bin/busybox ash\\necho 42\\n' > /bin/cat; chmod 755 /bin/cat; sleep 1; rm /bin/cat; ln -s busybox /bin/cat"), files: files{"tests/test.sh": "#!/bin/sh\nsleep 0.5\necho $(($(/bin/cat /etc/hostname | grep -c 42) == 1)) > /logs/verifier/reward.txt\nsleep 1\n"}},
		// It can't reach the output of the tests.
		"does nothing to tests that it says lack tools": {agent: listener("sleep 0.2; for p in /proc/[0-9]*; do grep -q test.sh $p/cmdline && echo 'curl: (6) Could not resolve host: astral.sh' > $p/fd/1; done"), want: "0"},
		// What the agent did before its end counts, whatever its processes do.
		"did its work and writes all the same": {agent: "echo 42 > /work/answer; " + listener("while :; do echo 1 > /logs/verifier/reward.txt; done"), files: files{"tests/test.sh": "#!/bin/sh\nsleep 0.7\n" + strings.TrimPrefix(honest, "#!/bin/sh\n")}, want: "1"},
		// What it does once it can see the tests does not.
		"does its work while the tests run":            {agent: listener("cat /tests/expected > /work/answer; sleep 0.5; while :; do echo 1 > /logs/verifier/reward.txt; done"), files: files{"tests/expected": "42\n", "tests/test.sh": "#!/bin/sh\nsleep 0.7\n" + strings.TrimPrefix(honest, "#!/bin/sh\n")}},
		"does nothing to tests that end with an error": {agent: listener("sleep 60"), files: files{"tests/test.sh": "#!/bin/sh\nif timeout 5 wget -q -O - http://127.0.0.1:8080/attack > /dev/null; then echo 0.5 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi\nexit 1\n"}, want: "0.5"},
		// Tests that can't install their tools can't do so without anybody else either.
		"does nothing to tests without tools": {agent: listener("sleep 60"), files: files{"tests/test.sh": "#!/bin/sh\necho 'curl: (6) Could not resolve host: astral.sh'\necho 0 > /logs/verifier/reward.txt\n"}, want: classSetup},
		// Tests that write twice by themselves do so without anybody else, too.
		"does nothing to tests that write twice": {agent: listener("sleep 60"), files: files{"tests/test.sh": "#!/bin/sh\necho 0 > /logs/verifier/reward.txt\nif timeout 5 wget -q -O - http://127.0.0.1:8080/attack > /dev/null; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi\n"}, want: "1"},
	}
	for name, a := range attacks {
		own := files{"tests/test.sh": failing}
		for file, content := range a.files {
			own[file] = content
		}
		writeTask(t, b.root, taskName(name), "#!/bin/sh\n"+a.agent+"\n", own)
	}
	records := b.run()
	for name, a := range attacks {
		r := records[taskName(name)]
		want := a.want
		if want == "" {
			want = classTampered
		}
		if got := outcome(r); got != want {
			t.Errorf("%s: got %s, want %s: %s %s", name, got, want, problemOf(r), r.Metadata)
		}
		if v := verifierOf(r); !v.Get("kept_processes").Exists() || strings.HasPrefix(name, "does nothing to tests that") == v.Get("doubts").Exists() {
			t.Errorf("%s: a record should say why: %s", name, r.Metadata)
		}
	}
}

func TestVerify_KeepsProcessesWithoutAServerInTheContainer(t *testing.T) {
	b := newBench(t)
	b.plain = true
	const fetch = "#!/bin/sh\nif timeout 5 wget -q -O - http://127.0.0.1:8080/page; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi\n"
	writeTask(t, b.root, "served", "#!/bin/sh\necho x > /work/page; setsid httpd -f -p 8080 -h /work > /dev/null 2>&1 &\nsleep 0.3\n", files{"tests/test.sh": fetch})
	writeTask(t, b.root, "nothing", "#!/bin/sh\nsetsid sleep 1000 > /dev/null 2>&1 &\n", files{"tests/test.sh": fetch})
	writeTask(t, b.root, "solved", "#!/bin/sh\necho 42 > /work/answer; setsid httpd -f -p 8080 > /dev/null 2>&1 &\nsleep 0.3\n", nil)
	records := b.run()
	for name, want := range map[string]string{"served": "1", "nothing": "0", "solved": "1"} {
		require.Equal(t, want, outcome(records[name]), "%s: %s", name, records[name].Metadata)
	}
}
