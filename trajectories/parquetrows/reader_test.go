package parquetrows

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write golden files")

// readAll returns the rows of a file, its remarks and what was wrong with rows.
func readAll(t *testing.T, data []byte, c Config) (rows []string, remarks, bad []error, err error) {
	t.Helper()
	r, err := Open(t.Context(), bytes.NewReader(data), int64(len(data)), c)
	if err != nil {
		return nil, nil, nil, err
	}
	defer r.Close()
	for {
		row, err := r.Next()
		var rowError *RowError
		switch {
		case errors.As(err, &rowError):
			bad = append(bad, rowError)
			continue
		case errors.Is(err, io.EOF):
			return rows, remarks, bad, nil
		case err != nil:
			return rows, remarks, bad, err
		}
		rows = append(rows, string(row))
		if remark := r.Remark(); remark != nil {
			remarks = append(remarks, remark)
		}
	}
}

func TestFilesOfOtherWritersGiveTheRowsTheyWereMadeFrom(t *testing.T) {
	for name, same := range map[string]string{
		"duckdb-types": "", "duckdb-nested": "", "arrow-rs": "", "hyparquet": "",
		"duckdb-types-v2": "duckdb-types", "duckdb-nested-v2": "duckdb-nested", "arrow-rs-v2": "arrow-rs",
	} {
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("testdata", name+".parquet"))
			require.NoError(t, err)
			rows, remarks, bad, err := readAll(t, data, Config{})
			require.NoError(t, err)
			require.Empty(t, bad)
			for _, row := range rows {
				require.True(t, json.Valid([]byte(row)), row)
			}
			if strings.HasPrefix(name, "duckdb-types") {
				require.Len(t, remarks, 1)
				require.EqualError(t, remarks[0], "NaN is not JSON and is read as null")
			}
			golden := filepath.Join("testdata", strings.TrimSuffix(name, "-v2")+".golden")
			got := strings.Join(rows, "\n") + "\n"
			if *update && same == "" {
				require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), got)
		})
	}
}

func TestARowThatCanNotBeUsedIsNoEndOfTheFile(t *testing.T) {
	type line struct {
		ID   int64  `parquet:"id"`
		Text string `parquet:"text"`
	}
	var file bytes.Buffer
	w := parquet.NewGenericWriter[line](&file)
	_, err := w.Write([]line{{1, "a"}, {2, "b\xff"}, {3, strings.Repeat("c", 200)}, {4, "d"}})
	require.NoError(t, err)
	require.NoError(t, w.Close())
	rows, _, bad, err := readAll(t, file.Bytes(), Config{MaxRowBytes: 100})
	require.NoError(t, err)
	require.Equal(t, []string{`{"id":1,"text":"a"}`, `{"id":4,"text":"d"}`}, rows)
	require.Len(t, bad, 2)
	require.EqualError(t, bad[0], "column text: the text is not UTF-8 from byte 2 on")
	require.ErrorIs(t, bad[1], ErrRowTooLarge)
	rows, _, _, err = readAll(t, file.Bytes(), Config{Columns: []string{"id"}})
	require.NoError(t, err)
	require.Equal(t, `{"id":2}`, rows[1])
	_, _, _, err = readAll(t, file.Bytes(), Config{Columns: []string{"ID"}})
	require.ErrorContains(t, err, `there is no column "ID"; the columns are "id", "text"`)
}

func TestWhatIsWrongWithAFileIsSaid(t *testing.T) {
	whole, err := os.ReadFile("testdata/duckdb-zstd.parquet")
	require.NoError(t, err)
	for want, data := range map[string][]byte{
		"cut short":                   whole[:len(whole)-3],
		"the file is empty":           {},
		"it is not a Parquet file":    []byte("id,text\n1,2\n"),
		"write it without encryption": append([]byte("PARE"), whole[4:]...),
	} {
		_, _, _, err := readAll(t, data, Config{})
		require.ErrorIs(t, err, ErrFormat)
		require.ErrorContains(t, err, want)
	}
}

func TestReadingEndsWithItsContext(t *testing.T) {
	data, err := os.ReadFile("testdata/duckdb-zstd.parquet")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := Open(ctx, bytes.NewReader(data), int64(len(data)), Config{})
	require.NoError(t, err)
	defer r.Close()
	cancel()
	_, err = r.Next()
	require.ErrorIs(t, err, context.Canceled)
}
