package parquetrows

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// Limits of a page. What a page header states is believed only within them, because memory is taken accordingly.
const (
	maxPageBytes   = 1 << 30
	maxPageHeader  = 16 << 20
	maxPageEntries = 1 << 26
)

// pageSource gives the Parquet library the pages of a column chunk one after the other, checked and decompressed: the library
// takes LZ4 blocks for what an earlier page left in its buffer, and memory without bound for damaged ones.
type pageSource struct {
	ctx    context.Context
	file   io.ReaderAt
	offset int64 // of the next page in the file
	end    int64 // of the chunk
	codec  format.CompressionCodec
	leaf   *leaf
	packed *unpacker
	thrift thrift.CompactProtocol

	head    []byte // a window of the file at offset, for headers
	raw     []byte
	out     []byte
	pending []byte // of the current page, not yet read
	body    []byte // what comes after pending
	served  int64
}

// newPageSource takes a chunk's place from the footer.
func newPageSource(ctx context.Context, file io.ReaderAt, size int64, chunk *format.ColumnMetaData, leaf *leaf, u *unpacker) (*pageSource, error) {
	start := chunk.DataPageOffset
	if d := chunk.DictionaryPageOffset; d > 0 && d < start {
		start = d
	}
	if start < 4 || start > size || chunk.TotalCompressedSize < 0 || chunk.TotalCompressedSize > size-start {
		return nil, fmt.Errorf("%w: the Parquet file is damaged: the data of a column is said to be outside of the file", ErrFormat)
	}
	return &pageSource{ctx: ctx, file: file, offset: start, end: start + chunk.TotalCompressedSize, codec: chunk.Codec, leaf: leaf, packed: u}, nil
}

// ReadAt serves the bytes in order; the library asks for no others, unless a dictionary is not where it has to be.
func (s *pageSource) ReadAt(p []byte, off int64) (int, error) {
	if off != s.served {
		return 0, fmt.Errorf("%w: a page refers to a dictionary that isn't there", ErrFormat)
	}
	if len(s.pending) == 0 {
		s.pending, s.body = s.body, nil
	}
	if len(s.pending) == 0 {
		if err := s.page(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.pending)
	s.pending = s.pending[n:]
	s.served += int64(n)
	return n, nil
}

// page makes the next page pending.
func (s *pageSource) page() error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	for {
		if s.offset >= s.end {
			return io.EOF
		}
		header, err := s.header()
		if err != nil {
			return err
		}
		size := int64(header.CompressedPageSize)
		switch {
		case size < 0 || size > s.end-s.offset:
			return errors.New("a page reaches beyond its column")
		case header.UncompressedPageSize < 0 || int64(header.UncompressedPageSize) > maxPageBytes:
			return fmt.Errorf("a page of %d bytes; write the file with smaller pages", header.UncompressedPageSize)
		case entries(header) > maxPageEntries:
			return fmt.Errorf("a page of %d values; write the file with smaller pages", entries(header))
		case header.Type == format.IndexPage:
			s.offset += size
			continue
		}
		s.raw = resize(s.raw, int(size))
		if _, err := s.file.ReadAt(s.raw, s.offset); err != nil && (size > 0 || !errors.Is(err, io.EOF)) {
			return err
		}
		s.offset += size
		return s.unpack(header)
	}
}

// header reads the header at the offset and moves behind it.
func (s *pageSource) header() (*format.PageHeader, error) {
	for window := int64(512); ; window *= 8 {
		window = min(window, s.end-s.offset, maxPageHeader)
		s.head = resize(s.head, int(window))
		if _, err := s.file.ReadAt(s.head, s.offset); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		n, err := thriftLength(s.head)
		if errors.Is(err, errThriftShort) && window < min(s.end-s.offset, maxPageHeader) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read a page header: %w", err)
		}
		header := new(format.PageHeader)
		if err := thrift.Unmarshal(&s.thrift, s.head[:n], header); err != nil {
			return nil, fmt.Errorf("read a page header: %w", err)
		}
		s.offset += int64(n)
		return header, nil
	}
}

// entries is how many values, nulls included, a page is said to have; negative numbers count as too many.
func entries(h *format.PageHeader) int64 {
	var n int32
	switch {
	case h.DataPageHeader.Valid:
		n = h.DataPageHeader.V.NumValues
	case h.DataPageHeaderV2.Valid:
		n = h.DataPageHeaderV2.V.NumValues
	case h.DictionaryPageHeader.Valid:
		n = h.DictionaryPageHeader.V.NumValues
	}
	return int64(uint32(n))
}

// unpack makes the page in raw pending as an uncompressed one.
func (s *pageSource) unpack(header *format.PageHeader) error {
	if header.CRC != 0 && uint32(header.CRC) != crc32.ChecksumIEEE(s.raw) {
		return errors.New("a page's checksum is wrong; get the file again")
	}
	header.CRC, header.DataPageHeader.V.Statistics, header.DataPageHeaderV2.V.Statistics = 0, format.Statistics{}, format.Statistics{}
	plain := s.raw
	if s.codec != format.Uncompressed {
		// Version 2 leaves the levels uncompressed, and says whether the values are.
		levels, packed := 0, true
		if v2 := &header.DataPageHeaderV2; v2.Valid {
			rep, def := int64(v2.V.RepetitionLevelsByteLength), int64(v2.V.DefinitionLevelsByteLength)
			if rep < 0 || def < 0 || rep+def > int64(len(s.raw)) || rep+def > int64(header.UncompressedPageSize) {
				return errors.New("a page's levels reach beyond it")
			}
			levels = int(rep + def)
			packed = !v2.V.IsCompressed.Valid || v2.V.IsCompressed.V
			v2.V.IsCompressed = thrift.New(false)
		}
		if packed && (levels < len(s.raw) || levels < int(header.UncompressedPageSize)) {
			s.out = resize(s.out, int(header.UncompressedPageSize))
			copy(s.out, s.raw[:levels])
			if err := s.packed.unpack(s.codec, s.out[levels:], s.raw[levels:]); err != nil {
				return fmt.Errorf("unpack a page (%s): %w", s.codec, err)
			}
			plain = s.out
		}
	}
	if err := s.checkRuns(header, plain); err != nil {
		return err
	}
	header.CompressedPageSize, header.UncompressedPageSize = int32(len(plain)), int32(len(plain))
	head, err := thrift.Marshal(&s.thrift, header)
	if err != nil {
		return fmt.Errorf("rewrite a page header: %w", err)
	}
	s.pending, s.body = head, plain
	return nil
}

func resize(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}

var (
	errThriftShort = fmt.Errorf("it is cut short: %w", io.ErrUnexpectedEOF)
	errThrift      = errors.New("it is damaged")
)

// thriftLength measures the structure at the start of b, in Thrift's compact protocol. What it has measured can be decoded
// without believing any length: there are as many list elements and bytes as are announced.
func thriftLength(b []byte) (int, error) {
	w := thriftWalk{b: b}
	if err := w.structure(0); err != nil {
		return 0, err
	}
	return w.pos, nil
}

type thriftWalk struct {
	b   []byte
	pos int
}

func (w *thriftWalk) byte() (byte, error) {
	if w.pos >= len(w.b) {
		return 0, errThriftShort
	}
	w.pos++
	return w.b[w.pos-1], nil
}

func (w *thriftWalk) varint() (uint64, error) {
	var v uint64
	for shift := 0; shift < 70; shift += 7 {
		c, err := w.byte()
		if err != nil {
			return 0, err
		}
		v |= uint64(c&0x7F) << shift
		if c < 0x80 {
			return v, nil
		}
	}
	return 0, errThrift
}

func (w *thriftWalk) skip(n uint64) error {
	if n > uint64(len(w.b)-w.pos) {
		return errThriftShort
	}
	w.pos += int(n)
	return nil
}

func (w *thriftWalk) structure(depth int) error {
	for {
		c, err := w.byte()
		if err != nil || c == 0 {
			return err
		}
		if c>>4 == 0 {
			if _, err := w.varint(); err != nil {
				return err
			}
		}
		if kind := c & 15; kind != 1 && kind != 2 { // booleans are in the field's own byte
			if err := w.value(kind, depth+1); err != nil {
				return err
			}
		}
	}
}

func (w *thriftWalk) value(kind byte, depth int) error {
	const maxDepth = 32
	if depth > maxDepth {
		return errThrift
	}
	switch kind {
	case 1, 2, 3:
		return w.skip(1)
	case 4, 5, 6:
		_, err := w.varint()
		return err
	case 7:
		return w.skip(8)
	case 8:
		n, err := w.varint()
		if err != nil {
			return err
		}
		return w.skip(n)
	case 9, 10:
		c, err := w.byte()
		if err != nil {
			return err
		}
		n := uint64(c >> 4)
		if n == 15 {
			if n, err = w.varint(); err != nil {
				return err
			}
		}
		return w.values(n, c&15, 0, depth)
	case 11:
		n, err := w.varint()
		if err != nil || n == 0 {
			return err
		}
		c, err := w.byte()
		if err != nil {
			return err
		}
		return w.values(n, c>>4, c&15, depth)
	case 12:
		return w.structure(depth)
	}
	return errThrift
}

// values takes n elements, or n pairs where there is a second kind; each has at least one byte.
func (w *thriftWalk) values(n uint64, kind, second byte, depth int) error {
	for ; n > 0; n-- {
		if err := w.value(kind, depth+1); err != nil {
			return err
		}
		if second != 0 {
			if err := w.value(second, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}
