package cli_test

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/env/cli"
)

func TestTheSSHBackendSaysWhatItLacks(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := strconv.Itoa(free.Addr().(*net.TCPAddr).Port)
	require.NoError(t, free.Close())
	binary, err := os.Executable()
	require.NoError(t, err)
	for name, c := range map[string]struct {
		args   []string
		binary string
		want   string
	}{
		"no host":          {nil, binary, "env.ssh_host"},
		"no usable binary": {[]string{"--env.ssh_host=127.0.0.1"}, "/etc/passwd", "no program for Linux"},
	} {
		p := newProgram(t)
		p.write("quick.yaml", quickstart)
		p.env["HERMES_ENV_SANDBOX_BINARY"] = c.binary
		p.env["HOME"] = filepath.Join(p.dir, "home")
		code, _, stderr := p.run(append([]string{"evaluate", "--config", "quick.yaml", "--env.terminal_backend", "ssh", "--env.ssh_port", port}, c.args...)...)
		require.Equal(t, cli.ExitSandbox, code, name)
		require.Contains(t, stderr, c.want, name)
	}
}
