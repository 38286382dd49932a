package spelling

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNearest_FindsMisspeltNamesOnly(t *testing.T) {
	names := []string{"work_directories", "verify_in", "sandbox.image"}
	for in, want := range map[string]string{
		"workdirectories": "work_directories", "Work-Directories": "work_directories", "verfiy_in": "verify_in", "verify_inn": "verify_in",
		"verified": "", "verify": "", "work": "", "": "", strings.Repeat("a", 1000): "",
	} {
		require.Equal(t, want, Nearest(in, names), in)
	}
}
