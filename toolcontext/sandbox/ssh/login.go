package ssh

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// login is what a connection identifies itself with.
type login struct {
	method ssh.AuthMethod
	agent  io.Closer // nil where there is none
	tried  []string  // for people: where keys came from
	notes  []string  // keys that could not be used, and why
}

// newLogin finds the keys to log in with: the agent's, then those in files.
func (c Config) newLogin() (*login, error) {
	l := &login{}
	fromAgent := l.askAgent(c)
	signers, err := l.readKeys(c)
	if err == nil && fromAgent == nil && len(signers) == 0 {
		err = fmt.Errorf("there is no key to log in to %s with: no agent (SSH_AUTH_SOCK) and no usable key in %s; make one with ssh-keygen -t ed25519, or name one as env.ssh_key", c.target(), filepath.Join(c.home(), ".ssh"))
		if len(l.notes) > 0 {
			err = fmt.Errorf("%w (%s)", err, strings.Join(l.notes, "; "))
		}
	}
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	l.method = ssh.PublicKeysCallback(func() ([]ssh.Signer, error) {
		if fromAgent == nil {
			return signers, nil
		}
		list, err := fromAgent()
		if err != nil {
			l.notes = append(l.notes, fmt.Sprintf("the agent gave no keys: %v", err))
		}
		return append(list, signers...), nil
	})
	return l, nil
}

func (l *login) close() error {
	if l.agent == nil {
		return nil
	}
	return l.agent.Close()
}

// askAgent connects to the agent; nil where there is none.
func (l *login) askAgent(c Config) func() ([]ssh.Signer, error) {
	path, ok := c.Getenv("SSH_AUTH_SOCK")
	if !ok || path == "" {
		return nil
	}
	conn, err := net.DialTimeout("unix", path, c.ConnectTimeout)
	if err != nil {
		l.notes = append(l.notes, fmt.Sprintf("the agent does not answer: %v", err))
		return nil
	}
	l.agent = conn
	l.tried = append(l.tried, "the agent")
	return agent.NewClient(conn).Signers
}

// readKeys reads the key files. Those the user named have to be usable.
func (l *login) readKeys(c Config) ([]ssh.Signer, error) {
	files, named := c.KeyFiles, true
	if len(files) == 0 && c.home() != "" {
		named = false
		for _, name := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
			files = append(files, filepath.Join(c.home(), ".ssh", name))
		}
	}
	var signers []ssh.Signer
	for _, file := range files {
		signer, err := readKey(file)
		switch {
		case err == nil:
			signers = append(signers, signer)
			l.tried = append(l.tried, file)
		case named:
			return nil, err
		case !errors.Is(err, fs.ErrNotExist):
			l.notes = append(l.notes, err.Error())
		}
	}
	return signers, nil
}

func readKey(file string) (ssh.Signer, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("read the key: %w", err)
	}
	if info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("the key %s can be read by others (mode %04o), so it is not used; chmod 600 %s", file, info.Mode().Perm(), file)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the key: %w", err)
	}
	signer, err := ssh.ParsePrivateKey(data)
	var locked *ssh.PassphraseMissingError
	switch {
	case errors.As(err, &locked):
		return nil, fmt.Errorf("the key %s has a passphrase; add it to an agent (ssh-add %s)", file, file)
	case err != nil && strings.HasSuffix(file, ".pub"):
		return nil, fmt.Errorf("%s is a public key; name the private one, %s", file, strings.TrimSuffix(file, ".pub"))
	case err != nil:
		return nil, fmt.Errorf("read the key %s: %w", file, err)
	}
	return signer, nil
}

// refused explains why the server let nobody in.
func (l *login) refused(c Config, err error) error {
	notes := ""
	if len(l.notes) > 0 {
		notes = " (" + strings.Join(l.notes, "; ") + ")"
	}
	return fmt.Errorf("%w: %s takes none of the keys of %s%s: %w; add one to its authorized_keys (ssh-copy-id -p %d %s@%s), or name another as env.ssh_key",
		ErrLogin, c.target(), strings.Join(l.tried, ", "), notes, err, c.Port, c.User, c.Host)
}
