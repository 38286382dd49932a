package dataset

import (
	"errors"
	"iter"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDigestsDependOnValuesAndNotOnTheirSpelling(t *testing.T) {
	same := [][]string{
		{`{"a":1,"b":[true,null,"x"]}`, `{"b":[true,null,"\u0078"],"a":1.0}`, `{"a":10e-1,"b":[true,null,"x"],"c":null}`},
		{`{"n":0}`, `{"n":-0.0}`, `{"n":0e99}`},
		{`{"n":1e21}`, `{"n":1000000000000000000000}`},
		{`{"n":12345678901234567890.5}`, `{"n":123456789012345678905e-1}`},
		{`{"s":"é/"}`, `{"s":"\u00e9\/"}`},
		{`{}`, `{"a":null}`},
	}
	seen := map[string]int{}
	for i, group := range same {
		for _, data := range group {
			digest := Row{Data: []byte(data)}.Digest()
			before, ok := seen[digest]
			require.True(t, !ok || before == i, "%s has the digest of group %d", data, before)
			seen[digest] = i
		}
	}
	require.Len(t, seen, len(same))
	for _, data := range []string{`{"a":"1"}`, `{"a":1}`, `{"a":[1]}`, `{"a":[1,null]}`, `{"a":{}}`, `{"a":true}`, `{"a":1.0000000000000000001}`, `{"a":"\ud800"}`, `{"a":"\ud801"}`} {
		digest := Row{Data: []byte(data)}.Digest()
		_, ok := seen[digest]
		require.False(t, ok, data)
		seen[digest] = -1
	}
	require.Equal(t, "sha256:6173df492ea2cc3f93854102e7ca395f27a97bc90c7130b33a9608fe1407beba", Row{Data: []byte(`{"b":"é","a":1.50}`)}.Digest(),
		`the hash of {"a":1.5,"b":"é"}, as any program computes it`)
}

func TestTheSameRowsHaveTheSameDigestInEveryFormat(t *testing.T) {
	lines, err := os.ReadFile(parquetFiles + "/duckdb-nested.golden")
	require.NoError(t, err)
	digests := func(name string) (out []string) {
		d, err := Open(t.Context(), Options{Name: name})
		require.NoError(t, err)
		for row, err := range d.Rows(t.Context()) {
			require.NoError(t, err)
			out = append(out, row.Digest())
		}
		return out
	}
	dir := t.TempDir()
	require.Equal(t, digests(parquetFiles+"/duckdb-nested.parquet"), digests(writeFile(t, filepath.Join(dir, "rows.jsonl"), lines)))
}

func TestKeysFindARowAgainAndTellEqualOnesApart(t *testing.T) {
	broken := errors.New("broken")
	rows := func(yield func(Row, error) bool) {
		for i, data := range []string{`{"a":1}`, `{"a":2}`, `{"a":1.0}`} {
			if !yield(Row{Position: int64(i), Data: []byte(data)}, nil) {
				return
			}
		}
		yield(Row{}, broken)
	}
	var keys []string
	var last error
	for row, err := range Keyed(iter.Seq2[Row, error](rows)) {
		if last = err; err == nil {
			keys = append(keys, row.Key)
		}
	}
	require.ErrorIs(t, last, broken)
	require.Len(t, keys, 3)
	require.Equal(t, keys[0]+"#2", keys[2])
	require.NotEqual(t, keys[0], keys[1])
	require.Equal(t, keys[0], Row{Data: []byte(`{"a":1}`)}.Digest())
}

func FuzzDigestsAreThoseOfTheirCanonicalText(f *testing.F) {
	f.Add(`{"a":1e5,"b":"\ud83d\ude00","c":[{"d":null}]}`)
	f.Add(`{"n":-1.0e-400,"m":1E+400}`)
	f.Fuzz(func(t *testing.T, s string) {
		var text jsonText
		data, err := text.object([]byte(s))
		if err != nil {
			return
		}
		row := Row{Data: data}
		canonical := Row{Data: appendCanonical(nil, data)}
		require.Equal(t, row.Digest(), canonical.Digest())
	})
}

func TestALineThatOnlyBeginsLikeALiteralIsNotCalledOne(t *testing.T) {
	for line, want := range map[string]string{
		"null": "got null", "true": "got true or false", "nothing": "got something that isn't JSON", "not json": "got something that isn't JSON", "-1": "got a number",
	} {
		var text jsonText
		_, err := text.object([]byte(line))
		require.ErrorContains(t, err, want, line)
	}
}
