package ssh

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Name is the backend's name in configs.
const Name = "ssh"

// Config says which machine is used and how it is reached.
type Config struct {
	// Host is the machine's name or address. It has to be set.
	Host string
	// Port is the server's. Default: 22.
	Port int
	// User is the account there. Default: this process's user.
	User string
	// Idle is how long a sandbox lives that nobody uses or holds a lease on, and without
	// a word from this program; its tree is removed by Close or Reap. Default: for ever.
	Idle time.Duration
	// KeyFiles are private keys without a passphrase; ~/ is the harness's home. Default: id_ed25519, id_ecdsa
	// and id_rsa in ~/.ssh, those that are there. Keys of the agent come first.
	KeyFiles []string
	// KnownHosts are the files with host keys; ~/ as above. Default: ~/.ssh/known_hosts and
	// /etc/ssh/ssh_known_hosts, those that are there.
	KnownHosts []string
	// Getenv looks up variables of the harness's environment, SSH_AUTH_SOCK among
	// them. Default: os.LookupEnv.
	Getenv func(string) (string, bool)
	// Binary is a static hermes-env for the machine. Default: this program.
	Binary string
	// CacheDir is where the binary and the trees are on the machine; a relative one
	// starts at the account's home. Default: ~/.cache/hermes-env, or below
	// $XDG_CACHE_HOME where the account has that.
	CacheDir string
	// ConnectTimeout bounds making one connection. Default: 15 s.
	ConnectTimeout time.Duration
	// KeepAlive is the time between two questions whether the machine is still there;
	// a connection whose answer takes twice as long is given up. Default: 15 s.
	KeepAlive time.Duration
	// SessionsPerConnection is how many sessions share a connection, or fewer where
	// the server allows fewer. Default: 10, as OpenSSH's server has it.
	SessionsPerConnection int
	// StartLimit bounds starting one sandbox on a machine that is ready. Default: 1 min.
	StartLimit time.Duration
	// UploadLimit bounds getting the machine ready, the upload included. Default: 10 min.
	UploadLimit time.Duration
	// CloseLimit bounds removing one sandbox. Default: 30 s.
	CloseLimit time.Duration
}

func (c Config) withDefaults() (Config, error) {
	if c.Host == "" {
		return c, errors.New("no host is named; set env.ssh_host (--env.ssh_host HOST)")
	}
	if strings.ContainsAny(c.Host, "@ \t\r\n\x00'\"/,") || strings.HasPrefix(c.Host, "-") {
		return c, fmt.Errorf("%q is no host name; give the user as env.ssh_user and the port as env.ssh_port", c.Host)
	}
	c.Host = strings.TrimSuffix(strings.TrimPrefix(c.Host, "["), "]")
	if c.Port == 0 {
		c.Port = 22
	}
	if c.Port < 1 || c.Port > 65535 {
		return c, fmt.Errorf("port %d does not exist; it has to lie between 1 and 65535", c.Port)
	}
	if strings.ContainsAny(c.CacheDir, "\x00\r\n") {
		return c, fmt.Errorf("the directory %q contains a NUL byte or a line break", c.CacheDir)
	}
	if c.Getenv == nil {
		c.Getenv = os.LookupEnv
	}
	c.KeyFiles, c.KnownHosts = c.expand(c.KeyFiles), c.expand(c.KnownHosts)
	if c.User == "" {
		me, err := user.Current()
		if err != nil {
			return c, fmt.Errorf("find out who runs this process: %w; set env.ssh_user", err)
		}
		c.User = me.Username
	}
	if c.SessionsPerConnection <= 0 {
		c.SessionsPerConnection = 10
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&c.ConnectTimeout, 15 * time.Second}, {&c.KeepAlive, 15 * time.Second}, {&c.StartLimit, time.Minute}, {&c.UploadLimit, 10 * time.Minute}, {&c.CloseLimit, 30 * time.Second}} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	return c, nil
}

// address is where the server listens.
func (c Config) address() string { return net.JoinHostPort(c.Host, strconv.Itoa(c.Port)) }

// home is the harness's home directory, "" where there is none.
func (c Config) home() string {
	if h, ok := c.Getenv("HOME"); ok {
		return h
	}
	return ""
}

// expand puts the home directory in the place of ~/.
func (c Config) expand(files []string) []string {
	list := make([]string, len(files))
	for i, file := range files {
		if rest, ok := strings.CutPrefix(file, "~/"); ok && c.home() != "" {
			file = filepath.Join(c.home(), rest)
		}
		list[i] = file
	}
	return list
}

// target names account and machine for people.
func (c Config) target() string { return c.User + "@" + c.address() }
