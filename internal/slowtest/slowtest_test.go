package slowtest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/internal/slowtest"
)

// recorder notes what a test is told to do.
type recorder struct {
	testing.TB
	skipped, failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Skipf(string, ...any)  { r.skipped = true }
func (r *recorder) Fatalf(string, ...any) { r.failed = true }

func TestRequire_SkipsInAPlainRunOnly(t *testing.T) {
	for value, c := range map[string]struct {
		skipped, failed bool
		times           int
	}{
		"":        {skipped: true, times: 3},
		"all":     {times: 3},
		"nightly": {times: 50},
		"some":    {skipped: true, failed: true, times: 3},
	} {
		t.Setenv(slowtest.Variable, value)
		r := &recorder{}
		slowtest.Require(r)
		require.Equal(t, c.skipped, r.skipped, value)
		require.Equal(t, c.failed, r.failed, value)
		require.Equal(t, c.times, slowtest.Times(3, 50), value)
	}
}
