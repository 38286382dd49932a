//go:build amd64 || arm64

package supervise

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// work starts many short programs that open many files.
const work = "for i in $(seq 20); do python3 -c 'import json, asyncio, unittest' || exit 1; echo $i > /dev/null; done"

func BenchmarkCommand(b *testing.B) {
	if _, err := exec.LookPath("python3"); err != nil {
		b.Skip("there is no python3")
	}
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			require.NoError(b, exec.Command("bash", "-c", work).Run())
		}
	})
	for name, policy := range map[string]sandbox.Policy{"supervised": {}, "supervised with loads": {Loads: true}, "supervised with hidden tests": {HideSealed: true, Sealed: []string{b.TempDir()}}} {
		b.Run(name, func(b *testing.B) {
			self, err := os.Executable()
			require.NoError(b, err)
			for b.Loop() {
				policy.Results, policy.Foreign = []string{"/logs/verifier/reward.txt"}, []string{"/app/"}
				s, err := Start(policy)
				require.NoError(b, err)
				argv := s.Args(self, []string{"bash", "-c", work})
				require.NoError(b, exec.Command(argv[0], argv[1:]...).Run())
				_, err = s.End()
				require.NoError(b, err)
			}
		})
	}
}
