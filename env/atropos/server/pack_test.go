package server

import (
	"bytes"
	"compress/gzip"
	"hash/crc32"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestChecksumsOfTextsPutTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SliceOf(rapid.Byte()).Draw(t, "a")
		b := rapid.SliceOf(rapid.Byte()).Draw(t, "b")
		got := combineSums(crc32.ChecksumIEEE(a), crc32.ChecksumIEEE(b), int64(len(b)))
		require.Equal(t, crc32.ChecksumIEEE(append(append([]byte{}, a...), b...)), got)
	})
}

func TestPiecesMakeOneGzipMember(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p packer
		var u unpacker
		var m member
		want := []byte("[")
		out := append([]byte(gzipHead), stored("[", false)...)
		m.text("[")
		for _, content := range rapid.SliceOf(rapid.SliceOf(rapid.ByteRange('a', 'd'))).Draw(t, "contents") {
			packed, err := p.pack([][]byte{content[:len(content)/2], content[len(content)/2:]})
			require.NoError(t, err)
			unpacked, err := u.unpack(packed.packed, packed.size, packed.sum)
			require.NoError(t, err)
			require.True(t, bytes.Equal(content, unpacked))
			want = append(want, content...)
			out = append(out, packed.packed...)
			m.piece(packed.sum, packed.size)
		}
		out = append(out, stored("]", true)...)
		m.text("]")
		out = append(out, m.tail()...)
		z, err := gzip.NewReader(bytes.NewReader(out))
		require.NoError(t, err)
		z.Multistream(false)
		got, err := io.ReadAll(z)
		require.NoError(t, err)
		require.Equal(t, string(append(want, ']')), string(got))
	})
}

func TestADamagedPieceIsNoticed(t *testing.T) {
	var p packer
	var u unpacker
	packed, err := p.pack([][]byte{[]byte("hello hello hello")})
	require.NoError(t, err)
	_, err = u.unpack(packed.packed, packed.size, packed.sum+1)
	require.Error(t, err)
	_, err = u.unpack(packed.packed[:3:3], packed.size, packed.sum)
	require.Error(t, err)
	_, err = u.unpack(packed.packed, packed.size, packed.sum)
	require.NoError(t, err)
}
