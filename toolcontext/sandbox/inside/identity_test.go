package inside

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUsersAreFoundByTheRulesOfContainerEngines(t *testing.T) {
	dir := t.TempDir()
	passwd, group := filepath.Join(dir, "passwd"), filepath.Join(dir, "group")
	require.NoError(t, os.WriteFile(passwd, []byte("root:x:0:0:root:/root:/bin/sh\nbroken\nagent:x:1000:1001:,,,:/home/agent:/bin/sh\nnohome:x:7:7::relative:\nbad:x:no:1::/:\nhuge:x:4294967296:1::/:\nhugegroup:x:8:4294967296::/:\nmember:x:9:9::/:\n"), 0o644))
	require.NoError(t, os.WriteFile(group, []byte("root:x:0:\nagents:x:1001:\nvideo:x:44:other,agent\ndocker:x:99:agent\nbad:x:no:agent\nvast:x:4294967296:member\n"), 0o644))
	for user, want := range map[string]identity{
		"agent":      {uid: 1000, gid: 1001, groups: []int{44, 99}, home: "/home/agent"},
		"1000":       {uid: 1000, gid: 1001, groups: []int{44, 99}, home: "/home/agent"},
		"agent:root": {uid: 1000, gid: 0, home: "/home/agent"},
		"agent:44":   {uid: 1000, gid: 44, home: "/home/agent"},
		"agent:4711": {uid: 1000, gid: 4711, home: "/home/agent"},
		"4711":       {uid: 4711, home: "/"},
		"4711:video": {uid: 4711, gid: 44, home: "/"},
		"nohome":     {uid: 7, gid: 7, home: "/"},
		"root":       {home: "/root"},
	} {
		got, err := lookUp(user, passwd, group)
		require.NoError(t, err, user)
		require.Equal(t, want, got, user)
	}
	for user, want := range map[string]string{
		"nobody":        `no user "nobody"`,
		"agent:nowhere": `no group "nowhere"`,
		"":              `no user ""`,
		"-1":            `no user "-1"`,
		"bad":           `no user "bad"`,
		// The kernel takes 32 bits: 4294967296 would be root.
		"4294967296":       "from 0 to 2147483647",
		"99999999999":      "from 0 to 2147483647",
		"agent:2147483648": "from 0 to 2147483647",
		"huge":             "from 0 to 2147483647",
		"hugegroup":        "from 0 to 2147483647",
		"member":           "from 0 to 2147483647",
	} {
		_, err := lookUp(user, passwd, group)
		require.ErrorContains(t, err, want, user)
	}
	got, err := lookUp("12", filepath.Join(dir, "none"), filepath.Join(dir, "none"))
	require.NoError(t, err, "an image without databases")
	require.Equal(t, identity{uid: 12, home: "/"}, got)

	fifo := filepath.Join(dir, "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o644))
	_, err = lookUp("agent", fifo, group)
	require.ErrorContains(t, err, "no regular file")
}
