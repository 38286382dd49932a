package docker

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// endpoint is where an engine may answer.
type endpoint struct {
	host          string // URL, as in DOCKER_HOST
	tls           bool   // speak TLS
	ca, cert, key string // files for TLS; "" where there is none
	skipVerify    bool   // take any certificate: a docker context says so
	from          string // what named it, for messages
}

// local reports whether the engine is reached through a socket of this machine.
func (e endpoint) local() bool {
	return strings.HasPrefix(e.host, "unix://") || strings.HasPrefix(e.host, "npipe://")
}

// endpoints returns where to look for an engine, the best first: an endpoint that
// the user named is the only one.
func endpoints(c Config) ([]endpoint, error) {
	get := c.Getenv
	if c.Host != "" {
		return named(endpoint{host: c.Host, from: "Config.Host"})
	}
	if host, ok := get("DOCKER_HOST"); ok && host != "" {
		at := endpoint{host: host, from: "DOCKER_HOST"}
		if err := at.takeTLS(get); err != nil {
			return nil, err
		}
		return named(at)
	}
	dir := configDir(get)
	name, from := "", ""
	if name, _ = get("DOCKER_CONTEXT"); name != "" {
		from = "DOCKER_CONTEXT"
	} else if name = currentContext(dir); name != "" {
		from = filepath.Join(dir, "config.json")
	}
	if name != "" && name != "default" {
		at, err := contextEndpoint(dir, name)
		if err != nil {
			return nil, fmt.Errorf("read the docker context %s that %s names: %w; docker context ls shows those there are", name, from, err)
		}
		at.from = "context " + name
		return named(at)
	}
	home, _ := get("HOME")
	runtime, _ := get("XDG_RUNTIME_DIR")
	if runtime == "" {
		runtime = fmt.Sprintf("/run/user/%d", os.Getuid())
	}
	var list []endpoint
	for _, socket := range []struct{ base, path string }{
		{"/", "var/run/docker.sock"}, {runtime, "docker.sock"}, {home, ".docker/run/docker.sock"},
		{"/", "run/podman/podman.sock"}, {runtime, "podman/podman.sock"},
	} {
		if socket.base == "" {
			continue
		}
		path := filepath.Join(socket.base, socket.path)
		if _, err := os.Stat(path); err == nil {
			list = append(list, endpoint{host: "unix://" + path, from: "the usual place"})
		}
	}
	return list, nil
}

// takeTLS does what the docker command does with DOCKER_TLS_VERIFY and
// DOCKER_CERT_PATH, but never goes without checking the engine's certificate.
func (e *endpoint) takeTLS(get func(string) (string, bool)) error {
	verify, _ := get("DOCKER_TLS_VERIFY")
	dir, _ := get("DOCKER_CERT_PATH")
	if (verify == "" && dir == "") || !strings.HasPrefix(e.host, "tcp://") {
		return nil
	}
	from := "DOCKER_CERT_PATH"
	if dir == "" {
		dir, from = configDir(get), "DOCKER_TLS_VERIFY"
	}
	e.tls = true
	for file, field := range map[string]*string{"ca.pem": &e.ca, "cert.pem": &e.cert, "key.pem": &e.key} {
		*field = filepath.Join(dir, file)
		if !fileExists(*field) {
			return fmt.Errorf("%s is set, and %s is not there; put the engine's ca.pem and this client's cert.pem and key.pem into %s, or set DOCKER_CERT_PATH", from, *field, dir)
		}
	}
	return nil
}

// named checks an endpoint that the user chose.
func named(at endpoint) ([]endpoint, error) {
	scheme, rest, ok := strings.Cut(at.host, "://")
	switch {
	case !ok:
		return nil, fmt.Errorf("%s names the engine %q: write unix:///path, tcp://host:port or ssh://user@host", at.from, at.host)
	case scheme == "ssh":
		if _, err := sshArgs(at.host); err != nil {
			return nil, fmt.Errorf("%s names the engine %s: %w", at.from, at.host, err)
		}
	case scheme != "unix" && scheme != "tcp" && scheme != "npipe" && scheme != "http" && scheme != "https":
		return nil, fmt.Errorf("%s names the engine %q: there is no way called %s to an engine; write unix:///path, tcp://host:port or ssh://user@host", at.from, at.host, scheme)
	case rest == "":
		return nil, fmt.Errorf("%s names the engine %q, which lacks an address", at.from, at.host)
	}
	return []endpoint{at}, nil
}

func configDir(get func(string) (string, bool)) string {
	if dir, ok := get("DOCKER_CONFIG"); ok && dir != "" {
		return dir
	}
	home, _ := get("HOME")
	return filepath.Join(home, ".docker")
}

// clientConfig is what of the docker command's config.json is used here.
type clientConfig struct {
	CurrentContext string                 `json:"currentContext"`
	Auths          map[string]storedLogin `json:"auths"`
	CredsStore     string                 `json:"credsStore"`
	CredHelpers    map[string]string      `json:"credHelpers"` // by registry
}

// readClientConfig reads config.json; one that is not there is empty. Its content is
// secret and does not go into the error.
func readClientConfig(dir string) (clientConfig, error) {
	var c clientConfig
	path := filepath.Join(dir, "config.json")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return clientConfig{}, nil
	}
	if err != nil {
		return clientConfig{}, err
	}
	if json.Unmarshal(data, &c) != nil {
		return clientConfig{}, fmt.Errorf("%s is not the JSON that the docker command writes", path)
	}
	return c, nil
}

// currentContext is the context that the docker command uses; "" where its file can't
// be read, which the docker command survives too.
func currentContext(dir string) string {
	c, err := readClientConfig(dir)
	if err != nil {
		return ""
	}
	return c.CurrentContext
}

// contextEndpoint reads one context of the docker command, which keeps them in
// folders named after the SHA-256 of their names.
func contextEndpoint(dir, name string) (endpoint, error) {
	sum := sha256.Sum256([]byte(name))
	id := hex.EncodeToString(sum[:])
	data, err := os.ReadFile(filepath.Join(dir, "contexts", "meta", id, "meta.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return endpoint{}, errors.New("there is no such context")
	}
	if err != nil {
		return endpoint{}, err
	}
	var meta struct {
		Endpoints struct {
			Docker struct {
				Host          string
				SkipTLSVerify bool
			} `json:"docker"`
		}
	}
	if err := json.Unmarshal(data, &meta); err != nil {
		return endpoint{}, err
	}
	if meta.Endpoints.Docker.Host == "" {
		return endpoint{}, errors.New("it names no docker endpoint")
	}
	at := endpoint{host: meta.Endpoints.Docker.Host, skipVerify: meta.Endpoints.Docker.SkipTLSVerify}
	tls := filepath.Join(dir, "contexts", "tls", id, "docker")
	for file, field := range map[string]*string{"ca.pem": &at.ca, "cert.pem": &at.cert, "key.pem": &at.key} {
		if path := filepath.Join(tls, file); fileExists(path) {
			*field, at.tls = path, true
		}
	}
	at.tls = at.tls || at.skipVerify
	return at, nil
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
