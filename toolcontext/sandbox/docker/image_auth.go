package docker

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"
)

// dockerHub is what the docker command calls the registry of images without one.
const dockerHub = "https://index.docker.io/v1/"

// registryOf returns the registry of an image, as the docker command's logins name it.
func registryOf(ref string) string {
	first, _, ok := strings.Cut(ref, "/")
	if !ok || (!strings.ContainsAny(first, ".:") && first != "localhost") || first == "docker.io" || first == "index.docker.io" {
		return dockerHub
	}
	return first
}

// login is what a registry is told about who asks. It is secret: it never goes into a
// message, and does not print itself.
type login struct {
	Username      string
	Password      string
	IdentityToken string
	RegistryToken string
	Server        string
}

// String keeps logins out of messages.
func (l login) String() string { return "a login (not shown)" }

// GoString keeps logins out of messages.
func (l login) GoString() string { return l.String() }

func (l login) isZero() bool { return l == login{Server: l.Server} }

// encoded is the login in the form the engine takes; "" where there is none.
func (l login) encoded() string {
	if l.isZero() {
		return ""
	}
	data, err := json.Marshal(struct {
		Username      string `json:"username,omitempty"`
		Password      string `json:"password,omitempty"`
		IdentityToken string `json:"identitytoken,omitempty"`
		RegistryToken string `json:"registrytoken,omitempty"`
		Server        string `json:"serveraddress"`
	}{l.Username, l.Password, l.IdentityToken, l.RegistryToken, l.Server})
	if err != nil {
		return ""
	}
	return base64.URLEncoding.EncodeToString(data)
}

// logins finds what the docker command stored for registries. Trouble with it is
// reported once and means that images are asked for without a login.
type logins struct {
	get  func(string) (string, bool)
	warn func(string)

	mu     sync.Mutex
	warned map[string]bool
}

// storedLogin is an entry of auths in config.json.
type storedLogin struct {
	Auth          string `json:"auth"`
	Username      string `json:"username"`
	Password      string `json:"password"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// lookup returns the login for an image's registry: of the helper for that registry,
// else of the helper for all, else of the file itself.
func (l *logins) lookup(ctx context.Context, ref string) login {
	registry := registryOf(ref)
	c, err := readClientConfig(configDir(l.get))
	if err != nil {
		l.complain(fmt.Sprintf("images are pulled without a login: %v", err))
		return login{}
	}
	helper := c.CredHelpers[registry]
	if helper == "" && registry == dockerHub {
		helper = c.CredHelpers["docker.io"]
	}
	if helper == "" {
		helper = c.CredsStore
	}
	if helper != "" {
		found, err := askHelper(ctx, helper, registry)
		if err != nil {
			l.complain(fmt.Sprintf("images of %s are pulled without a login: %v", registry, err))
		}
		if !found.isZero() {
			return found
		}
	}
	return l.stored(c, registry)
}

// stored returns the login in the file itself.
func (l *logins) stored(c clientConfig, registry string) login {
	entry, ok := c.Auths[registry]
	for name, other := range c.Auths {
		if !ok && hostOf(name) == hostOf(registry) {
			entry, ok = other, true
		}
	}
	found := login{Username: entry.Username, Password: entry.Password, IdentityToken: entry.IdentityToken, RegistryToken: entry.RegistryToken, Server: registry}
	if entry.Auth == "" {
		return found
	}
	pair, err := base64.StdEncoding.DecodeString(entry.Auth)
	user, password, cut := strings.Cut(strings.TrimRight(string(pair), "\x00"), ":")
	if err != nil || !cut {
		l.complain(fmt.Sprintf("images of %s are pulled without a login: its auth in config.json is not base64 of user:password; docker login writes it anew", registry))
		return login{}
	}
	found.Username, found.Password = user, password
	return found
}

// hostOf returns the host of a registry that may be written as a URL.
func hostOf(registry string) string {
	if _, rest, ok := strings.Cut(registry, "://"); ok {
		registry = rest
	}
	host, _, _ := strings.Cut(registry, "/")
	return host
}

func (l *logins) complain(message string) {
	l.mu.Lock()
	said := l.warned[message]
	l.warned[message] = true
	l.mu.Unlock()
	if !said {
		l.warn(message)
	}
}

// helperLimit bounds one question to a credential helper.
const helperLimit = 20 * time.Second

// helperName is what helpers may be called: the name becomes part of a program's.
var helperName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// askHelper asks a docker-credential-… program for a registry's login. What it says is
// secret, its complaints too; no login is no error.
func askHelper(ctx context.Context, helper, registry string) (login, error) {
	if !helperName.MatchString(helper) {
		return login{}, fmt.Errorf("config.json names the credential helper %q, which can't be a program's name", helper)
	}
	program := "docker-credential-" + helper
	ctx, cancel := context.WithTimeoutCause(ctx, helperLimit, fmt.Errorf("it did not answer within %v", helperLimit))
	defer cancel()
	c := exec.CommandContext(ctx, program, "get")
	c.WaitDelay = time.Second
	c.Stdin = strings.NewReader(registry)
	var out bytes.Buffer
	c.Stdout = &out
	if err := c.Run(); err != nil {
		var exit *exec.ExitError
		switch {
		case context.Cause(ctx) != nil:
			return login{}, fmt.Errorf("ask %s: %w", program, context.Cause(ctx))
		case errors.As(err, &exit) && strings.Contains(out.String(), "credentials not found"):
			return login{}, nil
		case errors.As(err, &exit):
			return login{}, fmt.Errorf("%s ended with exit code %d; run it by hand (echo %s | %s get)", program, exit.ExitCode(), registry, program)
		}
		return login{}, fmt.Errorf("ask %s: %w", program, err)
	}
	var answer struct{ Username, Secret string }
	if json.Unmarshal(out.Bytes(), &answer) != nil {
		return login{}, fmt.Errorf("%s did not answer with JSON", program)
	}
	if answer.Username == "<token>" {
		return login{IdentityToken: answer.Secret, Server: registry}, nil
	}
	return login{Username: answer.Username, Password: answer.Secret, Server: registry}, nil
}
