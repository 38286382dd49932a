package ssh_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	backend "github.com/hermes-env/hermes-env/toolcontext/sandbox/ssh"
)

// machine is an SSH server in this process that runs commands as sshd does: with the
// account's shell, in its home directory.
type machine struct {
	t        testing.TB
	home     string
	path     string // where programs are
	key      ssh.Signer
	letIn    ssh.PublicKey
	listener net.Listener
	work     sync.WaitGroup

	maxSessions atomic.Int64 // of a connection; 0 means no limit, -1 none at all
	refuse      atomic.Int64 // connections to drop before the handshake
	mute        atomic.Bool  // answers no keep-alive
	connects    atomic.Int64 // connections that logged in
	before      atomic.Value // text the shell's start-up files print
	execs       atomic.Int64

	mu          sync.Mutex
	conns       map[net.Conn]struct{}
	certificate ssh.Signer // shown instead of the plain key; nil for none
}

func newSigner(t testing.TB) (ssh.Signer, []byte) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	signer, err := ssh.NewSignerFromKey(key)
	require.NoError(t, err)
	block, err := ssh.MarshalPrivateKey(key, "")
	require.NoError(t, err)
	return signer, pem.EncodeToMemory(block)
}

// client is the harness's side: a home directory with a key and the known hosts.
type client struct {
	dir, keyFile, knownHosts string
	key                      ssh.Signer
}

func newClient(t testing.TB) client {
	t.Helper()
	c := client{dir: t.TempDir()}
	signer, text := newSigner(t)
	c.key = signer
	c.keyFile = filepath.Join(c.dir, "key")
	c.knownHosts = filepath.Join(c.dir, "known_hosts")
	require.NoError(t, os.WriteFile(c.keyFile, text, 0o600))
	require.NoError(t, os.WriteFile(c.knownHosts, nil, 0o600))
	return c
}

// know writes a host key into the known ones.
func (c client) know(t testing.TB, address string, key ssh.PublicKey) {
	t.Helper()
	line := knownhosts.Line([]string{knownhosts.Normalize(address)}, key) + "\n"
	require.NoError(t, os.WriteFile(c.knownHosts, []byte(line), 0o600))
}

// newMachine starts a server that lets a client in.
func newMachine(t testing.TB, c client) *machine {
	t.Helper()
	m := &machine{t: t, home: t.TempDir(), path: os.Getenv("PATH"), conns: map[net.Conn]struct{}{}}
	m.before.Store("")
	m.key, _ = newSigner(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	m.listener = listener
	m.letIn = c.key.PublicKey()
	m.work.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if m.refuse.Add(-1) >= 0 {
				_ = conn.Close()
				continue
			}
			m.work.Go(func() { m.serve(conn) })
		}
	})
	c.know(t, m.address(), m.key.PublicKey())
	t.Cleanup(m.stop)
	return m
}

func (m *machine) address() string { return m.listener.Addr().String() }

func (m *machine) port() int { return m.listener.Addr().(*net.TCPAddr).Port }

// cut ends all connections, as a network that fails.
func (m *machine) cut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for c := range m.conns {
		_ = c.Close()
	}
}

func (m *machine) stop() {
	_ = m.listener.Close()
	m.cut()
	m.work.Wait()
}

// certify makes the machine show a certificate from now on.
func (m *machine) certify(s ssh.Signer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.certificate = s
}

func (m *machine) serve(conn net.Conn) {
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if string(key.Marshal()) != string(m.letIn.Marshal()) {
			return nil, errors.New("unknown key")
		}
		return nil, nil
	}}
	config.AddHostKey(m.key)
	m.mu.Lock()
	m.conns[conn] = struct{}{}
	if m.certificate != nil {
		config.AddHostKey(m.certificate)
	}
	m.mu.Unlock()
	defer func() {
		_ = conn.Close()
		m.mu.Lock()
		delete(m.conns, conn)
		m.mu.Unlock()
	}()
	sc, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	m.connects.Add(1)
	m.work.Go(func() {
		for r := range requests {
			if r.WantReply && !m.mute.Load() {
				_ = r.Reply(false, nil)
			}
		}
	})
	var sessions atomic.Int64
	for c := range channels {
		if limit := m.maxSessions.Load(); limit != 0 && sessions.Load() >= limit {
			_ = c.Reject(ssh.ConnectionFailed, "open failed")
			continue
		}
		ch, asked, err := c.Accept()
		if err != nil {
			continue
		}
		sessions.Add(1)
		m.work.Go(func() {
			defer sessions.Add(-1)
			m.session(ch, asked)
		})
	}
	_ = sc.Close()
}

// session runs the command of a session.
func (m *machine) session(ch ssh.Channel, requests <-chan *ssh.Request) {
	defer ch.Close()
	for r := range requests {
		if r.Type != "exec" {
			_ = r.Reply(false, nil)
			continue
		}
		var asked struct{ Command string }
		if ssh.Unmarshal(r.Payload, &asked) != nil {
			return
		}
		_ = r.Reply(true, nil)
		m.execs.Add(1)
		m.work.Go(func() { ssh.DiscardRequests(requests) })
		_, _ = ch.Write([]byte(m.before.Load().(string)))
		m.exec(ch, asked.Command)
		return
	}
}

func (m *machine) exec(ch ssh.Channel, command string) {
	cmd := exec.Command("/bin/sh", "-c", command)
	cmd.Dir = m.home
	cmd.Env = []string{"HOME=" + m.home, "PATH=" + m.path, "USER=somebody", "SECRET_OF_THE_ACCOUNT=1"}
	cmd.Stdout, cmd.Stderr = ch, ch.Stderr()
	in, err := cmd.StdinPipe()
	if err != nil {
		return
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if cmd.Start() != nil {
		return
	}
	m.work.Go(func() {
		buffer := make([]byte, 64<<10)
		for {
			n, err := ch.Read(buffer)
			if n > 0 {
				if _, werr := in.Write(buffer[:n]); werr != nil {
					return
				}
			}
			if err != nil {
				_ = in.Close()
				return
			}
		}
	})
	_ = cmd.Wait()
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		name := "KILL"
		if status.Signal() != syscall.SIGKILL {
			name = "TERM"
		}
		_, _ = ch.SendRequest("exit-signal", false, ssh.Marshal(struct {
			Signal string
			Core   bool
			Error  string
			Lang   string
		}{name, false, "", ""}))
		return
	}
	_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(status.ExitStatus())}))
}

// config reaches the machine as the client.
func (m *machine) config(c client) backend.Config {
	return backend.Config{
		Host: "127.0.0.1", Port: m.port(), User: "somebody",
		KeyFiles: []string{c.keyFile}, KnownHosts: []string{c.knownHosts},
		Getenv: c.getenv, Binary: shared.server(m.t),
	}
}

// getenv is an environment with a home directory and nothing else.
func (c client) getenv(name string) (string, bool) {
	if name == "HOME" {
		return c.dir, true
	}
	return "", false
}

// boxes returns the names of the trees on the machine.
func (m *machine) boxes() []string { return names(m.t, filepath.Join(m.cache(), "boxes")) }

func (m *machine) cache() string { return filepath.Join(m.home, ".cache", "hermes-env") }

func names(t testing.TB, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	out := []string{}
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out
}

// processes returns the live processes whose environment or command line has a text.
func processes(t testing.TB, text string) []int {
	t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(t, err)
	var found []int
	for _, dir := range list {
		pid, err := strconv.Atoi(filepath.Base(dir))
		require.NoError(t, err)
		for _, file := range []string{"environ", "cmdline"} {
			data, err := os.ReadFile(filepath.Join(dir, file))
			if err == nil && pid != os.Getpid() && contains(data, text) {
				found = append(found, pid)
				break
			}
		}
	}
	return found
}
