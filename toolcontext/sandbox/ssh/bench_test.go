package ssh_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// BenchmarkSandbox measures the life of a sandbox: create, one command, close.
func BenchmarkSandbox(b *testing.B) {
	p := newProvider(b, startSSHD(b))
	require.NoError(b, p.Check(b.Context()))
	for b.Loop() {
		s, err := p.Create(b.Context(), sandbox.Spec{})
		require.NoError(b, err)
		_, err = s.Exec(b.Context(), sandbox.Command{Script: "true"})
		require.NoError(b, err)
		require.NoError(b, s.Close(b.Context()))
	}
}

// BenchmarkCommand measures one command in a sandbox that is there.
func BenchmarkCommand(b *testing.B) {
	s := open(b, newProvider(b, startSSHD(b)), sandbox.Spec{})
	for b.Loop() {
		_, err := s.Exec(b.Context(), sandbox.Command{Args: []string{"true"}})
		require.NoError(b, err)
	}
}
