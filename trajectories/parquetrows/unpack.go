package parquetrows

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/compress/brotli"
	"github.com/parquet-go/parquet-go/format"
)

// unpacker decompresses pages. It keeps decoders and serves one goroutine.
type unpacker struct {
	zstd   *zstd.Decoder
	gzip   *gzip.Reader
	brotli brotli.Codec
}

func (u *unpacker) close() {
	if u.zstd != nil {
		u.zstd.Close()
		u.zstd = nil
	}
}

// unpack fills dst from src. It is an error when there is less or more to fill it with.
func (u *unpacker) unpack(codec format.CompressionCodec, dst, src []byte) error {
	switch codec {
	case format.Snappy:
		if n, err := snappy.DecodedLen(src); err != nil || n != len(dst) {
			return wrongSize(n, len(dst), err)
		}
		_, err := snappy.Decode(dst, src)
		return err
	case format.Gzip:
		return u.gunzip(dst, src)
	case format.Zstd:
		if u.zstd == nil {
			decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPageBytes), zstd.WithDecodeAllCapLimit(true))
			if err != nil {
				return err
			}
			u.zstd = decoder
		}
		out, err := u.zstd.DecodeAll(src, dst[:0:len(dst)])
		if err != nil || len(out) != len(dst) {
			return wrongSize(len(out), len(dst), err)
		}
		return nil
	case format.Brotli:
		out, err := u.brotli.Decode(dst[:0:len(dst)], src)
		if err != nil || len(out) != len(dst) {
			return wrongSize(len(out), len(dst), err)
		}
		copy(dst, out)
		return nil
	case format.Lz4Raw:
		return unpackLZ4(dst, src)
	case format.Lz4:
		if unpackHadoop(dst, src) == nil {
			return nil
		}
		return unpackLZ4(dst, src)
	}
	return fmt.Errorf("%w: a compression that is not known here; write the file with snappy or zstd", ErrFormat)
}

func wrongSize(got, want int, err error) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("it has %d bytes and should have %d", got, want)
}

func (u *unpacker) gunzip(dst, src []byte) error {
	in := bytes.NewReader(src)
	if u.gzip == nil {
		z, err := gzip.NewReader(in)
		if err != nil {
			return err
		}
		u.gzip = z
	} else if err := u.gzip.Reset(in); err != nil {
		return err
	}
	if n, err := io.ReadFull(u.gzip, dst); err != nil {
		return fmt.Errorf("after %d bytes of %d: %w", n, len(dst), err)
	}
	var more [1]byte
	if n, err := io.ReadFull(u.gzip, more[:]); n > 0 || !errors.Is(err, io.EOF) {
		return wrongSize(len(dst)+1, len(dst), dropEOF(err))
	}
	return nil
}

func dropEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

var errLZ4 = errors.New("the block is damaged")

// unpackLZ4 decodes one LZ4 block: literals and copies of what came before, each with lengths that go on while a byte is 255.
func unpackLZ4(dst, src []byte) error {
	in, out := 0, 0
	length := func(n int) (int, bool) {
		if n < 15 {
			return n, true
		}
		for in < len(src) && n <= len(dst) {
			c := src[in]
			in++
			n += int(c)
			if c < 255 {
				return n, true
			}
		}
		return 0, false
	}
	for in < len(src) {
		token := int(src[in])
		in++
		literals, ok := length(token >> 4)
		if !ok || literals > len(src)-in || literals > len(dst)-out {
			return errLZ4
		}
		copy(dst[out:], src[in:in+literals])
		in, out = in+literals, out+literals
		if in == len(src) {
			break
		}
		if len(src)-in < 2 {
			return errLZ4
		}
		back := int(binary.LittleEndian.Uint16(src[in:]))
		in += 2
		n, ok := length(token & 15)
		n += 4
		if !ok || back == 0 || back > out || n > len(dst)-out {
			return errLZ4
		}
		for end := out + n; out < end; { // what is copied may be part of the copy
			out += copy(dst[out:end], dst[out-back:out])
		}
	}
	if out != len(dst) {
		return wrongSize(out, len(dst), nil)
	}
	return nil
}

// unpackHadoop decodes the older form: blocks behind their sizes, both big-endian.
func unpackHadoop(dst, src []byte) error {
	for len(src) > 0 {
		if len(src) < 8 {
			return errLZ4
		}
		plain, packed := binary.BigEndian.Uint32(src), binary.BigEndian.Uint32(src[4:])
		src = src[8:]
		if uint64(plain) > uint64(len(dst)) || uint64(packed) > uint64(len(src)) {
			return errLZ4
		}
		if err := unpackLZ4(dst[:plain], src[:packed]); err != nil {
			return err
		}
		dst, src = dst[plain:], src[packed:]
	}
	if len(dst) > 0 {
		return errLZ4
	}
	return nil
}
