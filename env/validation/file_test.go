package validation

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func verdict(digest string, kind Kind, at time.Time) Verdict {
	return Verdict{Environment: "tasks", ItemID: "item-" + digest, ItemDigest: digest, Kind: kind, At: at, Nop: Attempts{Failed: 1}}
}

func TestTheNewestVerdictOnAnItemCounts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", FileName)
	require.NoError(t, Append(path, verdict("a", Broken, day), verdict("b", Flaky, day)))
	require.NoError(t, Append(path, verdict("a", Sound, day.Add(time.Hour)), verdict("b", Sound, day.Add(-time.Hour))))
	other := verdict("c", Broken, day)
	other.Environment = "another"
	require.NoError(t, Append(path, other))
	known, damaged, err := Read(path, "tasks")
	require.NoError(t, err)
	require.Zero(t, damaged)
	require.Len(t, known, 2)
	require.Equal(t, Sound, known["a"].Kind)
	require.Equal(t, Flaky, known["b"].Kind, "an older verdict that was written later does not count")
}

func TestDamagedLinesAreCountedAndTheOthersRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	require.NoError(t, Append(path, verdict("a", Broken, day)))
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString("\n{\"verdict\":\"odd\"}\n" + strings.Repeat("x", maxLine+10) + "\n{\"torn")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, Append(path, verdict("b", Trivial, day)))
	known, damaged, err := Read(path, "tasks")
	require.NoError(t, err)
	require.Equal(t, 3, damaged)
	require.Len(t, known, 2, "a torn line does not swallow the next one")
}

func TestManyProcessesMayAppend(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			for n := range 5 {
				require.NoError(t, Append(path, verdict(fmt.Sprint(i, "-", n), Sound, day)))
			}
		})
	}
	wg.Wait()
	known, damaged, err := Read(path, "tasks")
	require.NoError(t, err)
	require.Zero(t, damaged)
	require.Len(t, known, 100)
}

func TestAMissingFileHoldsNoVerdicts(t *testing.T) {
	known, damaged, err := Read(filepath.Join(t.TempDir(), "none"), "tasks")
	require.NoError(t, err)
	require.Zero(t, damaged)
	require.Empty(t, known)
	_, _, err = Read(t.TempDir(), "tasks")
	require.ErrorContains(t, err, "read verdicts")
}

func TestWriteReplacesAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	require.NoError(t, Append(path, verdict("a", Broken, day)))
	require.NoError(t, Write(path, []Verdict{verdict("b", Sound, day)}))
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, `{"environment":"tasks","item_id":"item-b","item_digest":"b","verdict":"sound","reasons":[],"oracle":null,"nop":{"passed":0,"failed":1,"errors":0,"mean_score":null},"seconds":0,"config_digest":"","hermes_env":"","run_dir":"","validated_at":"2026-11-21T03:00:00Z"}`+"\n", string(raw))
}

func TestVerdictsAreKeptWhereTheUsersDataIs(t *testing.T) {
	for name, test := range map[string]struct {
		env  map[string]string
		want string
	}{
		"the data directory":                  {map[string]string{"XDG_DATA_HOME": "/data", "HOME": "/home/a"}, "/data/hermes-env/validations.jsonl"},
		"its default":                         {map[string]string{"HOME": "/home/a"}, "/home/a/.local/share/hermes-env/validations.jsonl"},
		"a relative one is ignored":           {map[string]string{"XDG_DATA_HOME": "data", "HOME": "/home/a"}, "/home/a/.local/share/hermes-env/validations.jsonl"},
		"nowhere without a home directory":    {nil, ""},
		"nowhere with a home that is no path": {map[string]string{"HOME": ""}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			path, ok := DefaultPath(func(k string) (string, bool) { v, ok := test.env[k]; return v, ok })
			require.Equal(t, test.want, path)
			require.Equal(t, test.want != "", ok)
		})
	}
	_, ok := DefaultPath(nil)
	require.False(t, ok)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("{\"environment\":\"tasks\",\"item_digest\":\"a\",\"verdict\":\"sound\"}\n"))
	f.Add([]byte("{}\n\n[1]\nnull"))
	f.Fuzz(func(t *testing.T, text []byte) {
		known, damaged, err := parse(strings.NewReader(string(text)), "tasks")
		require.NoError(t, err)
		require.GreaterOrEqual(t, strings.Count(string(text), "\n")+1, damaged+len(known))
		for digest, v := range known {
			require.Equal(t, digest, v.ItemDigest)
			require.NoError(t, v.check())
		}
	})
}
