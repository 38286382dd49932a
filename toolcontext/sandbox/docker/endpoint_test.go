package docker

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEndpointsFollowTheDockerCommand(t *testing.T) {
	home := t.TempDir()
	sum := sha256.Sum256([]byte("far"))
	id := hex.EncodeToString(sum[:])
	write := func(path, text string) {
		path = filepath.Join(home, ".docker", path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write("contexts/meta/"+id+"/meta.json", `{"Name":"far","Metadata":{},"Endpoints":{"docker":{"Host":"tcp://far:2376","SkipTLSVerify":false}}}`)
	write("contexts/tls/"+id+"/docker/ca.pem", "")
	write("config.json", `{"currentContext":"far"}`)
	require.NoError(t, os.MkdirAll(filepath.Join(home, "run", "podman"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(home, "run", "podman", "podman.sock"), nil, 0o600))
	for name, c := range map[string]struct {
		env    map[string]string
		want   string // last endpoint
		errors string
	}{
		"the current context":      {map[string]string{}, "tcp://far:2376", ""},
		"a variable wins":          {map[string]string{"DOCKER_HOST": "unix:///x"}, "unix:///x", ""},
		"a named context":          {map[string]string{"DOCKER_CONTEXT": "far"}, "tcp://far:2376", ""},
		"the default context":      {map[string]string{"DOCKER_CONTEXT": "default"}, "unix://" + home + "/run/podman/podman.sock", ""},
		"an unknown context":       {map[string]string{"DOCKER_CONTEXT": "near"}, "", "there is no such context"},
		"no URL":                   {map[string]string{"DOCKER_HOST": "/var/run/docker.sock"}, "", "unix:///path"},
		"ssh":                      {map[string]string{"DOCKER_HOST": "ssh://me@there:2222"}, "ssh://me@there:2222", ""},
		"ssh with a password":      {map[string]string{"DOCKER_HOST": "ssh://me:secret@there"}, "", "use a key"},
		"ssh with an option":       {map[string]string{"DOCKER_HOST": "ssh://-oProxyCommand=x"}, "", "names no host"},
		"ssh with a path":          {map[string]string{"DOCKER_HOST": "ssh://there/var/run/x.sock"}, "", "only ssh://user@host:port"},
		"another scheme":           {map[string]string{"DOCKER_HOST": "ftp://there"}, "", "no way called ftp"},
		"no address":               {map[string]string{"DOCKER_HOST": "tcp://"}, "", "lacks an address"},
		"TLS without files":        {map[string]string{"DOCKER_HOST": "tcp://far:2376", "DOCKER_TLS_VERIFY": "1"}, "", "DOCKER_TLS_VERIFY is set"},
		"TLS on a socket":          {map[string]string{"DOCKER_HOST": "unix:///x", "DOCKER_TLS_VERIFY": "1"}, "unix:///x", ""},
		"another folder of config": {map[string]string{"DOCKER_CONFIG": home + "/none"}, "unix://" + home + "/run/podman/podman.sock", ""},
	} {
		config := Config{Getenv: func(name string) (string, bool) {
			v, ok := map[string]string{"HOME": home, "XDG_RUNTIME_DIR": home + "/run"}[name]
			if given, has := c.env[name]; has {
				return given, true
			}
			return v, ok
		}}
		list, err := endpoints(config)
		if c.errors != "" {
			require.ErrorContains(t, err, c.errors, name)
			continue
		}
		require.NoError(t, err, name)
		require.NotEmpty(t, list, name)
		at := list[len(list)-1]
		require.Equal(t, c.want, at.host, name)
		require.Equal(t, strings.HasPrefix(at.host, "unix:"), at.local(), name)
		if at.host == "tcp://far:2376" {
			require.Equal(t, filepath.Join(home, ".docker/contexts/tls", id, "docker/ca.pem"), at.ca)
			require.Empty(t, at.cert)
			require.True(t, at.tls)
		}
	}
}
