package sandbox_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

func TestParseCapabilities_ReadsSetsAndNames(t *testing.T) {
	restricted := sandbox.RestrictedCapabilities()
	for words, c := range map[string]struct {
		add, drop []string
		text      string
		has, not  string
	}{
		"":                          {restricted, []string{"ALL"}, "restricted", "CHOWN", "NET_RAW"},
		"restricted":                {restricted, []string{"ALL"}, "restricted", "SETUID", "MKNOD"},
		"engine":                    {nil, nil, "engine", "NET_RAW", "SYS_PTRACE"},
		"engine +SYS_TIME -NET_RAW": {[]string{"SYS_TIME"}, []string{"NET_RAW"}, "engine,+SYS_TIME,-NET_RAW", "SYS_TIME", "NET_RAW"},
		"restricted cap_net_raw -CHOWN": {append(restricted[1:len(restricted):len(restricted)], "NET_RAW"), []string{"ALL"},
			"restricted,+NET_RAW,-CHOWN", "NET_RAW", "CHOWN"},
		"none":           {nil, []string{"ALL"}, "none", "", "CHOWN"},
		"KILL SETUID":    {[]string{"KILL", "SETUID"}, []string{"ALL"}, "none,+KILL,+SETUID", "KILL", "CHOWN"},
		"ENGINE":         {nil, nil, "engine", "CHOWN", "SYS_ADMIN"},
		"none ALL -KILL": {[]string{"ALL"}, []string{"KILL"}, "none,+ALL,-KILL", "SYS_ADMIN", "KILL"},
	} {
		set, err := sandbox.ParseCapabilities(strings.Fields(words))
		require.NoError(t, err, words)
		add, drop := set.Lists()
		require.ElementsMatch(t, c.add, add, words)
		require.ElementsMatch(t, c.drop, drop, words)
		require.Equal(t, c.text, set.String(), words)
		require.True(t, c.has == "" || set.Has(c.has), "%s: %s", words, c.has)
		require.False(t, set.Has(c.not), "%s: %s", words, c.not)
		require.Equal(t, strings.EqualFold(words, "engine"), set.IsEngine(), words)
		again, err := sandbox.ParseCapabilities(strings.Split(set.String(), ","))
		require.NoError(t, err)
		require.Equal(t, set.String(), again.String())
	}
	for words, want := range map[string]string{
		"engine NET_RAWW":   `"NET_RAWW" is neither a set`,
		"CHOWN engine":      "has to come first",
		"engine -ALL":       "write none instead",
		"engine restricted": "has to come first",
	} {
		_, err := sandbox.ParseCapabilities(strings.Fields(words))
		require.ErrorContains(t, err, want, words)
	}
}
