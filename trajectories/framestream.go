package trajectories

import (
	"bufio"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
)

// frameStream reads the frames of an index file one after the other.
type frameStream struct {
	file     *os.File
	in       *bufio.Reader
	unpacked *zstd.Decoder // of a compressed file, else nil
	buf      []byte
	texts    map[string]string
	end      int64 // of the last frame that was read, in the file
	torn     bool  // there is more than the frames
}

// maxFrame bounds what is believed of the size of a frame: a commit has fewer lines.
const maxFrame = 256 << 20

// openFrames opens the index file of the run; nil when there is none of this version.
func (r *Run) openFrames() *frameStream {
	f, err := os.Open(r.path(indexFile))
	if err != nil {
		return nil
	}
	s := newFrameStream(f)
	if s == nil {
		_ = f.Close()
	}
	return s
}

func newFrameStream(f *os.File) *frameStream {
	s := &frameStream{file: f, in: bufio.NewReaderSize(f, 256<<10), texts: map[string]string{}, end: int64(len(indexHeader))}
	if magic, err := s.in.Peek(len(zstdMagic)); err == nil && string(magic) == zstdMagic {
		unpacked, err := zstd.NewReader(s.in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxFrame))
		if err != nil {
			return nil
		}
		s.unpacked, s.in = unpacked, bufio.NewReaderSize(unpacked, 256<<10)
	}
	header := make([]byte, len(indexHeader))
	if _, err := io.ReadFull(s.in, header); err != nil || string(header) != indexHeader {
		s.release()
		return nil
	}
	return s
}

func (s *frameStream) close() {
	if s != nil {
		s.release()
		_ = s.file.Close() // only read
	}
}

// release gives back what decompression holds.
func (s *frameStream) release() {
	if s.unpacked != nil {
		s.unpacked.Close()
	}
}

// zstdMagic begins what zstd compressed, as the index files of segments are; earlier versions
// wrote those without.
const zstdMagic = "\x28\xb5\x2f\xfd"

// content returns the content of the next frame, valid until the following call. The
// error is errFrame at the first that is not whole.
func (s *frameStream) content() ([]byte, error) {
	size, err := binary.ReadUvarint(s.in)
	s.torn = !errors.Is(err, io.EOF)
	if err != nil || size > maxFrame {
		return nil, errFrame
	}
	if uint64(cap(s.buf)) < size+4 {
		s.buf = make([]byte, size+4)
	}
	s.buf = s.buf[:size+4]
	if _, err := io.ReadFull(s.in, s.buf); err != nil {
		return nil, errFrame
	}
	content, sum := s.buf[:size], s.buf[size:]
	if binary.LittleEndian.Uint32(sum) != crc32.Checksum(content, castagnoli) {
		return nil, errFrame
	}
	var length [binary.MaxVarintLen64]byte
	s.end += int64(binary.PutUvarint(length[:], size)) + int64(size) + 4
	return content, nil
}

// next returns the next frame. The error is errFrame at the first that is not whole.
func (s *frameStream) next() (indexFrame, error) {
	content, err := s.content()
	if err != nil {
		return indexFrame{}, err
	}
	return parseFrame(content, s.texts)
}

// spans returns what the next frame says but its entries, and how many these are.
func (s *frameStream) spans() (f frameSpans, err error) {
	content, err := s.content()
	if err != nil {
		return f, err
	}
	return parseSpans(content)
}

// parse returns the entries of a frame.
func (s *frameStream) parse(content []byte) ([]Entry, error) {
	f, err := parseFrame(content, s.texts)
	return f.entries, err
}

func parseSpans(content []byte) (f frameSpans, err error) {
	r := frameReader{rest: content}
	f.rollouts, f.view = r.span(), r.span()
	f.entries = int(r.uvarint())
	if r.bad {
		return f, errFrame
	}
	return f, nil
}

// frameSpans is a frame without its entries.
type frameSpans struct {
	rollouts, view span
	entries        int
}
