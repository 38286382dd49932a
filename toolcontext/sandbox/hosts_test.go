package sandbox_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

func TestAllowedHostsAreNamesWildcardsAndAddresses(t *testing.T) {
	h, err := sandbox.ParseHosts([]string{"PyPI.org", "*.pythonhosted.org", "192.0.2.7", "localhost"})
	require.NoError(t, err)
	for host, want := range map[string]bool{
		"pypi.org": true, "PYPI.ORG": true, "pypi.org.": true, "192.0.2.7": true, "::ffff:192.0.2.7": true,
		"files.pythonhosted.org": true, "a.b.pythonhosted.org": true, "localhost": true,
		"pythonhosted.org": false, "evilpythonhosted.org": false, "www.pypi.org": false, "pypi.org.evil.com": false,
		"192.0.2.8": false, "": false, ".": false, ".pythonhosted.org": false, "pypi.org:80": false, "pypi.org\x00": false,
		"0xc0.0.2.7": false, "3221225991": false, "[::1]": false, "::1": false,
	} {
		require.Equal(t, want, h.Contains(host), "%q", host)
	}
	none, err := sandbox.ParseHosts(nil)
	require.NoError(t, err)
	require.False(t, none.Contains("pypi.org"))
	require.False(t, sandbox.Hosts{}.Contains("pypi.org"))
}

func TestAnAllowedHostThatIsNoneIsRefusedWithTheReason(t *testing.T) {
	for _, bad := range []string{"https://pypi.org", "pypi.org:443", "pypi.org/simple", "*", "*.", "a*.org", "*.*.org", "", "::1", "10.0.0.0/8", "a b", "2130706433", "0x7f.1", strings.Repeat("a", 64) + ".org"} {
		_, err := sandbox.ParseHosts([]string{"pypi.org", bad})
		require.ErrorContains(t, err, "allowed host", "%q", bad)
	}
	err := sandbox.Spec{AllowedHosts: []string{"pypi.org"}, Network: sandbox.NetworkBridge}.Validate()
	require.ErrorContains(t, err, "allowlist")
	require.NoError(t, sandbox.Spec{AllowedHosts: []string{"pypi.org"}, Network: sandbox.NetworkAllowlist}.Validate())
	require.Error(t, sandbox.Spec{AllowedHosts: []string{"http://x"}, Network: sandbox.NetworkAllowlist}.Validate())
}

func FuzzHostsContainOnlyWhatTheyName(f *testing.F) {
	f.Add("pypi.org", "PyPI.org.")
	f.Add("*.a.b", "x.a.b")
	f.Add("1.2.3.4", "::ffff:1.2.3.4")
	f.Fuzz(func(t *testing.T, entry, host string) {
		h, err := sandbox.ParseHosts([]string{entry})
		if err != nil || !h.Contains(host) {
			return
		}
		for _, c := range host {
			require.NotContains(t, " /@\x00\r\n\t?#", string(c))
		}
	})
}
