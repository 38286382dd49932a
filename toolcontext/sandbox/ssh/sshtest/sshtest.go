// Package sshtest starts an OpenSSH server for tests: on the loopback address, with
// keys of its own, for the account that runs the test.
//
// What it lets in can do all that the account can, so it takes one key that is made
// for the test, and ends with it. It changes nothing of the machine's own server.
package sshtest

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/hermes-env/hermes-env/internal/slowtest"
)

// RequireVariable makes a missing OpenSSH server a failure instead of a skip.
const RequireVariable = "HERMES_ENV_REQUIRE_SSHD"

// MaxSessions is how many sessions the server allows on a connection.
const MaxSessions = 4

// Server is a server that runs until the test ends.
type Server struct {
	Host, User string
	Port       int
	KeyFile    string // is let in
	KnownHosts string // has the server's key
	Home       string // an empty directory, for a harness that shall see nothing of the user's
	Cache      string // where the backend keeps its files by itself
}

// Start starts a server. It skips the test in a plain run (see package slowtest), and if
// OpenSSH's server is not installed.
func Start(t testing.TB) Server {
	t.Helper()
	slowtest.Require(t)
	path, err := exec.LookPath("sshd")
	if err != nil {
		path = "/usr/sbin/sshd"
		_, err = os.Stat(path)
	}
	if err != nil {
		if os.Getenv(RequireVariable) == "1" {
			t.Fatal("install openssh-server")
		}
		t.Skipf("no OpenSSH server: %v", err)
	}
	me, err := user.Current()
	require.NoError(t, err)
	if me.Uid == "0" {
		require.NoError(t, os.MkdirAll("/run/sshd", 0o755)) // the server insists on it
	}
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, content, 0o600))
		return file
	}
	hostKey, hostText := newKey(t)
	key, text := newKey(t)
	port := freePort(t)
	s := Server{
		Host: "127.0.0.1", Port: port, User: me.Username, KeyFile: write("key", text),
		KnownHosts: write("known_hosts", []byte(knownhosts.Line([]string{knownhosts.Normalize(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))}, hostKey)+"\n")),
		Home:       filepath.Join(dir, "home"), Cache: filepath.Join(dir, "cache", "hermes-env"),
	}
	require.NoError(t, os.Mkdir(s.Home, 0o700))
	config := write("sshd_config", fmt.Appendf(nil, `ListenAddress 127.0.0.1
Port %d
HostKey %s
AuthorizedKeysFile %s
SetEnv XDG_CACHE_HOME=%s
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
MaxSessions %d
PrintMotd no
`, port, write("host_key", hostText), write("authorized_keys", ssh.MarshalAuthorizedKey(key)), filepath.Dir(s.Cache), MaxSessions))
	s.run(t, exec.Command(path, "-D", "-e", "-f", config), filepath.Join(dir, "log"))
	return s
}

// run starts the server's process and waits until it listens.
func (s Server) run(t testing.TB, cmd *exec.Cmd, logFile string) {
	t.Helper()
	log, err := os.Create(logFile)
	require.NoError(t, err)
	defer log.Close()
	cmd.Stderr = log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())
		if t.Failed() {
			said, err := os.ReadFile(logFile)
			t.Logf("the server said (%v):\n%s", err, said)
		}
	})
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", net.JoinHostPort(s.Host, strconv.Itoa(s.Port)))
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, time.Minute, 10*time.Millisecond)
}

// Flags returns what names the server on a command line, such as --ssh-host=….
func (s Server) Flags(prefix, separator string) []string {
	return []string{
		prefix + "host=" + s.Host, prefix + "port=" + strconv.Itoa(s.Port), prefix + "user=" + s.User,
		prefix + "key=" + s.KeyFile, prefix + "known" + separator + "hosts=" + s.KnownHosts,
	}
}

func newKey(t testing.TB) (ssh.PublicKey, []byte) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	key, err := ssh.NewPublicKey(public)
	require.NoError(t, err)
	block, err := ssh.MarshalPrivateKey(private, "")
	require.NoError(t, err)
	return key, pem.EncodeToMemory(block)
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
