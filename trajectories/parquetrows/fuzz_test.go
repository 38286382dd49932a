package parquetrows

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/stretchr/testify/require"
)

// FuzzParquetFilesGiveRowsOrAnError feeds damaged files: whatever they claim, reading ends, and what comes out is JSON.
func FuzzParquetFilesGiveRowsOrAnError(f *testing.F) {
	for _, name := range []string{"hyparquet", "duckdb-nested", "duckdb-nested-v2", "duckdb-types", "duckdb-types-v2", "arrow-rs", "arrow-rs-v2", "duckdb-lz4_raw", "duckdb-brotli"} {
		data, err := os.ReadFile(filepath.Join("testdata", name+".parquet"))
		require.NoError(f, err)
		f.Add(data, uint16(0), byte(0))
		f.Add(data, uint16(len(data)-40), byte(0x7F))
	}
	f.Fuzz(func(t *testing.T, data []byte, at uint16, change byte) {
		if int(at) < len(data) {
			data = append([]byte{}, data...)
			data[at] ^= change
		}
		r, err := Open(t.Context(), bytes.NewReader(data), int64(len(data)), Config{MaxRowBytes: 1 << 16})
		if err != nil {
			return
		}
		defer r.Close()
		for range 1000 {
			row, err := r.Next()
			var bad *RowError
			if errors.As(err, &bad) {
				continue
			}
			if err != nil {
				return
			}
			require.True(t, json.Valid(row), "%q", row)
		}
	})
}

// FuzzLZ4BlocksAreUnpackedWithinTheirSize: whatever a block says, nothing is written beyond what it may fill.
func FuzzLZ4BlocksAreUnpackedWithinTheirSize(f *testing.F) {
	f.Add([]byte{0x10, 'a'}, uint16(1))
	f.Add([]byte{0x1F, 'a', 1, 0, 3, 0x10, 'b'}, uint16(24))
	f.Add([]byte{0xF0, 0xFF, 0xFF}, uint16(600))
	f.Fuzz(func(t *testing.T, src []byte, size uint16) {
		dst := make([]byte, size)
		_ = unpackLZ4(dst, src)
		_ = unpackHadoop(dst, src)
	})
}

func TestLZ4BlocksAreUnpacked(t *testing.T) {
	for _, c := range []struct {
		src  []byte
		want string
		ok   bool
	}{
		{[]byte{0x50, 'h', 'e', 'l', 'l', 'o'}, "hello", true},
		{[]byte{0x14, 'a', 1, 0, 0x10, 'b'}, "aaaaaaaaab", true},               // a copy of itself: eight a's
		{[]byte{0x1F, 'a', 1, 0, 0, 0x10, 'b'}, "aaaaaaaaaaaaaaaaaaaab", true}, // a length that goes on
		{[]byte{0x50, 'h', 'e', 'l', 'l'}, "hello", false},                     // literals that aren't there
		{[]byte{0x14, 'a', 2, 0, 0x10, 'b'}, "aaaaaaaaab", false},              // from before the start
		{[]byte{0x14, 'a', 0, 0, 0x10, 'b'}, "aaaaaaaaab", false},
		{[]byte{0x14, 'a', 1}, "aaaaaaaaa", false},
		{[]byte{0x50, 'h', 'e', 'l', 'l', 'o'}, "hell", false}, // too much
		{[]byte{0x50, 'h', 'e', 'l', 'l', 'o'}, "hello!", false},
		{nil, "", true},
	} {
		dst := make([]byte, len(c.want))
		err := unpackLZ4(dst, c.src)
		require.Equal(t, c.ok, err == nil, "%v: %v", c.src, err)
		if c.ok {
			require.Equal(t, c.want, string(dst))
			hadoop := append([]byte{0, 0, 0, byte(len(c.want)), 0, 0, 0, byte(len(c.src))}, c.src...)
			clear(dst)
			require.NoError(t, unpackHadoop(dst, hadoop))
			require.Equal(t, c.want, string(dst))
		}
	}
}

func TestRunsLongerThanTheirPageAreRefusedBeforeTheyAreDecoded(t *testing.T) {
	for _, c := range []struct {
		data  []byte
		width int
		want  error
	}{
		{[]byte{0x14, 1}, 1, nil},                                      // ten ones
		{[]byte{0x03, 0xFF, 0x04, 0}, 1, nil},                          // eight packed, then two
		{[]byte{0x03}, 3, nil},                                         // the last group cut, as some writers do
		{[]byte{0xFE, 0xFF, 0xFF, 0xFF, 0x0F, 1}, 1, errRuns},          // two thousand million ones
		{[]byte{0xFF, 0xFF, 0xFF, 0xFF, 0x0F}, 0, errRuns},             // as many of no width
		{[]byte{0x14, 1}, 33, errRuns},                                 // a width that doesn't exist
		{[]byte{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}, 1, errRuns}, // a length without end
	} {
		require.ErrorIs(t, checkHybrid(c.data, c.width, 10), c.want, "%v", c.data)
	}
}

func TestPagesOfAnotherSizeThanStatedAreRefused(t *testing.T) {
	var u unpacker
	defer u.close()
	packed := snappy.Encode(nil, []byte("twelve bytes"))
	require.NoError(t, u.unpack(1, make([]byte, 12), packed))
	require.ErrorContains(t, u.unpack(1, make([]byte, 13), packed), "it has 12 bytes and should have 13")
	require.ErrorContains(t, u.unpack(3, make([]byte, 13), packed), "a compression that is not known here")
}
