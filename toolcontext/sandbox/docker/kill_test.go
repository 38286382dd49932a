package docker_test

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/internal/slowtest"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker/dockertest"
)

// Harnesses are killed while they create containers; what the next one finds and
// removes is all there was.
func TestKilledAtRandomInstantsNothingStaysAfterTheNextStart(t *testing.T) {
	p := newProvider(t, docker.Config{})
	run := "killed-" + strconv.Itoa(os.Getpid())
	left, kills := 0, slowtest.Times(5, 50)
	for range kills {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), doomedBinary+"="+shared.server(t), "DOCKER_TEST_RUN="+run)
		require.NoError(t, c.Start())
		time.Sleep(time.Duration(50+rand.IntN(1200)) * time.Millisecond)
		require.NoError(t, c.Process.Kill())
		require.Error(t, c.Wait())
		left += len(dockertest.Containers(t, "hermes-env.run="+run))
		// The engine may still be making one that was asked for at that instant.
		for tries := 0; tries == 0 || len(dockertest.Containers(t, "hermes-env.run="+run)) > 0 && tries < 50; tries++ {
			_, err := p.Reap(context.Background())
			require.NoError(t, err)
			time.Sleep(50 * time.Millisecond)
		}
		require.Empty(t, dockertest.Containers(t, "hermes-env.run="+run))
	}
	t.Logf("%d kills left %d containers, and the next start none", kills, left)
}
