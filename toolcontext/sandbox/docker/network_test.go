package docker_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker/dockertest"
)

// networks returns the ids of the networks that sandboxes share.
func networks(t *testing.T) []string {
	t.Helper()
	return strings.Fields(dockertest.Command(t, "network", "ls", "-q", "--no-trunc", "--filter", "label=hermes-env.network"))
}

func TestHarnessesThatStartAtOnceShareOneNetwork(t *testing.T) {
	first := newProvider(t, docker.Config{Network: sandbox.NetworkBridge})
	_, err := first.RemoveNetwork(t.Context()) // where nobody uses it
	require.NoError(t, err)
	var g errgroup.Group
	boxes := make([]container, 6)
	for i := range boxes {
		p := newProvider(t, docker.Config{Network: sandbox.NetworkBridge, Warn: func(m string) {
			if strings.Contains(m, "bridge") {
				t.Errorf("warning: %s", m)
			}
		}})
		g.Go(func() error {
			s, err := p.Create(context.Background(), sandbox.Spec{})
			if err == nil {
				boxes[i] = s.(container)
			}
			return err
		})
	}
	require.NoError(t, g.Wait())
	all := networks(t)
	require.Len(t, all, 1)
	for _, s := range boxes {
		require.Equal(t, "hermes-env "+all[0], dockertest.Command(t, "inspect", "-f", "{{range $n, $v := .NetworkSettings.Networks}}{{$n}} {{$v.NetworkID}}{{end}}", s.Container()))
	}
	removed, err := first.RemoveNetwork(t.Context())
	require.NoError(t, err)
	require.False(t, removed, "it is in use")
	require.Equal(t, all, networks(t))
}

func TestContainersOnTheSharedNetworkDoNotReachEachOther(t *testing.T) {
	p := newProvider(t, docker.Config{Network: sandbox.NetworkBridge})
	a, b := open(t, p, sandbox.Spec{}), open(t, p, sandbox.Spec{})
	serve := `mkdir -p /www; echo hello > /www/index.html; busybox httpd -p 8000 -h /www; printf 'GET / HTTP/1.0\r\n\r\n' | nc 127.0.0.1 8000`
	require.Contains(t, sh(t, a, serve), "hello\n")
	address := strings.TrimSpace(sh(t, a, `ip -4 addr show eth0 | sed -n 's/.*inet \([0-9.]*\).*/\1/p'`))
	require.NotEmpty(t, address)
	r := run(t, b, sandbox.Command{Script: "printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 2 " + address + " 8000", Timeout: 5 * time.Second})
	require.NotZero(t, r.ExitCode)
	require.NotContains(t, r.String(), "hello")
	// The gateway, and so the world behind it, is reached: it answers with a refusal at most.
	r = run(t, b, sandbox.Command{Script: `g=$(ip route | sed -n 's/default via \([0-9.]*\).*/\1/p'); [ -n "$g" ] && ! nc -w 3 "$g" 9 </dev/null 2>&1 | grep -v refused`, Timeout: 10 * time.Second})
	require.Zero(t, r.ExitCode, "%s", r)
}

func TestANetworkThatSomebodyRemovedIsMadeAgain(t *testing.T) {
	p := newProvider(t, docker.Config{Network: sandbox.NetworkBridge})
	p.BelieveInNetwork(strings.Repeat("0123456789abcdef", 4))
	s := open(t, p, sandbox.Spec{})
	require.Equal(t, "well\n", sh(t, s, "echo well"))
	require.Equal(t, networks(t), strings.Fields(dockertest.Command(t, "inspect", "-f", "{{range .NetworkSettings.Networks}}{{.NetworkID}}{{end}}", s.Container())))
}
