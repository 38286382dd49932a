package ssh

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// ErrHostKey is wrapped by errors of a machine whose host key is not the known one.
var ErrHostKey = errors.New("host key is not trusted")

// ErrLogin is wrapped by errors of a machine that takes none of the keys.
var ErrLogin = errors.New("login is refused")

// hostKeys checks a machine's host key against the files of known ones.
type hostKeys struct {
	config Config
	files  []string
	check  ssh.HostKeyCallback
	// algorithms are those the known keys are of, so that the server shows one of
	// them; nil where none is known.
	algorithms []string
}

func (c Config) newHostKeys() (*hostKeys, error) {
	h := &hostKeys{config: c, files: c.KnownHosts}
	if len(h.files) == 0 {
		candidates := []string{"/etc/ssh/ssh_known_hosts"}
		if c.home() != "" {
			candidates = append([]string{filepath.Join(c.home(), ".ssh", "known_hosts")}, candidates...)
		}
		for _, file := range candidates {
			if _, err := os.Stat(file); err == nil {
				h.files = append(h.files, file)
			}
		}
	}
	check, err := knownhosts.New(h.files...)
	if err != nil {
		return nil, fmt.Errorf("read the known host keys: %w", err)
	}
	h.check = check
	h.algorithms = h.known()
	return h, nil
}

// known returns the algorithms of the keys that are known of the machine: it is
// asked about a key that no machine has.
func (h *hostKeys) known() []string {
	none, err := ssh.NewPublicKey(ed25519.PublicKey(make([]byte, ed25519.PublicKeySize)))
	if err != nil {
		return nil
	}
	var unknown *knownhosts.KeyError
	if !errors.As(h.check(h.config.address(), &net.TCPAddr{IP: net.IPv4zero}, none), &unknown) {
		return nil
	}
	var list []string
	for _, k := range unknown.Want {
		for _, a := range algorithmsOf(k.Key.Type(), isAuthority(k)) {
			if !slices.Contains(list, a) {
				list = append(list, a)
			}
		}
	}
	return list
}

// algorithmsOf returns the host key algorithms that a known key can be shown with.
// An authority's key signs certificates of keys of every kind.
func algorithmsOf(kind string, authority bool) []string {
	if authority {
		return []string{ssh.CertAlgoED25519v01, ssh.CertAlgoECDSA256v01, ssh.CertAlgoECDSA384v01, ssh.CertAlgoECDSA521v01, ssh.CertAlgoRSASHA512v01, ssh.CertAlgoRSASHA256v01}
	}
	if kind == ssh.KeyAlgoRSA {
		return []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	}
	return []string{kind}
}

// isAuthority reports whether a known key's line is of an authority.
func isAuthority(k knownhosts.KnownKey) bool {
	data, err := os.ReadFile(k.Filename)
	if err != nil {
		return false
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		if n == k.Line {
			return strings.HasPrefix(strings.TrimSpace(lines.Text()), "@cert-authority")
		}
	}
	return false
}

// callback refuses every key but the known ones, and says what to do.
func (h *hostKeys) callback(host string, remote net.Addr, key ssh.PublicKey) error {
	err := h.check(host, remote, key)
	if err == nil {
		return nil
	}
	var (
		wrong   *knownhosts.KeyError
		revoked *knownhosts.RevokedError
	)
	fingerprint := ssh.FingerprintSHA256(key)
	switch {
	case errors.As(err, &revoked):
		return fmt.Errorf("%w: the key %s of %s is revoked by line %d of %s", ErrHostKey, fingerprint, h.config.address(), revoked.Revoked.Line, revoked.Revoked.Filename)
	case errors.As(err, &wrong) && len(wrong.Want) > 0:
		k := wrong.Want[0]
		return fmt.Errorf("%w: %s shows the %s key %s, but line %d of %s knows %s: somebody may be in between; if the machine's key was changed on purpose, remove the old one (ssh-keygen -f %s -R %q) and add the new one",
			ErrHostKey, h.config.address(), key.Type(), fingerprint, k.Line, k.Filename, ssh.FingerprintSHA256(k.Key), k.Filename, knownhosts.Normalize(h.config.address()))
	case errors.As(err, &wrong):
		return fmt.Errorf("%w: the %s key %s of %s is not known; compare the fingerprint with the machine's own (ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub there) and add this line to %s:\n%s",
			ErrHostKey, key.Type(), fingerprint, h.config.address(), h.whereToAdd(), knownhosts.Line([]string{knownhosts.Normalize(h.config.address())}, key))
	}
	return fmt.Errorf("%w: the key %s of %s: %w", ErrHostKey, fingerprint, h.config.address(), err)
}

// whereToAdd is the file a new key belongs into.
func (h *hostKeys) whereToAdd() string {
	switch {
	case len(h.config.KnownHosts) > 0:
		return h.config.KnownHosts[0]
	case h.config.home() != "":
		return filepath.Join(h.config.home(), ".ssh", "known_hosts")
	}
	return "~/.ssh/known_hosts"
}
