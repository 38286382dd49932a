package server

import (
	"bytes"
	"compress/gzip"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/flate"
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
			p.plain.Store(rapid.Bool().Draw(t, "plain"))
			packed, err := p.pack([][]byte{content[:len(content)/2], content[len(content)/2:]})
			require.NoError(t, err)
			unpacked, err := u.unpack(bytes.Clone(packed.packed), packed.size, packed.sum)
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

func TestPacker_StoresContentLongerThanABlock(t *testing.T) {
	content := make([]byte, 3*blockLimit+1)
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(content)
	for _, plain := range []bool{true, false} { // the other one stores random bytes as well, and ends with another block
		for _, size := range []int{0, 1, blockLimit - 1, blockLimit, blockLimit + 1, 2 * blockLimit, len(content)} {
			var p packer
			var u unpacker
			p.plain.Store(plain)
			packed, err := p.pack([][]byte{content[:size/3], nil, content[size/3 : size]})
			require.NoError(t, err)
			z := flate.NewReader(bytes.NewReader(append(bytes.Clone(packed.packed), streamEnd...)))
			got, err := io.ReadAll(z)
			require.NoError(t, err)
			require.True(t, bytes.Equal(content[:size], got))
			got, err = u.unpack(packed.packed, packed.size, packed.sum)
			require.NoError(t, err)
			require.True(t, bytes.Equal(content[:size], got), "%d bytes, plain: %v", size, plain)
		}
	}
}

func TestPacker_MixesStoredAndCompressedBlocks(t *testing.T) {
	var u unpacker
	text := bytes.Repeat([]byte("hello "), 1000)
	rest, err := new(packer).pack([][]byte{text})
	require.NoError(t, err)
	content := append([]byte("first"), text...)
	got, err := u.unpack(append(stored("first", false), rest.packed...), int64(len(content)), crc32.ChecksumIEEE(content))
	require.NoError(t, err)
	require.Equal(t, string(content), string(got))
}

func TestADamagedPieceIsNoticed(t *testing.T) {
	var p packer
	var u unpacker
	packed, err := p.pack([][]byte{[]byte("hello hello hello")})
	require.NoError(t, err)
	_, err = u.unpack(bytes.Clone(packed.packed), packed.size, packed.sum+1)
	require.Error(t, err)
	_, err = u.unpack(packed.packed[:3:3], packed.size, packed.sum)
	require.Error(t, err)
	_, err = u.unpack(bytes.Clone(packed.packed), packed.size, packed.sum)
	require.NoError(t, err)
	p.plain.Store(true)
	packed, err = p.pack([][]byte{[]byte("hello hello hello")})
	require.NoError(t, err)
	_, err = u.unpack(bytes.Clone(packed.packed), packed.size, packed.sum+1)
	require.Error(t, err)
	_, err = u.unpack(bytes.Clone(packed.packed[:7]), packed.size, packed.sum)
	require.Error(t, err)
}
