package dataset

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

// textCases are files as they come; testdata/text/cases.golden has what becomes of each, bad rows skipped.
var textCases = []struct{ name, content string }{
	{"lines with a byte order mark, carriage returns, blank lines and every fault.jsonl",
		"\xef\xbb\xbf{\"a\":1}\r\n\r\n  \n{\"a\":1.0}\r\n{\"a\":NaN}\n{\"a\":1,\"b\":0,\"\\u0061\":2}\n[1]\n{\"a\":\"\xff\"}\n{\"a\":\"" + strings.Repeat("x", 5000) +
			"\"}\n{\"a\":1\n{\"a\":1}}\n{\"a\":-Infinity,\"b\":[1, 2]}\n{\"n\":12345678901234567890.10e-3,\"é\":\"\\u00e9<&>\"}\n{\"z\":\"last\"}"},
	{"an array with every fault.json", "[\n {\"a\": 1},\n {\"a\": tru},\n 7,\n {\"a\":\"" + strings.Repeat("y", 5000) + "\"},\n{\"b\":[1, 2]}\n]\n"},
	{"an array that is cut.json", "[{\"a\":1},{\"a\":"},
	{"an array with text behind it.json", "[{\"a\":1}] x"},
	{"an array without a comma.json", "[{\"a\":1} {\"a\":2}]"},
	{"lines under another name.json", "{\"a\":1}\n{\"a\":2}\n"},
	{"a single object.json", "{\"a\":1,\n\"b\":[1,2]}\n"},
	{"objects over several lines.json", "{\n\"a\":1}\n{\n\"a\":2}\n"},
	{"columns.json", "{\"a\":[1,2],\"b\":[\"x\",null]}"},
	{"columns of different lengths.json", "{\"a\":[1,2],\"b\":[1]}"},
	{"a list in an object.json", "{\"version\":\"1\",\"data\":[{\"q\":1},{\"q\":2}],\"m\":{}}"},
	{"nothing.jsonl", ""},
	{"an empty array.json", "[]"},
	{"no JSON at all.jsonl", "x\ny\n"},
	{"an array under another name.jsonl", "[{\"a\":1}]"},
	{"an object over several lines.jsonl", "{\n\"a\":1\n}\n"},
	{"quotes, line breaks and ragged rows.csv", "id,text\n1,\"a \"\"q\"\"\nb\"\n2,x,y\n\n3,\"open\n4,z\n"},
	{"semicolons.csv", "a;b\n1;2\n"},
	{"types.csv", "a,b\n1,true\n007,\n-1.5,\"2\"\nFalse,x\n"},
	{"tabs.tsv", "a\tb\r\n1\t\"x\ty\"\r\n"},
	{"a byte order mark.csv", "\xef\xbb\xbfa,b\n1,2\n"},
	{"a column twice.csv", "a,a\n1,2\n"},
	{"a column without a name.csv", ",a\n0,x\n"},
	{"faults.csv", "a,b\n1,\xff\n2,\"x\"y\n\"" + strings.Repeat("z", 5000) + "\",1\n3,\x00\n3,4\n"},
	{"carriage returns alone.csv", "a,b\r1,2\r3,4\r"},
	{"sixteen bits.jsonl", "\xff\xfe{\x00}\x00"},
	{"no format.bin", "hello"},
	{"JSON without its name.bin", `{"a":1}`},
	{"Arrow.arrow", "ARROW1xxxxxxxxxxxxxxxxxx"},
	{"a web page.jsonl", "<!DOCTYPE html><html>"},
	{"Parquet under another name.csv", "PAR1xxxxxxxxxxxxxx"},
}

func TestTextFilesGiveRowsAndNameWhatIsWrongWithTheOthers(t *testing.T) {
	t.Chdir(t.TempDir())
	var out []string
	for _, c := range textCases {
		require.NoError(t, os.WriteFile(c.name, []byte(c.content), 0o600))
		rows, problems, err := readAll(t, Options{Name: c.name, OnBadRow: BadRowSkips, MaxRowBytes: 4000, TypedCSV: c.name == "types.csv"})
		out = append(out, "# "+c.name)
		out = append(out, rows...)
		for _, p := range problems {
			at := fmt.Sprintf(" [offset %d]", p.Offset)
			if p.Kept {
				at += " [kept]"
			}
			out = append(out, "- "+strings.TrimPrefix(p.Error(), c.name)+at)
		}
		if err != nil {
			out = append(out, "! "+strings.ReplaceAll(err.Error(), c.name, "NAME"))
		}

		_, _, failed := readAll(t, Options{Name: c.name, MaxRowBytes: 4000, TypedCSV: c.name == "types.csv"})
		if len(bads(problems)) > 0 {
			first := bads(problems)[0]
			require.EqualError(t, failed, first.Error(), "the first bad row ends the pass")
		} else if err != nil {
			require.EqualError(t, failed, err.Error())
		} else {
			require.NoError(t, failed)
		}
	}
	t.Chdir(packageDir)
	golden(t, "testdata/text/cases.golden", out)
}

// packageDir is where tests start.
var packageDir = func() string { dir, _ := os.Getwd(); return dir }()

func writeFile(t testing.TB, name string, data []byte) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	require.NoError(t, os.WriteFile(name, data, 0o600))
	return name
}

func gzipped(t testing.TB, data []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(data)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

func TestCompressedTextIsReadWhateverItsName(t *testing.T) {
	plain := []byte("{\"a\":1}\n{\"a\":2}\n")
	z, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	half := gzipped(t, plain[:8])
	for name, data := range map[string][]byte{
		"rows.jsonl.gz": gzipped(t, plain), "rows.jsonl.zst": z.EncodeAll(plain, nil), "rows.jsonl": gzipped(t, plain),
		"two.jsonl.gz": append(half, gzipped(t, plain[8:])...), "rows.json.gz": gzipped(t, plain),
	} {
		rows, _, err := readAll(t, Options{Name: writeFile(t, filepath.Join(t.TempDir(), name), data)})
		require.NoError(t, err, name)
		require.Equal(t, []string{`{"a":1}`, `{"a":2}`}, rows, name)
	}
	cut := gzipped(t, bytes.Repeat(plain, 5000))
	rows, _, err := readAll(t, Options{Name: writeFile(t, filepath.Join(t.TempDir(), "cut.jsonl.gz"), cut[:len(cut)-9]), OnBadRow: BadRowSkips})
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.NotEmpty(t, rows)
}

func TestOnlyTheWantedColumnsAreKept(t *testing.T) {
	dir := t.TempDir()
	jsonl := writeFile(t, filepath.Join(dir, "rows.jsonl"), []byte(`{"c":3,"a":{"b":1},"b":2}`+"\n"+`{"b":4}`+"\n"))
	rows, _, err := readAll(t, Options{Name: jsonl, Columns: []string{"a", "c"}})
	require.NoError(t, err)
	require.Equal(t, []string{`{"c":3,"a":{"b":1}}`, `{}`}, rows)
	csv := writeFile(t, filepath.Join(dir, "rows.csv"), []byte("c,a,b\n3,1,2\n"))
	rows, _, err = readAll(t, Options{Name: csv, Columns: []string{"a", "c"}})
	require.NoError(t, err)
	require.Equal(t, []string{`{"c":"3","a":"1"}`}, rows)
	_, _, err = readAll(t, Options{Name: csv, Columns: []string{"d"}})
	require.ErrorContains(t, err, `there is no column "d"; the columns are "c", "a", "b"`)
}

func TestTextNeedsMemoryForARowAndNotForTheFile(t *testing.T) {
	line := append(append([]byte(`{"i":1,"text":"`), bytes.Repeat([]byte("lorem "), 300)...), "\"}\n"...)
	for _, name := range []string{"rows.jsonl", "rows.json", "rows.csv"} {
		t.Run(name, func(t *testing.T) {
			f, err := os.Create(filepath.Join(t.TempDir(), name))
			require.NoError(t, err)
			head, row, between, tail := "", string(line), "", ""
			switch name {
			case "rows.json":
				head, between, tail = "[", ",", "]"
			case "rows.csv":
				head, row = "i,text\n", "1,\""+strings.Repeat("lorem\n", 300)+"\"\n"
			}
			const n = 8_000
			_, err = f.WriteString(head)
			require.NoError(t, err)
			for i := range n {
				if i > 0 {
					_, err = f.WriteString(between)
					require.NoError(t, err)
				}
				_, err = f.WriteString(row)
				require.NoError(t, err)
			}
			_, err = f.WriteString(tail)
			require.NoError(t, err)
			require.NoError(t, f.Close())

			d, err := Open(t.Context(), Options{Name: f.Name()})
			require.NoError(t, err)
			runtime.GC()
			var before, now runtime.MemStats
			runtime.ReadMemStats(&before)
			var peak uint64
			rows := 0
			for _, err := range d.Rows(t.Context()) {
				require.NoError(t, err)
				if rows++; rows%2000 == 0 {
					runtime.GC()
					runtime.ReadMemStats(&now)
					peak = max(peak, now.HeapAlloc)
				}
			}
			require.Equal(t, n, rows)
			require.Less(t, int64(peak)-int64(before.HeapAlloc), int64(4<<20))
		})
	}
}

func TestAGiganticLineIsPassedOverWithoutBeingKept(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "rows.jsonl"))
	require.NoError(t, err)
	_, err = f.WriteString("{\"a\":1}\n")
	require.NoError(t, err)
	for range 24 {
		_, err = f.Write(bytes.Repeat([]byte("x"), 1<<20))
		require.NoError(t, err)
	}
	_, err = f.WriteString("\n{\"a\":2}\n")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	rows, problems, err := readAll(t, Options{Name: f.Name(), OnBadRow: BadRowSkips, MaxRowBytes: 1 << 20})
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	require.Equal(t, []string{`{"a":1}`, `{"a":2}`}, rows)
	require.Len(t, problems, 1)
	require.EqualValues(t, 2, problems[0].Line)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(12<<20))
}

func TestFilesThatChangeBetweenTwoPassesAreAnError(t *testing.T) {
	name := writeFile(t, filepath.Join(t.TempDir(), "rows.jsonl"), []byte("{\"a\":1}\n{\"a\":2}\n"))
	d, err := Open(t.Context(), Options{Name: name})
	require.NoError(t, err)
	pass := func() error {
		for _, err := range d.Rows(t.Context()) {
			if err != nil {
				return err
			}
		}
		return nil
	}
	require.NoError(t, pass())
	info := d.Info()
	require.EqualValues(t, 2, info.Files[0].Rows)
	require.Len(t, info.Files[0].SHA256, 64)
	n, known := d.Len()
	require.True(t, known)
	require.EqualValues(t, 2, n)

	require.NoError(t, os.Chtimes(name, info0(t, name).ModTime().Add(5e9), info0(t, name).ModTime().Add(5e9)))
	require.NoError(t, pass(), "another time alone is no change")
	writeFile(t, name, []byte("{\"a\":1}\n{\"a\":3}\n"))
	require.NoError(t, os.Chtimes(name, info0(t, name).ModTime().Add(9e9), info0(t, name).ModTime().Add(9e9)))
	require.ErrorIs(t, pass(), ErrChanged)
	writeFile(t, name, []byte("{\"a\":1}\n"))
	require.ErrorIs(t, pass(), ErrChanged)
}

func info0(t *testing.T, name string) os.FileInfo {
	info, err := os.Stat(name)
	require.NoError(t, err)
	return info
}

func FuzzTextFilesGiveRowsOrAnError(f *testing.F) {
	for _, c := range textCases {
		if len(c.content) < 1000 {
			f.Add([]byte(c.content))
		}
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		dir := t.TempDir()
		for _, extension := range []string{"jsonl", "json", "csv", "tsv", "bin"} {
			rows, _, _ := readAll(t, Options{Name: writeFile(t, filepath.Join(dir, "rows."+extension), content), OnBadRow: BadRowSkips, MaxRowBytes: 4096, TypedCSV: extension == "tsv"})
			for _, row := range rows {
				require.True(t, json.Valid([]byte(row)) && row[0] == '{', "%s: %q", extension, row)
			}
		}
	})
}

func FuzzJSONRowsAreCompactAndLoseNothing(f *testing.F) {
	for _, s := range []string{`{"a":1,"a":{"b":[1,2,{"c":1,"c":2}]}}`, `{"x":"\ud83d\ude00\ud800","y":-0.0e+10}`, ` { "a" : [ ] , "b":{ } } `, `{"a":NaN}`, `{"k1":1,"\u006b1":2}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		var text jsonText
		out, err := text.object(src)
		if err != nil {
			return
		}
		require.True(t, json.Valid(out), "%q", out)
		if json.Valid(src) && text.remarks() == nil {
			var want bytes.Buffer
			require.NoError(t, json.Compact(&want, src))
			require.Equal(t, want.String(), string(out))
		}
		again, err := text.object(out)
		require.NoError(t, err)
		require.Equal(t, string(out), string(again))
		canonical := appendCanonical(nil, out)
		require.Equal(t, string(canonical), string(appendCanonical(nil, canonical)), "the canonical text of itself")
	})
}
