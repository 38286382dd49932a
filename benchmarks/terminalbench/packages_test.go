package terminalbench

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAddsPackages_NeedsAPackageOrVersionThatTheImageLacks(t *testing.T) {
	const status = "Package: bash\nStatus: install ok installed\nArchitecture: amd64\nVersion: 5.2-2\nDescription: shell\n more: text\n\nPackage: tree\nStatus: deinstall ok config-files\nArchitecture: amd64\nVersion: 2.1\n"
	image := packagesOf(status)
	require.Equal(t, map[string]bool{"bash 5.2-2 amd64": true}, image)
	for name, c := range map[string]struct {
		text string
		want bool
	}{
		"a line feed":   {status + "\n", false},
		"a comment":     {strings.Replace(status, "shell", "shell!", 1), false},
		"a removal":     {"Package: tree\nStatus: deinstall ok config-files\nVersion: 2.1\n", false},
		"an upgrade":    {strings.Replace(status, "5.2-2", "5.2-3", 1), true},
		"a new package": {strings.Replace(status, "deinstall ok config-files", "install ok installed", 1), true},
	} {
		require.Equal(t, c.want, addsPackages(image, packagesOf(c.text)), name)
	}
	const apk = "C:Q1=\nP:musl\nV:1.2.5-r0\nA:x86_64\n\n"
	require.False(t, addsPackages(packagesOf(apk), packagesOf(apk+"\n")))
	require.True(t, addsPackages(packagesOf(apk), packagesOf(apk+"P:jq\nV:1\nA:x86_64\n\n")))
}
