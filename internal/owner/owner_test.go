package owner_test

import (
	"os/exec"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/internal/owner"
)

func TestAliveTellsTheDeadFromTheLiving(t *testing.T) {
	this := owner.This()
	dead := exec.Command("true")
	require.NoError(t, dead.Run())
	for name, c := range map[string]struct {
		change func(*owner.Owner)
		alive  bool
	}{
		"this process":                    {func(*owner.Owner) {}, true},
		"an ended process":                {func(o *owner.Owner) { o.PID = dead.Process.Pid }, false},
		"a reused process id":             {func(o *owner.Owner) { o.Start++ }, false},
		"a process before the last boot":  {func(o *owner.Owner) { o.Boot = "another boot" }, false},
		"a process of another machine":    {func(o *owner.Owner) { o.Place, o.PID = "elsewhere", dead.Process.Pid }, true},
		"another machine's earlier boot":  {func(o *owner.Owner) { o.Place, o.Boot = "elsewhere", "another boot" }, true},
		"a process without a start noted": {func(o *owner.Owner) { o.Start = 0 }, true},
	} {
		o := this
		c.change(&o)
		require.Equal(t, c.alive, o.Alive(), name)
	}
}

func TestParseReadsWhatWasNotedAndRefusesTheRest(t *testing.T) {
	o := owner.This()
	back, err := owner.Parse(strconv.Itoa(o.PID), strconv.FormatUint(o.Start, 10), o.Boot, o.Place)
	require.NoError(t, err)
	require.Equal(t, o, back)
	for _, bad := range [][4]string{{"", "1", "b", "p"}, {"0", "1", "b", "p"}, {"-4", "1", "b", "p"}, {"4", "x", "b", "p"}, {"4", "1", "", "p"}, {"4", "1", "b", ""}} {
		_, err := owner.Parse(bad[0], bad[1], bad[2], bad[3])
		require.Error(t, err, bad)
	}
}
