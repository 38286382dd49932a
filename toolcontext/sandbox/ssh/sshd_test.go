package ssh_test

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/sandboxtest"
	backend "github.com/hermes-env/hermes-env/toolcontext/sandbox/ssh"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/ssh/sshtest"
)

// startSSHD starts OpenSSH's server and returns what reaches it.
func startSSHD(t testing.TB) backend.Config {
	t.Helper()
	s := sshtest.Start(t)
	return backend.Config{
		Host: s.Host, Port: s.Port, User: s.User, KeyFiles: []string{s.KeyFile}, KnownHosts: []string{s.KnownHosts},
		Getenv: client{dir: s.Home}.getenv, Binary: shared.server(t), CacheDir: s.Cache,
	}
}

func TestConformanceOverOpenSSH(t *testing.T) {
	config := startSSHD(t)
	sandboxtest.Run(t, func(t *testing.T) sandbox.Provider { return newProvider(t, config) }, sandboxtest.Options{
		Short: true, Only: []string{"streams", "transfers", "life"}, // what depends on the server
	})
	require.Empty(t, names(t, filepath.Join(config.CacheDir, "boxes")))
}

func TestOpenSSHRefusesWhatItShouldAndSharesItsConnections(t *testing.T) {
	config := startSSHD(t)
	stranger := config
	stranger.KeyFiles = []string{newClient(t).keyFile}
	require.ErrorIs(t, newProvider(t, stranger).Check(t.Context()), backend.ErrLogin)
	unknown := config
	unknown.KnownHosts = []string{newClient(t).knownHosts}
	require.ErrorIs(t, newProvider(t, unknown).Check(t.Context()), backend.ErrHostKey)

	p := newProvider(t, config)
	var wg sync.WaitGroup
	for range 12 {
		wg.Go(func() {
			s, err := p.Create(t.Context(), sandbox.Spec{})
			if err != nil {
				t.Error(err)
				return
			}
			if r, err := s.Exec(t.Context(), sandbox.Command{Script: "echo well"}); err != nil || r.Stdout.String() != "well\n" {
				t.Errorf("%v %v", r, err)
			}
		})
	}
	wg.Wait()
	require.Len(t, names(t, filepath.Join(config.CacheDir, "boxes")), 12)
	require.NoError(t, p.Close(t.Context()))
	require.Empty(t, names(t, filepath.Join(config.CacheDir, "boxes")))
	require.Empty(t, processes(t, config.CacheDir))
}
