package owner_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/internal/owner"
)

func TestANameCarriesItsOwnerAndIsUsedOnce(t *testing.T) {
	me := owner.This()
	name := me.NewName()
	require.Regexp(t, regexp.MustCompile(`^[a-z0-9-]{1,72}$`), name)
	require.NotEqual(t, name, me.NewName())
	back, err := owner.ParseName(name)
	require.NoError(t, err)
	require.Equal(t, me, back)
	require.True(t, back.Alive())
}

func TestWhatIsNoNameHasNoOwner(t *testing.T) {
	for _, name := range []string{"", "-", "1-2-a-b", "1-2-a-b-", "1-2-a-b-c-d", "x-2-a-b-c", "1-x-a-b-c", "0-2-a-b-c", "1-2--b-c", "1-2-a--c", "1-2-a-b-../x", "1-2-a-b-C", "1-2-a-b-c\n"} {
		_, err := owner.ParseName(name)
		require.Error(t, err, "%q", name)
	}
}

func FuzzParseName(f *testing.F) {
	f.Add(owner.This().NewName())
	f.Add("1-2-x-y-z")
	f.Add("../../etc")
	f.Fuzz(func(t *testing.T, name string) {
		o, err := owner.ParseName(name)
		if err != nil {
			return
		}
		require.NotContains(t, name, "/")
		require.NotContains(t, name, "'")
		require.Positive(t, o.PID)
	})
}
