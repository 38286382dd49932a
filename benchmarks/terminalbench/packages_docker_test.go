package terminalbench

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker/dockertest"
)

func TestVerify_ComparesPackagesAndLibrariesWithTheImage(t *testing.T) {
	b := newBench(t)
	image := files{"environment/Dockerfile": "FROM " + dockertest.Image + "\n" +
		`RUN mkdir -p /var/lib/dpkg /usr/lib /usr/local/lib && printf 'Package: a\nStatus: install ok installed\nVersion: 1\n' > /var/lib/dpkg/status && echo x > /usr/lib/libz.so.1 && echo c > /etc/ld.so.cache` + "\n"}
	const work = "#!/bin/sh\necho 42 > /work/answer; echo y > /usr/lib/libz.so.1; echo y > /usr/local/lib/libz.so.1; echo d > /etc/ld.so.cache; "
	writeTask(t, b.root, "line-feed", work+"echo >> /var/lib/dpkg/status\n", image)
	writeTask(t, b.root, "package", work+"printf '\\nPackage: b\\nStatus: install ok installed\\nVersion: 1\\n' >> /var/lib/dpkg/status\n", image)
	records := b.run()
	require.Equal(t, "1", outcome(records["line-feed"]), problemOf(records["line-feed"]))
	require.ElementsMatch(t, []string{"replaced", "loader"}, kindsOf(records["line-feed"]))
	require.Equal(t, "1", outcome(records["package"]), problemOf(records["package"]))
	require.Empty(t, kindsOf(records["package"]))
}
