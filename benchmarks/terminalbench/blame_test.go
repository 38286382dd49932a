package terminalbench

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker/dockertest"
	"github.com/hermes-env/hermes-env/trajectories"
)

// TestRollouts_CanNotBlameTheMachine runs agents that fail and try to make that look like
// a failure of the machine, which would be tried again and never count.
func TestRollouts_CanNotBlameTheMachine(t *testing.T) {
	b := newBench(t)
	const (
		small  = "[agent]\ntimeout_sec = 30\n[verifier]\ntimeout_sec = 30\n[environment]\nmemory_mb = 64\nallow_internet = false\n"
		listen = "(setsid nc -l -p 9999 > /dev/null 2>&1 &); while ! netstat -ltn | grep -q :9999; do sleep 0.05; done\n"
		// sacrifice has the kernel end the sandbox's server when memory runs out.
		sacrifice = "echo 1000 > /proc/1/oom_score_adj; for p in /proc/[0-9]*; do [ $p = /proc/1 ] || echo 0 > $p/oom_score_adj; done 2>/dev/null; tail -c 400000000 /dev/zero"
	)
	late := files{"task.toml": small, "tests/test.sh": "#!/bin/sh\nsleep 4\n" + strings.TrimPrefix(honest, "#!/bin/sh\n")}
	attacks := map[string]struct {
		agent string
		files files
		want  []string // any of them
	}{
		"signals":                 {agent: "for s in 9 15 2 1 3 6 11 19 24 25; do kill -$s 1; done", want: []string{"0"}},
		"a low priority":          {agent: "renice 19 1; for t in /proc/1/task/*; do chrt -i -p 0 ${t##*/}; done; i=0; while [ $i -lt 200 ]; do (setsid sh -c 'while :; do :; done' > /dev/null 2>&1 &); i=$((i+1)); done", want: []string{"0"}},
		"a fork loop":             {agent: "(setsid sh -c 'b() { b | b & }; b' > /dev/null 2>&1 &); sleep 1", want: []string{"0"}},
		"a fork loop that stays":  {agent: listen + "(setsid sh -c 'b() { b | b & }; b' > /dev/null 2>&1 &); sleep 1", want: []string{"0", classTampered}},
		"memory":                  {agent: sacrifice, files: files{"task.toml": small}, want: []string{"0"}},
		"memory while tests run":  {agent: listen + "(setsid sh -c 'nc -l -p 9998 & sleep 2; while :; do " + sacrifice + "; done' > /dev/null 2>&1 &); sleep 0.5", files: late, want: []string{"0", classTampered, "sandbox_ended"}},
		"a disk that is full":     {agent: "i=0; while [ $i -lt 100 ] && head -c 10000000 /dev/zero > /work/f$i; do i=$((i+1)); done", files: files{"task.toml": strings.Replace(small, "memory_mb", "storage_mb", 1)}, want: []string{"0"}},
		"no working directory":    {agent: "cd /; rm -rf /work; echo x > /work", want: []string{"0"}},
		"the server's program":    {agent: "rm -f /.hermes-env; mv /.hermes-env /x; echo evil > /.hermes-env", want: []string{"0"}},
		"processes of other ways": {agent: "(setsid sh -c 'nc -l -p 9997 & while :; do for p in /proc/[0-9]*; do grep -q sandbox-server $p/cmdline && kill -9 ${p#/proc/}; done; done' > /dev/null 2>&1 &); sleep 0.5", want: []string{"0", classTampered, "sandbox_ended"}},
	}
	for name, a := range attacks {
		writeTask(t, b.root, strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), "'", ""), "#!/bin/sh\n"+a.agent+"\n", a.files)
	}
	records := b.run()
	for name, a := range attacks {
		r := records[strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), "'", "")]
		require.NotNil(t, r, name)
		message := ""
		if r.Error != nil {
			message = r.Error.Message
		}
		require.Contains(t, a.want, outcome(r), "%s: %s %s", name, message, r.Metadata)
		require.NotEqual(t, trajectories.OutcomeSandboxError, r.Outcome, "%s: %s", name, message)
	}
}

func TestEnvironment_NamesForceBuildWhereAnImageCanNotBePulled(t *testing.T) {
	b := newBench(t)
	b.agent = env.AgentNop
	const missing = "127.0.0.1:1/none:none"
	writeTask(t, b.root, "with-dockerfile", "", files{"task.toml": "[environment]\ndocker_image = \"" + missing + "\"\n", "environment/Dockerfile": "FROM " + dockertest.Image + "\nRUN true\n"})
	r := b.run()["with-dockerfile"]
	require.Equal(t, trajectories.OutcomeSandboxError, r.Outcome)
	require.Contains(t, r.Error.Message, missing)
	require.Contains(t, r.Error.Message, "env.force_build builds the image")
}

func TestDefinitions_GiveContainersWhatTheEngineDoes(t *testing.T) {
	for _, name := range []string{NameTB2, NameTBLite, NameTasks} {
		flags := []string{}
		if name == NameTasks {
			flags = append(flags, "tasks=x")
		}
		cfg, _, err := resolve(t, name, flags...)
		require.NoError(t, err)
		require.Equal(t, config.Words{"engine"}, cfg.Env.SandboxCapabilities, name)
		require.False(t, cfg.Env.NoNewPrivileges, name)
	}
}
