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
	ca, cert, key string // files for TLS; "" where there is none
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
		if dir, _ := get("DOCKER_CERT_PATH"); dir != "" {
			at.ca, at.cert, at.key = filepath.Join(dir, "ca.pem"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
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

// named checks an endpoint that the user chose.
func named(at endpoint) ([]endpoint, error) {
	scheme, _, ok := strings.Cut(at.host, "://")
	switch {
	case !ok:
		return nil, fmt.Errorf("%s names the engine %q: write unix:///path or tcp://host:port", at.from, at.host)
	case scheme == "ssh":
		return nil, fmt.Errorf("%s names the engine %s: engines behind ssh are not supported; forward the socket (ssh -nNT -L /tmp/docker.sock:/var/run/docker.sock HOST) and set DOCKER_HOST=unix:///tmp/docker.sock", at.from, at.host)
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
	CurrentContext string `json:"currentContext"`
	Auths          map[string]struct {
		Auth string `json:"auth"`
	} `json:"auths"`
}

func readClientConfig(dir string) clientConfig {
	var c clientConfig
	data, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil || json.Unmarshal(data, &c) != nil {
		return clientConfig{} // the docker command works without one too
	}
	return c
}

func currentContext(dir string) string { return readClientConfig(dir).CurrentContext }

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
				Host string
			} `json:"docker"`
		}
	}
	if err := json.Unmarshal(data, &meta); err != nil {
		return endpoint{}, err
	}
	if meta.Endpoints.Docker.Host == "" {
		return endpoint{}, errors.New("it names no docker endpoint")
	}
	at := endpoint{host: meta.Endpoints.Docker.Host}
	tls := filepath.Join(dir, "contexts", "tls", id, "docker")
	for file, field := range map[string]*string{"ca.pem": &at.ca, "cert.pem": &at.cert, "key.pem": &at.key} {
		if path := filepath.Join(tls, file); fileExists(path) {
			*field = path
		}
	}
	return at, nil
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
