package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/validation"
)

// cleanly is an environment whose tests run in a clean container, or not.
type cleanly struct {
	env.Environment
	clean bool
}

func (c cleanly) VerifiesClean(env.Item) bool { return c.clean }

func TestJob_GoesByVerdictsOfTheSameVerification(t *testing.T) {
	for _, clean := range []bool{false, true} {
		j := &job{environment: cleanly{clean: clean}}
		require.Equal(t, clean, j.sameVerification(env.Item{}, validation.Verdict{VerifiedIn: "clean"}))
		require.Equal(t, !clean, j.sameVerification(env.Item{}, validation.Verdict{VerifiedIn: "fresh"}))
		require.Equal(t, !clean, j.sameVerification(env.Item{}, validation.Verdict{}))
	}
	j := &job{environment: struct{ env.Environment }{}}
	require.True(t, j.sameVerification(env.Item{}, validation.Verdict{}), "other environments have one way")
}
