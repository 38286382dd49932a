package dataset

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/compress/gzip"
	"github.com/parquet-go/parquet-go/compress/lz4"
	"github.com/parquet-go/parquet-go/compress/snappy"
	"github.com/parquet-go/parquet-go/compress/zstd"
	"github.com/stretchr/testify/require"
)

// parquetFiles are files of several writers, with the rows they were made from.
const parquetFiles = "../../trajectories/parquetrows/testdata"

var update = flag.Bool("update", false, "write golden files")

// readAll returns the rows of a pass, its remarks and its error.
func readAll(t testing.TB, o Options) (rows []string, problems []Problem, err error) {
	t.Helper()
	o.Warn = func(p Problem) { problems = append(problems, p) }
	d, err := Open(t.Context(), o)
	if err != nil {
		return nil, problems, err
	}
	for row, err := range d.Rows(t.Context()) {
		if err != nil {
			return rows, problems, err
		}
		require.EqualValues(t, len(rows)+len(bads(problems)), row.Position)
		rows = append(rows, string(row.Data))
	}
	return rows, problems, nil
}

func bads(problems []Problem) (out []Problem) {
	for _, p := range problems {
		if !p.Kept {
			out = append(out, p)
		}
	}
	return out
}

func golden(t *testing.T, name string, rows []string) {
	t.Helper()
	got := strings.Join(rows, "\n") + "\n"
	if *update {
		require.NoError(t, os.WriteFile(name, []byte(got), 0o644))
	}
	want, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func TestParquetFilesOfOtherWritersGiveTheRowsTheyWereMadeFrom(t *testing.T) {
	for name, same := range map[string]string{
		"duckdb-types": "", "duckdb-nested": "", "arrow-rs": "", "hyparquet": "",
		"duckdb-types-v2": "duckdb-types", "duckdb-nested-v2": "duckdb-nested", "arrow-rs-v2": "arrow-rs",
	} {
		t.Run(name, func(t *testing.T) {
			rows, _, err := readAll(t, Options{Name: filepath.Join(parquetFiles, name+".parquet")})
			require.NoError(t, err)
			for _, row := range rows {
				require.True(t, json.Valid([]byte(row)), row)
			}
			if same == "" {
				same = name
			}
			golden(t, filepath.Join(parquetFiles, same+".golden"), rows)
		})
	}
}

func TestParquetIsReadWhateverItsCompression(t *testing.T) {
	want, _, err := readAll(t, Options{Name: parquetFiles + "/duckdb-uncompressed.parquet"})
	require.NoError(t, err)
	require.Len(t, want, 2100)
	require.Equal(t, `{"id":2099,"category":"category 4","score":0.75,"text":"xxxxxxxxx"}`, want[2099])
	for _, name := range []string{"snappy", "gzip", "zstd", "lz4_raw", "brotli"} {
		got, _, err := readAll(t, Options{Name: parquetFiles + "/duckdb-" + name + ".parquet"})
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
	}
}

func TestNumbersThatJSONHasNotAreNullWithARemark(t *testing.T) {
	_, problems, err := readAll(t, Options{Name: parquetFiles + "/duckdb-types.parquet"})
	require.NoError(t, err)
	require.Len(t, problems, 1)
	require.True(t, problems[0].Kept)
	require.EqualValues(t, 2, problems[0].Row)
	require.ErrorContains(t, &problems[0], parquetFiles+"/duckdb-types.parquet, row 2: NaN is not JSON and is read as null")
}

func TestOnlyTheWantedColumnsOfParquetAreReadInTheFilesOrder(t *testing.T) {
	// The data of the columns left out is overwritten: nobody may look at it.
	data, err := os.ReadFile(parquetFiles + "/duckdb-uncompressed.parquet")
	require.NoError(t, err)
	opened, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	for _, g := range opened.Metadata().RowGroups {
		for _, i := range []int{0, 2} {
			m := g.Columns[i].MetaData
			start := m.DataPageOffset
			if m.DictionaryPageOffset > 0 {
				start = m.DictionaryPageOffset
			}
			for k := range m.TotalCompressedSize {
				data[start+k] = 0xFF
			}
		}
	}
	name := filepath.Join(t.TempDir(), "rows.parquet")
	require.NoError(t, os.WriteFile(name, data, 0o600))
	rows, _, err := readAll(t, Options{Name: name, Columns: []string{"text", "category"}})
	require.NoError(t, err)
	require.Len(t, rows, 2100)
	require.Equal(t, `{"category":"category 1","text":"x"}`, rows[1])

	_, _, err = readAll(t, Options{Name: name})
	require.Error(t, err, "reading all columns meets the overwritten ones")
	_, _, err = readAll(t, Options{Name: name, Columns: []string{"txt"}})
	require.ErrorContains(t, err, `there is no column "txt"; the columns are "id", "category", "score", "text"`)
}

type legacy struct {
	Tags  []string `parquet:"tags"` // two levels: a repeated column without LIST
	Pairs []struct {
		B int32
		A *string `parquet:",optional"`
	} `parquet:"pairs"`
	Set   map[string]int64 `parquet:"set"`
	Empty []int32          `parquet:"empty,list"`
	None  *float64         `parquet:"none,optional"`
}

func writeParquet[T any](t testing.TB, rows []T, options ...parquet.WriterOption) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "rows.parquet")
	f, err := os.Create(name)
	require.NoError(t, err)
	w := parquet.NewGenericWriter[T](f, options...)
	_, err = w.Write(rows)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, f.Close())
	return name
}

func TestRepeatedColumnsWithoutListAreLists(t *testing.T) {
	text := "x"
	name := writeParquet(t, []legacy{
		{Tags: []string{"a", "b"}, Pairs: []struct {
			B int32
			A *string `parquet:",optional"`
		}{{1, &text}, {2, nil}}, Set: map[string]int64{"k": 1}},
		{},
	})
	rows, _, err := readAll(t, Options{Name: name})
	require.NoError(t, err)
	require.Equal(t, []string{
		`{"tags":["a","b"],"pairs":[{"B":1,"A":"x"},{"B":2,"A":null}],"set":{"k":1},"empty":[],"none":null}`,
		`{"tags":[],"pairs":[],"set":{},"empty":[],"none":null}`,
	}, rows)
}

// line is a row for files of many pages and row groups.
type line struct {
	ID    int64    `parquet:"id"`
	Text  string   `parquet:"text,dict"`
	Words []string `parquet:"words,list"`
}

func makeLines(n int) []line {
	lines := make([]line, n)
	for i := range lines {
		lines[i] = line{ID: int64(i), Text: fmt.Sprint("text ", i%100), Words: make([]string, i%5)}
		for k := range lines[i].Words {
			lines[i].Words[k] = strings.Repeat("w", (i+k)%30)
		}
	}
	return lines
}

func TestRowsThatSpanPagesAndRowGroupsComeBackWhole(t *testing.T) {
	lines := makeLines(1200)
	for _, codec := range []compress.Codec{&parquet.Uncompressed, &snappy.Codec{}, &gzip.Codec{Level: 6}, &zstd.Codec{}, &lz4.Codec{Level: lz4.Fast}} {
		for _, version := range []int{1, 2} {
			name := writeParquet(t, lines, parquet.Compression(codec), parquet.DataPageVersion(version), parquet.PageBufferSize(512), parquet.MaxRowsPerRowGroup(300))
			rows, _, err := readAll(t, Options{Name: name})
			require.NoError(t, err)
			require.Len(t, rows, len(lines))
			for i, l := range lines {
				words, err := json.Marshal(l.Words)
				require.NoError(t, err)
				require.Equal(t, fmt.Sprintf(`{"id":%d,"text":"text %d","words":%s}`, i, i%100, words), rows[i])
			}
		}
	}
}

func TestRowsOverTheLimitAreBadAndTheNextOnesAreNot(t *testing.T) {
	lines := makeLines(5)
	lines[2].Text = strings.Repeat("long ", 1000)
	name := writeParquet(t, lines)
	rows, problems, err := readAll(t, Options{Name: name, MaxRowBytes: 400, OnBadRow: BadRowSkips})
	require.NoError(t, err)
	require.Len(t, rows, 4)
	require.Equal(t, `{"id":3,"text":"text 3","words":["www","wwww","wwwww"]}`, rows[2])
	require.Len(t, problems, 1)
	require.ErrorIs(t, &problems[0], ErrRowTooLarge)
	require.EqualValues(t, 3, problems[0].Row)

	_, _, err = readAll(t, Options{Name: name, MaxRowBytes: 400})
	require.ErrorIs(t, err, ErrRowTooLarge)
}

func TestTextThatIsNotUTF8MakesABadRow(t *testing.T) {
	lines := makeLines(3)
	lines[1].Text = "a\xffb"
	name := writeParquet(t, lines)
	rows, problems, err := readAll(t, Options{Name: name, OnBadRow: BadRowSkips})
	require.NoError(t, err)
	require.Len(t, rows, 2)
	require.ErrorContains(t, &problems[0], "row 2: column text: the text is not UTF-8 from byte 2 on")
}

func TestWhatIsWrongWithAParquetFileIsSaid(t *testing.T) {
	whole, err := os.ReadFile(parquetFiles + "/duckdb-zstd.parquet")
	require.NoError(t, err)
	page := bytes.Clone(whole)
	for i := 40; i < 80; i++ {
		page[i] ^= 0x55
	}
	huge := append([]byte("PAR1"), 0x19, 0xF8, 0xFF, 0xFF, 0xFF, 0xFF, 0x07) // a list of two thousand million structures
	huge = append(binary.LittleEndian.AppendUint32(huge, 7), "PAR1"...)
	for want, data := range map[string][]byte{
		"the Parquet file is cut short":              whole[:len(whole)-3],
		"the file is empty":                          {},
		"it is not a Parquet file":                   []byte("id,text\n1,2\n"),
		"run git lfs pull":                           []byte("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"),
		"it is a file of kind Arrow":                 append([]byte("ARROW1"), whole...),
		"write it without encryption":                append([]byte("PARE"), whole[4:]...),
		"(it has no footer)":                         append(bytes.Clone(whole), "more"...),
		"read column":                                page,
		"the Parquet file is damaged: read the foot": huge,
	} {
		name := filepath.Join(t.TempDir(), "rows.parquet")
		require.NoError(t, os.WriteFile(name, data, 0o600))
		_, _, err := readAll(t, Options{Name: name, OnBadRow: BadRowSkips})
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, name)
	}
}

func TestParquetRowsAreCountedWithoutReadingThem(t *testing.T) {
	d, err := Open(t.Context(), Options{Name: parquetFiles + "/duckdb-zstd.parquet"})
	require.NoError(t, err)
	n, known := d.Len()
	require.True(t, known)
	require.EqualValues(t, 2100, n)
	columns, err := d.Columns(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"id", "category", "score", "text"}, columns)
}

func TestParquetNeedsMemoryForItsPagesAndNotForTheFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "rows.parquet")
	f, err := os.Create(name)
	require.NoError(t, err)
	w := parquet.NewGenericWriter[line](f, parquet.Compression(&snappy.Codec{}), parquet.MaxRowsPerRowGroup(10_000), parquet.PageBufferSize(256<<10))
	batch := make([]line, 1000)
	for i := range 24 {
		for k := range batch {
			batch[k] = line{ID: int64(i*1000 + k), Text: fmt.Sprint(k), Words: []string{strings.Repeat(fmt.Sprintf("%d-%d ", i, k), 256)}}
		}
		_, err := w.Write(batch)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, f.Close())

	d, err := Open(t.Context(), Options{Name: name})
	require.NoError(t, err)
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	var peak, read uint64
	n := 0
	for row, err := range d.Rows(t.Context()) {
		require.NoError(t, err)
		read += uint64(len(row.Data))
		if n++; n%3000 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&now)
			peak = max(peak, now.HeapAlloc)
		}
	}
	require.Equal(t, 24_000, n)
	require.Greater(t, read, uint64(30<<20))
	require.Less(t, int64(peak)-int64(before.HeapAlloc), int64(8<<20), "%d MB were read", read>>20)
}
