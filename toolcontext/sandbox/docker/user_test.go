package docker_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker"
)

func TestRootCanCleanUpAfterAnAgentThatIsNot(t *testing.T) {
	for name, c := range map[string]docker.Config{"mounted server": {}, "uploaded server": {Upload: true}} {
		t.Run(name, func(t *testing.T) {
			s := open(t, newProvider(t, c), sandbox.Spec{User: "4242:4243"})
			sh(t, s, "mkdir -m 700 /tmp/d && echo secret > /tmp/d/f && chmod 600 /tmp/d/f && mkdir -m 700 /tmp/d/e && touch /tmp/d/e/g && chmod 500 /tmp/d/e && chmod 0 /tmp/d")

			root, err := s.(sandbox.UserSwitcher).As(t.Context(), "0")
			require.NoError(t, err)
			defer func() { require.NoError(t, root.Close(t.Context())) }()
			require.Equal(t, "secret\n", sh(t, root, "cat /tmp/d/f"))
			require.NoError(t, root.(sandbox.Cleaner).Clean(t.Context(), "/tmp/d", 0o777))
			require.Empty(t, sh(t, s, "ls -A /tmp/d"))
		})
	}
}

func TestAnAgentThatIsNotRootGainsNothingFromTheServersStart(t *testing.T) {
	s := open(t, newProvider(t, docker.Config{}), sandbox.Spec{User: "4242:4243"})
	require.Equal(t, "4242 4243", sh(t, s, `printf '%s %s' "$(id -u)" "$(id -g)"`))
	require.Equal(t, "/", strings.TrimSpace(sh(t, s, "cd && pwd")), "a user without an entry has no home")
	for process, saved := range map[string][2]string{"self": {"4242", "4243"}, "1": {"65533", "65533"}} {
		for _, line := range strings.Split(sh(t, s, "cat /proc/"+process+"/status"), "\n") {
			name, value, _ := strings.Cut(line, ":")
			fields := strings.Fields(value)
			switch name {
			case "CapPrm", "CapEff":
				if process == "self" { // the server keeps a few, none of which gives it files
					require.Equal(t, []string{"0000000000000000"}, fields, name)
				}
			case "CapInh", "CapAmb":
				require.Equal(t, []string{"0000000000000000"}, fields, "%s of %s", name, process)
			case "Uid":
				require.Equal(t, []string{"4242", "4242", saved[0], "4242"}, fields)
			case "Gid":
				require.Equal(t, []string{"4243", "4243", saved[1], "4243"}, fields)
			case "Groups":
				require.Contains(t, [][]string{{"4243"}, {}}, fields)
			case "NoNewPrivs":
				require.Equal(t, []string{"1"}, fields)
			}
		}
	}
	for _, attack := range []string{
		"kill -9 1", "echo x > /proc/1/mem", "cat /proc/1/environ", "cat /proc/1/fd/10", "ls /proc/1/fd", "echo 0 > /proc/1/oom_score_adj",
		"touch /root/x", "cat /etc/shadow", "chown 0 /tmp", "su root -c id",
	} {
		r := run(t, s, sandbox.Command{Script: attack + " </dev/null"})
		if attack == "kill -9 1" { // the kernel drops it without a word
			require.Equal(t, "alive", sh(t, s, "printf alive"))
			continue
		}
		require.NotZero(t, r.ExitCode, "%s: %s", attack, r)
	}
}

func TestAUserTheImageDoesNotKnowIsAnErrorThatSaysSo(t *testing.T) {
	_, err := newProvider(t, docker.Config{}).Create(t.Context(), sandbox.Spec{User: "nosuchuser"})
	require.ErrorContains(t, err, `no user "nosuchuser"`)
}

func TestAUserOtherThanRootWorksWithoutTheServerToo(t *testing.T) {
	s := open(t, newProvider(t, docker.Config{PlainExec: true}), sandbox.Spec{User: "4242:4243", Dir: "/tmp"})
	require.Equal(t, "4242 4243", sh(t, s, `printf '%s %s' "$(id -u)" "$(id -g)"`))
	run(t, s, sandbox.Command{Script: "mkdir d && cd d && export KEPT=yes", Session: true})
	require.Equal(t, "/tmp/d yes", run(t, s, sandbox.Command{Script: `printf '%s %s' "$PWD" "$KEPT"`, Session: true}).String())
	r := run(t, s, sandbox.Command{Script: "echo begun; sleep 1000", Timeout: time.Second})
	require.True(t, r.TimedOut)
	require.Equal(t, "begun\n", r.Stdout.String())
	require.NotContains(t, sh(t, s, "ps"), "sleep 1000")
	run(t, s, sandbox.Command{Script: "setsid sleep 2000 >/dev/null 2>&1 & sleep 0"})
	require.NoError(t, s.KillAll(t.Context()))
	require.NotContains(t, sh(t, s, "ps"), "sleep 2000")
}

func TestADirectoryBelowTmpKeepsTmpForEverybody(t *testing.T) {
	p := newProvider(t, docker.Config{}) // its image has no /tmp
	for _, dir := range []string{"/tmp/deep/work", "/tmp", "/work"} {
		s := open(t, p, sandbox.Spec{User: "4242:4243", Dir: dir})
		require.Equal(t, "1777\n", sh(t, s, "stat -c %a /tmp"), dir)
	}
}
