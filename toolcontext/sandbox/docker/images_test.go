package docker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker/dockertest"
)

func TestAnImageIsPulledOnceForAllWhoWantIt(t *testing.T) {
	var lines atomic.Int64
	p := newProvider(t, docker.Config{Progress: func(string, string) { lines.Add(1) }})
	r := newRegistry(t)
	image := r.image("hello")
	// Who gives up first does not end the pull of the others.
	gone, leave := context.WithCancelCause(t.Context())
	leave(errors.New("left"))
	_, err := p.Create(gone, sandbox.Spec{Image: image})
	require.ErrorContains(t, err, "left")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			s, err := p.Create(t.Context(), sandbox.Spec{Image: image})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close(context.Background())
			info := s.Info()
			if info.Image != image || !strings.HasPrefix(info.Digest, "sha256:") || info.Dir != "/pulled" {
				t.Errorf("info is %+v", info)
			}
			if _, err := s.Download(t.Context(), "/pulled/hello"); err != nil {
				t.Error(err)
			}
			// There is no shell in the image, and files and programs work all the same.
			got, err := s.Exec(t.Context(), sandbox.Command{Args: []string{"/no-program"}})
			if err != nil || got.ExitCode != 127 {
				t.Errorf("exit code %d, %v", got.ExitCode, err)
			}
			got, err = s.Exec(t.Context(), sandbox.Command{Script: "true"})
			if err != nil || got.ExitCode == 0 {
				t.Errorf("exit code %d, %v", got.ExitCode, err)
			}
		})
	}
	wg.Wait()
	require.NotZero(t, r.asked("hello"))
	require.LessOrEqual(t, r.asked("hello"), 2, "the engine asks for the manifest by HEAD and GET")
	require.NotZero(t, lines.Load())
}

func TestAFolderIsBuiltOnceAndAgainWhenItChanges(t *testing.T) {
	var mu sync.Mutex
	var said []string
	p := newProvider(t, docker.Config{Progress: func(_, line string) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, line)
	}})
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	write("Dockerfile", "FROM "+dockertest.Image+"\nCOPY file ignored* /app/\nRUN echo built > /app/run\nWORKDIR /app\nUSER agent\nENV GREETING=hello\n")
	write(".dockerignore", "ignored\n")
	write("ignored", "secret")
	nonce := fmt.Sprint(os.Getpid())
	images := map[string]bool{}
	t.Cleanup(func() {
		for image := range images {
			dockertest.Command(t, "rmi", "-f", image)
		}
	})
	for _, version := range []string{"one", "one", "two"} {
		write("file", version+nonce)
		s := open(t, p, sandbox.Spec{Build: dir})
		require.Equal(t, version+nonce+"built\n1000 hello\nfile\nrun\n", sh(t, s, "cat file run; echo \"$(id -u) $GREETING\"; ls"))
		require.Equal(t, "/app", s.Info().Dir)
		images[dockertest.Command(t, "inspect", "-f", "{{.Image}}", s.Container())] = true
		require.NoError(t, s.Close(t.Context()))
	}
	mu.Lock()
	builds := strings.Count(strings.Join(said, "\n"), "building "+dir)
	mu.Unlock()
	require.Equal(t, 2, builds)

	write("Dockerfile", "FROM "+dockertest.Image+"\nRUN echo what went wrong; exit 9\n")
	_, err := p.Create(t.Context(), sandbox.Spec{Build: dir})
	require.ErrorContains(t, err, "what went wrong")
	_, err = p.Create(t.Context(), sandbox.Spec{Build: t.TempDir()})
	require.ErrorContains(t, err, "Dockerfile")
}
