package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFold_BreaksWideLinesBelowTheirSecondColumn(t *testing.T) {
	for in, want := range map[string]string{
		"  score      0.781 ± 0.060 (standard error clustered by item)": "  score      0.781 ± 0.060 (standard\n             error clustered by item)",
		"             a note without a label that is too wide":          "             a note without a label that\n             is too wide",
		"warning: the engine may not open 65536 files itself":           "warning: the engine may not open 65536\n  files itself",
		"  passed     pass@1 0.688  pass@2 0.958  pass@4 1.000":         "  passed     pass@1 0.688  pass@2 0.958\n             pass@4 1.000",
		"  \x1b[1mscore\x1b[0m      0.781 of the rollouts in it":        "  \x1b[1mscore\x1b[0m      0.781 of the rollouts in it",
		"short\n\nlines": "short\n\nlines",
		"             → hermes-env stats runs/a-very-long-directory-name": "             → hermes-env stats runs/a-very-long-directory-name",
		"go on: hermes-env evaluate --run-dir runs/x --resume":            "go on: hermes-env evaluate --run-dir runs/x --resume",
		"a/path/without/any/space/that/is/wider/than/all/of/it":           "a/path/without/any/space/that/is/wider/than/all/of/it",
	} {
		require.Equal(t, want, fold(in, 40))
		require.Equal(t, in, fold(in, 0), "only terminals have a width")
	}
}
