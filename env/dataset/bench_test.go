package dataset

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
	"github.com/stretchr/testify/require"
)

// conversation is a row as datasets of conversations have them.
type conversation struct {
	ID       string    `parquet:"id" json:"id"`
	Category string    `parquet:"category,dict" json:"category"`
	Score    float64   `parquet:"score" json:"score"`
	Messages []message `parquet:"messages,list" json:"messages"`
}

type message struct {
	Role    string `parquet:"role,dict" json:"role"`
	Content string `parquet:"content" json:"content"`
}

// benchRows makes 10,000 rows of about 2 KB.
func benchRows() []conversation {
	random := rand.New(rand.NewPCG(1, 2))
	words := make([]string, 2000)
	for i := range words {
		words[i] = fmt.Sprintf("word%x", random.Uint32()>>uint(random.IntN(20)))
	}
	rows := make([]conversation, 10_000)
	for i := range rows {
		rows[i] = conversation{ID: fmt.Sprint("row-", i), Category: words[i%20], Score: random.Float64()}
		for range 4 {
			var text bytes.Buffer
			for range 50 {
				text.WriteString(words[random.IntN(len(words))])
				text.WriteByte(" \n\""[min(2, random.IntN(40)/19)])
			}
			rows[i].Messages = append(rows[i].Messages, message{"user", text.String()})
		}
	}
	return rows
}

func benchFile(b *testing.B, name string, data []byte) string {
	b.Helper()
	name = filepath.Join(b.TempDir(), name)
	require.NoError(b, os.WriteFile(name, data, 0o600))
	return name
}

// BenchmarkRows reads the same rows in every format, and with the standard library for comparison. MB/s are of JSON.
func BenchmarkRows(b *testing.B) {
	rows := benchRows()
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	for _, r := range rows {
		require.NoError(b, encoder.Encode(r))
	}
	array := append([]byte("["), bytes.ReplaceAll(bytes.TrimSpace(lines.Bytes()), []byte("\n"), []byte(",\n"))...)
	array = append(array, ']')
	var packed, columns bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write(lines.Bytes())
	require.NoError(b, err)
	require.NoError(b, z.Close())
	w := parquet.NewGenericWriter[conversation](&columns, parquet.Compression(&zstd.Codec{}), parquet.MaxRowsPerRowGroup(5000))
	_, err = w.Write(rows)
	require.NoError(b, err)
	require.NoError(b, w.Close())

	for _, c := range []struct {
		name    string
		data    []byte
		columns []string
	}{
		{"rows.jsonl", lines.Bytes(), nil}, {"rows.jsonl.gz", packed.Bytes(), nil}, {"rows.json", array, nil},
		{"rows.parquet", columns.Bytes(), nil}, {"rows.parquet", columns.Bytes(), []string{"id", "category", "score"}},
	} {
		name := c.name
		if c.columns != nil {
			name += " three columns"
		}
		b.Run(name, func(b *testing.B) {
			d, err := Open(b.Context(), Options{Name: benchFile(b, c.name, c.data), Columns: c.columns})
			require.NoError(b, err)
			b.SetBytes(int64(lines.Len()))
			b.ReportAllocs()
			for b.Loop() {
				n := 0
				for _, err := range d.Rows(b.Context()) {
					require.NoError(b, err)
					n++
				}
				require.Equal(b, len(rows), n)
			}
			b.ReportMetric(float64(len(rows)*b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
	standard := func(name string, row func([]byte) error) {
		b.Run(name, func(b *testing.B) {
			file := benchFile(b, "rows.jsonl", lines.Bytes())
			b.SetBytes(int64(lines.Len()))
			b.ReportAllocs()
			for b.Loop() {
				f, err := os.Open(file)
				require.NoError(b, err)
				s := bufio.NewScanner(f)
				s.Buffer(nil, 1<<20)
				for s.Scan() {
					require.NoError(b, row(s.Bytes()))
				}
				require.NoError(b, s.Err())
				require.NoError(b, f.Close())
			}
			b.ReportMetric(float64(len(rows)*b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
	standard("encoding/json rows.jsonl into a map", func(line []byte) error {
		var row map[string]any
		return json.Unmarshal(line, &row)
	})
	standard("encoding/json rows.jsonl compacted", func(line []byte) error {
		var out bytes.Buffer
		return json.Compact(&out, line)
	})
	b.Run("digest", func(b *testing.B) {
		line := bytes.SplitN(lines.Bytes(), []byte("\n"), 2)[0]
		row := Row{Data: line}
		b.SetBytes(int64(len(line)))
		for b.Loop() {
			_ = row.Digest()
		}
	})
}
