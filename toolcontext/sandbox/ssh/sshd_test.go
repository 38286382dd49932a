package ssh_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/sandboxtest"
	backend "github.com/hermes-env/hermes-env/toolcontext/sandbox/ssh"
)

// requireVariable makes a missing OpenSSH server a failure instead of a skip.
const requireVariable = "HERMES_ENV_REQUIRE_SSHD"

// startSSHD starts OpenSSH's server on a loopback port, with few sessions for each
// connection, and returns a config that reaches it.
func startSSHD(t testing.TB) backend.Config {
	t.Helper()
	path := "/usr/sbin/sshd"
	if _, err := os.Stat(path); err != nil && os.Getenv(requireVariable) != "1" {
		t.Skipf("needs OpenSSH's server: %v", err)
	}
	me, err := user.Current()
	require.NoError(t, err)
	if me.Uid == "0" {
		require.NoError(t, os.MkdirAll("/run/sshd", 0o755)) // the server insists on it
	}
	c := newClient(t)
	hostKey, text := newSigner(t)
	write := func(name string, content []byte) string {
		file := filepath.Join(c.dir, name)
		require.NoError(t, os.WriteFile(file, content, 0o600))
		return file
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := free.Addr().(*net.TCPAddr).Port
	require.NoError(t, free.Close())
	config := write("sshd_config", fmt.Appendf(nil, `ListenAddress 127.0.0.1
Port %d
HostKey %s
AuthorizedKeysFile %s
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
MaxSessions 4
PrintMotd no
`, port, write("host_key", text), write("authorized_keys", ssh.MarshalAuthorizedKey(c.key.PublicKey()))))
	cmd := exec.Command(path, "-D", "-e", "-f", config)
	log, err := os.Create(filepath.Join(c.dir, "log"))
	require.NoError(t, err)
	defer log.Close()
	cmd.Stderr = log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())
		if t.Failed() {
			said, err := os.ReadFile(log.Name())
			t.Logf("the server said (%v):\n%s", err, said)
		}
	})
	address := fmt.Sprintf("127.0.0.1:%d", port)
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	c.know(t, address, hostKey.PublicKey())
	return backend.Config{
		Host: "127.0.0.1", Port: port, User: me.Username, KeyFiles: []string{c.keyFile}, KnownHosts: []string{c.knownHosts},
		Getenv: c.getenv, Binary: shared.server(t), CacheDir: filepath.Join(t.TempDir(), "cache"),
	}
}

func TestConformanceOverOpenSSH(t *testing.T) {
	config := startSSHD(t)
	sandboxtest.Run(t, func(t *testing.T) sandbox.Provider { return newProvider(t, config) }, sandboxtest.Options{
		Short: true, Only: []string{"streams", "transfers", "life"}, // what depends on the server
	})
	require.Empty(t, names(t, filepath.Join(config.CacheDir, "boxes")))
}

func TestOpenSSHRefusesWhatItShouldAndSharesItsConnections(t *testing.T) {
	config := startSSHD(t)
	stranger := config
	stranger.KeyFiles = []string{newClient(t).keyFile}
	require.ErrorIs(t, newProvider(t, stranger).Check(t.Context()), backend.ErrLogin)
	unknown := config
	unknown.KnownHosts = []string{newClient(t).knownHosts}
	require.ErrorIs(t, newProvider(t, unknown).Check(t.Context()), backend.ErrHostKey)

	p := newProvider(t, config)
	var wg sync.WaitGroup
	for range 12 {
		wg.Go(func() {
			s, err := p.Create(t.Context(), sandbox.Spec{})
			if err != nil {
				t.Error(err)
				return
			}
			if r, err := s.Exec(t.Context(), sandbox.Command{Script: "echo well"}); err != nil || r.Stdout.String() != "well\n" {
				t.Errorf("%v %v", r, err)
			}
		})
	}
	wg.Wait()
	require.Len(t, names(t, filepath.Join(config.CacheDir, "boxes")), 12)
	require.NoError(t, p.Close(t.Context()))
	require.Empty(t, names(t, filepath.Join(config.CacheDir, "boxes")))
	require.Empty(t, processes(t, config.CacheDir))
}
