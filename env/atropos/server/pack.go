package server

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/flate"
)

// A group is kept as a piece of a deflate stream that stands for itself: it refers
// to nothing before it, ends at a byte and doesn't end the stream. Pieces put one
// after the other, with stored blocks between them, are one gzip member, whose
// checksum follows from theirs.

// packer makes pieces. Its methods may be called from several goroutines.
type packer struct {
	writers sync.Pool
	// plain makes pieces of stored blocks, for a trainer that takes batches without gzip.
	plain atomic.Bool
}

// piece is a packed group.
type piece struct {
	packed []byte
	size   int64  // unpacked
	sum    uint32 // CRC-32 of what is unpacked
}

func (p *packer) pack(parts [][]byte) (piece, error) {
	var result piece
	for _, part := range parts {
		result.size += int64(len(part))
		result.sum = crc32.Update(result.sum, crc32.IEEETable, part)
	}
	if p.plain.Load() {
		result.packed = storedPiece(parts, result.size)
		return result, nil
	}
	var buf bytes.Buffer
	buf.Grow(int(result.size/3) + 512)
	w, ok := p.writers.Get().(*flate.Writer)
	if ok {
		w.Reset(&buf)
	} else {
		var err error
		if w, err = flate.NewWriter(&buf, flate.BestSpeed); err != nil {
			return piece{}, fmt.Errorf("pack a group: %w", err)
		}
	}
	defer p.writers.Put(w)
	for _, part := range parts {
		if _, err := w.Write(part); err != nil {
			return piece{}, fmt.Errorf("pack a group: %w", err)
		}
	}
	if err := w.Flush(); err != nil {
		return piece{}, fmt.Errorf("pack a group: %w", err)
	}
	result.packed = buf.Bytes()
	return result, nil
}

// streamEnd is an empty block that ends a deflate stream.
const streamEnd = "\x03\x00"

// unpacker unpacks pieces, one at a time.
type unpacker struct {
	reader io.ReadCloser
	buf    bytes.Buffer
}

// unpack returns the content of a piece, which stays valid until the next call. It
// uses the memory of packed.
func (u *unpacker) unpack(packed []byte, size int64, sum uint32) ([]byte, error) {
	if content, ok := storedContent(packed); ok {
		if int64(len(content)) != size || crc32.ChecksumIEEE(content) != sum {
			return nil, errContent
		}
		return content, nil
	}
	source := bytes.NewReader(append(packed, streamEnd...))
	if u.reader == nil {
		u.reader = flate.NewReader(source)
	} else if err := u.reader.(flate.Resetter).Reset(source, nil); err != nil {
		return nil, fmt.Errorf("unpack a group: %w", err)
	}
	u.buf.Reset()
	u.buf.Grow(int(size) + bytes.MinRead)
	n, err := u.buf.ReadFrom(io.LimitReader(u.reader, size+1))
	if err != nil {
		return nil, fmt.Errorf("unpack a group: %w", err)
	}
	if n != size || crc32.ChecksumIEEE(u.buf.Bytes()) != sum {
		return nil, errContent
	}
	return u.buf.Bytes(), nil
}

var errContent = errors.New("unpack a group: the content is not what was packed")

// gzipHead begins a gzip member: no name, no time, unknown system.
const gzipHead = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"

const (
	blockHead  = 5         // bytes before the content of a stored block
	blockLimit = 1<<16 - 1 // bytes that a stored block holds at most
)

// stored returns a block that holds text as it is.
func stored(text string, last bool) []byte {
	block := appendBlockHead(make([]byte, 0, blockHead+len(text)), len(text))
	if last {
		block[0] = 1
	}
	return append(block, text...)
}

func appendBlockHead(to []byte, length int) []byte {
	to = append(to, 0)
	to = binary.LittleEndian.AppendUint16(to, uint16(length))
	return binary.LittleEndian.AppendUint16(to, ^uint16(length))
}

// storedPiece makes a piece of stored blocks.
func storedPiece(parts [][]byte, size int64) []byte {
	packed := make([]byte, 0, size+(size/blockLimit+1)*blockHead)
	left := int64(0) // of the block begun
	for _, part := range parts {
		for len(part) > 0 {
			if left == 0 {
				left = min(size, blockLimit)
				size -= left
				packed = appendBlockHead(packed, int(left))
			}
			n := min(int64(len(part)), left)
			packed = append(packed, part[:n]...)
			part = part[n:]
			left -= n
		}
	}
	return packed
}

// storedContent moves the content of stored blocks to the beginning of packed and
// returns it. If another block is among them, packed is left as it is.
func storedContent(packed []byte) (content []byte, ok bool) {
	for at := 0; at < len(packed); {
		length, ok := storedLength(packed[at:])
		if !ok {
			return nil, false
		}
		at += blockHead + length
	}
	content = packed[:0]
	for at := 0; at < len(packed); {
		length, _ := storedLength(packed[at:]) // what was moved ends before it
		content = append(content, packed[at+blockHead:at+blockHead+length]...)
		at += blockHead + length
	}
	return content, true
}

// storedLength returns the length of the stored block that b begins with.
func storedLength(b []byte) (length int, ok bool) {
	if len(b) < blockHead || b[0] != 0 {
		return 0, false
	}
	length = int(binary.LittleEndian.Uint16(b[1:]))
	return length, binary.LittleEndian.Uint16(b[3:]) == ^uint16(length) && blockHead+length <= len(b)
}

// member follows the checksum and length of a gzip member as it is put together.
type member struct {
	sum  uint32
	size int64
}

func (m *member) text(text string) {
	m.sum = crc32.Update(m.sum, crc32.IEEETable, []byte(text))
	m.size += int64(len(text))
}

func (m *member) piece(sum uint32, size int64) {
	m.sum = combineSums(m.sum, sum, size)
	m.size += size
}

// tail returns what ends the member.
func (m *member) tail() []byte {
	tail := make([]byte, 8)
	binary.LittleEndian.PutUint32(tail, m.sum)
	binary.LittleEndian.PutUint32(tail[4:], uint32(m.size))
	return tail
}

// combineSums returns the CRC-32 of two texts one after the other from theirs and
// the second one's length. A CRC is linear: appending n zero bytes multiplies it
// with a matrix over two elements, which is squared to have it for any n.
func combineSums(first, second uint32, length int64) uint32 {
	if length <= 0 {
		return first
	}
	var odd, even matrix
	odd[0] = crc32.IEEE // one zero bit
	for i := 1; i < 32; i++ {
		odd[i] = 1 << (i - 1)
	}
	even.square(&odd) // two
	odd.square(&even) // four
	for {
		even.square(&odd) // eight bits at first: one byte
		if length&1 != 0 {
			first = even.times(first)
		}
		if length >>= 1; length == 0 {
			break
		}
		odd.square(&even)
		if length&1 != 0 {
			first = odd.times(first)
		}
		if length >>= 1; length == 0 {
			break
		}
	}
	return first ^ second
}

// matrix is one of 32 by 32 bits, by columns.
type matrix [32]uint32

func (m *matrix) times(v uint32) uint32 {
	var product uint32
	for i := 0; v != 0; i, v = i+1, v>>1 {
		if v&1 != 0 {
			product ^= m[i]
		}
	}
	return product
}

func (m *matrix) square(of *matrix) {
	for i := range m {
		m[i] = of.times(of[i])
	}
}
