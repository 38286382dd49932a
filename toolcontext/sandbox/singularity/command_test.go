package singularity

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheCommandGetsSettingsButNothingForInstances(t *testing.T) {
	require.Equal(t, []string{"PATH=/bin", "APPTAINER_CACHEDIR=/c", "SINGULARITY_TMPDIR=/t"}, environment([]string{
		"PATH=/bin", "OPENAI_API_KEY=x", "APPTAINERENV_A=x", "SINGULARITYENV_A=x", "APPTAINER_CACHEDIR=/c", "SINGULARITY_TMPDIR=/t",
		"APPTAINER_BIND=/", "APPTAINER_BINDPATH=/", "SINGULARITY_MOUNT=/", "APPTAINER_ENV_FILE=/f", "LD_PRELOAD=x",
	}))
}

func FuzzParseInstances(f *testing.F) {
	f.Add(`{"instances":[{"instance":"a","pid":1}]}`)
	f.Add(`{"instances":null}`)
	f.Fuzz(func(t *testing.T, out string) {
		names, err := parseInstances(out)
		require.True(t, err == nil || names == nil)
	})
}

func TestInstancesAreRead(t *testing.T) {
	names, err := parseInstances(`{"instances":[{"instance":"a","pid":1,"img":"/x.sif","ip":""},{"instance":"b"}]}`)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, names)
	_, err = parseInstances("INFO: none")
	require.Error(t, err)
}
