package local

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestListeningSocketsAreReadFromTheKernelsTables(t *testing.T) {
	found := map[uint64]socket{}
	inetSockets(found, "tcp", []byte(`  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000    33        0 101 1 0
   1: 0100007F:1F90 0100007F:D431 01 00000000:00000000 00:00000000 00000000    33        0 102 1 0
   2: short line
`))
	inetSockets(found, "tcp6", []byte("   0: 00000000000000000000000000000000:0050 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 103 1 0\n"))
	inetSockets(found, "udp", []byte("  7: 00000000:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 104 2 0 0\n  8: 00000000:0036 0100007F:0035 01 00000000:00000000 00:00000000 00000000     0        0 105 2 0 0\n"))
	unixSockets(found, []byte(`Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 106 /run/x.sock
0000000000000000: 00000002 00000000 00010000 0005 01 107 @abstract
0000000000000000: 00000003 00000000 00000000 0001 03 108 /run/x.sock
0000000000000000: 00000002 00000000 00000000 0002 01 109 /dev/log
0000000000000000: 00000002 00000000 00000000 0002 01 110
`))
	names := map[uint64]string{}
	for inode, s := range found {
		names[inode] = s.name
	}
	require.Equal(t, map[uint64]string{101: "tcp 127.0.0.1:8080", 103: "tcp [::]:80", 104: "udp 0.0.0.0:53", 106: "unix /run/x.sock", 107: "unix @abstract", 109: "unix /dev/log"}, names)
	require.Equal(t, 33, found[101].uid)
	require.Equal(t, -1, found[106].uid)
}

func FuzzTablesOfSockets(f *testing.F) {
	for _, name := range []string{"tcp", "udp6", "unix"} {
		data, err := os.ReadFile("/proc/self/net/" + name)
		if err == nil {
			f.Add(data[:min(len(data), 2000)])
		}
	}
	f.Add([]byte("0: :0050 x 0A 0 0 0 -1 0 9999999999999999999999 1\n0: 1:2 3 0A 0 0 0 -1 0 5 1"))
	f.Fuzz(func(t *testing.T, table []byte) {
		found := map[uint64]socket{}
		inetSockets(found, "tcp", table)
		inetSockets(found, "udp6", table)
		unixSockets(found, table)
		for inode, s := range found {
			if inode == 0 || strings.ContainsAny(s.name, "\n") {
				t.Fatalf("%d: %q", inode, s.name)
			}
		}
	})
}
