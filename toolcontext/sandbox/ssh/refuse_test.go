package ssh_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	backend "github.com/hermes-env/hermes-env/toolcontext/sandbox/ssh"
)

func itoa(n int) string { return strconv.Itoa(n) }

func TestAHostKeyThatIsNotKnownIsRefusedWithTheLineToAdd(t *testing.T) {
	c := newClient(t)
	m := newMachine(t, c)
	require.NoError(t, os.WriteFile(c.knownHosts, nil, 0o600))
	p := newProvider(t, m.config(c))
	err := p.Check(t.Context())
	require.ErrorIs(t, err, backend.ErrHostKey)
	require.ErrorContains(t, err, ssh.FingerprintSHA256(m.key.PublicKey()))
	require.ErrorContains(t, err, c.knownHosts)
	require.Zero(t, m.connects.Load(), "logged in nevertheless")
	lines := strings.Split(err.Error(), "\n")
	// The line, added to the file, makes the machine known.
	require.NoError(t, os.WriteFile(c.knownHosts, []byte(lines[len(lines)-1]+"\n"), 0o600))
	require.NoError(t, p.Check(t.Context()))
}

func TestAHostKeyThatIsAnotherThanTheKnownOneIsRefused(t *testing.T) {
	c := newClient(t)
	m := newMachine(t, c)
	other, _ := newSigner(t)
	c.know(t, m.address(), other.PublicKey())
	err := newProvider(t, m.config(c)).Check(t.Context())
	require.ErrorIs(t, err, backend.ErrHostKey)
	require.ErrorContains(t, err, "somebody may be in between")
	require.ErrorContains(t, err, ssh.FingerprintSHA256(m.key.PublicKey()))
	require.ErrorContains(t, err, ssh.FingerprintSHA256(other.PublicKey()))
	require.Zero(t, m.connects.Load())

	revoked := "@revoked * " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(m.key.PublicKey()))) + "\n" +
		knownhosts.Line([]string{knownhosts.Normalize(m.address())}, m.key.PublicKey()) + "\n"
	require.NoError(t, os.WriteFile(c.knownHosts, []byte(revoked), 0o600))
	err = newProvider(t, m.config(c)).Check(t.Context())
	require.ErrorIs(t, err, backend.ErrHostKey)
	require.ErrorContains(t, err, "revoked")
}

func TestAMachineWithoutAKeyOfTheKnownKindIsRefused(t *testing.T) {
	c := newClient(t)
	m := newMachine(t, c)
	const rsa = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQCvqBYeIgTvCI8JlkfHTcKFTcBwyEGYfnRXnLUpvXBGLC3ZGSDRuUgQdQhCoDdzkMF2UyUTzjYqIxkHY1qOoHUgo5pKvyoGk9tVF3WuBqVcGHSLLvSWQNUtXQMkaUyzQYBPjNGnNVtrTZUL0VFOPB2Y8iTSLu3HMWfV7iGvkQxqBQ=="
	require.NoError(t, os.WriteFile(c.knownHosts, []byte(knownhosts.Normalize(m.address())+" "+rsa+"\n"), 0o600))
	err := newProvider(t, m.config(c)).Check(t.Context())
	require.ErrorIs(t, err, backend.ErrHostKey)
	require.ErrorContains(t, err, "rsa-sha2-512")
}

func TestAHostCertificateOfAKnownAuthorityIsTrusted(t *testing.T) {
	c := newClient(t)
	m := newMachine(t, c)
	authority, _ := newSigner(t)
	line := "@cert-authority " + knownhosts.Line([]string{knownhosts.Normalize(m.address())}, authority.PublicKey()) + "\n"
	require.NoError(t, os.WriteFile(c.knownHosts, []byte(line), 0o600))
	err := newProvider(t, m.config(c)).Check(t.Context())
	require.ErrorIs(t, err, backend.ErrHostKey, "a plain key of a machine that should have a certificate")

	certificate := &ssh.Certificate{Key: m.key.PublicKey(), CertType: ssh.HostCert, ValidPrincipals: []string{"127.0.0.1"}, ValidBefore: ssh.CertTimeInfinity}
	require.NoError(t, certificate.SignCert(rand.Reader, authority))
	certified, err := ssh.NewCertSigner(certificate, m.key)
	require.NoError(t, err)
	m.certify(certified)
	require.NoError(t, newProvider(t, m.config(c)).Check(t.Context()))
}

func TestAKeyThatIsNotLetInIsAnErrorThatSaysWhatToDo(t *testing.T) {
	c := newClient(t)
	m := newMachine(t, c)
	stranger := newClient(t)
	config := m.config(c)
	config.KeyFiles = []string{stranger.keyFile}
	err := newProvider(t, config).Check(t.Context())
	require.ErrorIs(t, err, backend.ErrLogin)
	require.ErrorContains(t, err, stranger.keyFile)
	require.ErrorContains(t, err, "ssh-copy-id")
}

func TestKeysThatCanNotBeUsedAreNamed(t *testing.T) {
	c := newClient(t)
	m := newMachine(t, c)
	write := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(c.dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), mode))
		return path
	}
	good, err := os.ReadFile(c.keyFile)
	require.NoError(t, err)
	for name, test := range map[string]struct{ file, want string }{
		"missing":        {filepath.Join(c.dir, "none"), "no such file"},
		"open to others": {write("open", string(good), 0o644), "chmod 600"},
		"garbage":        {write("garbage", "x", 0o600), "garbage"},
		"the public one": {write("k.pub", string(ssh.MarshalAuthorizedKey(c.key.PublicKey())), 0o600), "public key"},
	} {
		config := m.config(c)
		config.KeyFiles = []string{test.file}
		require.ErrorContains(t, newProvider(t, config).Check(t.Context()), test.want, name)
	}
	config := m.config(c)
	config.KeyFiles = nil
	require.ErrorContains(t, newProvider(t, config).Check(t.Context()), "ssh-keygen")
	config.KeyFiles, config.KnownHosts = []string{"~/key"}, []string{"~/known_hosts"}
	require.NoError(t, newProvider(t, config).Check(t.Context()))
}

func TestKeysOfTheAgentAreUsed(t *testing.T) {
	c := newClient(t)
	m := newMachine(t, c)
	text, err := os.ReadFile(c.keyFile)
	require.NoError(t, err)
	key, err := ssh.ParseRawPrivateKey(text)
	require.NoError(t, err)
	ring := agent.NewKeyring()
	require.NoError(t, ring.Add(agent.AddedKey{PrivateKey: key}))
	socket := filepath.Join(c.dir, "agent")
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = agent.ServeAgent(ring, conn) // ends when the client leaves
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		require.NoError(t, listener.Close())
		<-ended
	})
	config := m.config(c)
	config.KeyFiles = nil
	config.Getenv = func(name string) (string, bool) {
		if name == "SSH_AUTH_SOCK" {
			return socket, true
		}
		return c.getenv(name)
	}
	require.NoError(t, newProvider(t, config).Check(t.Context()))
}

func TestConfigsThatCanNotWorkAreRefused(t *testing.T) {
	for want, c := range map[string]backend.Config{
		"env.ssh_host": {},
		"env.ssh_user": {Host: "me@host"},
		"70000":        {Host: "host", Port: 70000},
		"line break":   {Host: "host", CacheDir: "a\nb"},
	} {
		_, err := backend.New(c)
		require.ErrorContains(t, err, want)
	}
	p := newProvider(t, backend.Config{Host: "host.invalid", Binary: "/etc/passwd"})
	require.ErrorContains(t, p.Check(t.Context()), "no program", "before anything is connected to")
}

func TestAServerThatDoesNotAnswerIsGivenUp(t *testing.T) {
	c := newClient(t)
	m := newMachine(t, c)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	config := m.config(c)
	config.Port = silent.Addr().(*net.TCPAddr).Port
	config.ConnectTimeout = 50 * time.Millisecond
	require.ErrorContains(t, newProvider(t, config).Check(t.Context()), "no SSH server greets within")
	require.NoError(t, silent.Close())
	require.ErrorContains(t, newProvider(t, config).Check(t.Context()), "env.ssh_host")

	cause := errors.New("enough")
	config.ConnectTimeout = time.Hour
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	_, err = newProvider(t, config).Create(ctx, sandbox.Spec{})
	require.ErrorIs(t, err, cause)
}

func TestSpecsForContainersAreRefused(t *testing.T) {
	c := newClient(t)
	m := newMachine(t, c)
	_, err := newProvider(t, m.config(c)).Create(t.Context(), sandbox.Spec{Image: "ubuntu"})
	require.ErrorIs(t, err, sandbox.ErrUnsupported)
	require.Zero(t, m.connects.Load())
}

func TestMachinesTheBinaryDoesNotFitAreRefusedBeforeAnUpload(t *testing.T) {
	c := newClient(t)
	for name, test := range map[string]struct{ uname, want string }{
		"another processor": {"case $1 in -s) echo Linux;; -m) echo riscv64;; esac", "linux/riscv64"},
		"another system":    {"case $1 in -s) echo Darwin;; -m) echo arm64;; esac", "it runs Darwin"},
		"no uname":          {"exit 1", "uname"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, c)
			bin := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(bin, "uname"), []byte("#!/bin/sh\n"+test.uname+"\n"), 0o755))
			m.path = bin + ":" + os.Getenv("PATH")
			require.ErrorContains(t, newProvider(t, m.config(c)).Check(t.Context()), test.want)
			list, _ := os.ReadDir(m.cache())
			require.LessOrEqual(t, len(list), 1)
		})
	}
}

func TestADirectoryThatCanNotBeMadeIsNamed(t *testing.T) {
	c := newClient(t)
	m := newMachine(t, c)
	config := m.config(c)
	config.CacheDir = "/dev/null/x"
	require.ErrorContains(t, newProvider(t, config).Check(t.Context()), "cache directory")
	config.CacheDir = "it's a -dir"
	require.NoError(t, newProvider(t, config).Check(t.Context()))
	require.DirExists(t, filepath.Join(m.home, "it's a -dir", "boxes"))
}

func TestAServerThatOpensNoSessionsIsAnError(t *testing.T) {
	c := newClient(t)
	m := newMachine(t, c)
	config := m.config(c)
	m.maxSessions.Store(-1)
	require.ErrorContains(t, newProvider(t, config).Check(t.Context()), "MaxSessions")
}
