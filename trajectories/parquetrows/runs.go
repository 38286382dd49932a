package parquetrows

import (
	"encoding/binary"
	"errors"
	"math/bits"

	"github.com/parquet-go/parquet-go/format"
)

// errRuns is the error for a page whose runs are longer than the page.
var errRuns = errors.New("a page holds more values than it states")

// plainDictionary is the older number of RLE_DICTIONARY, which files still have.
const plainDictionary format.Encoding = 2

// checkRuns looks at the run lengths of a page before it is decoded. Five bytes can ask for two thousand million equal values,
// and the library gives them, however few the page should have.
func (s *pageSource) checkRuns(header *format.PageHeader, body []byte) error {
	n := entries(header)
	var encoding format.Encoding
	switch {
	case header.Type == format.DataPageV2 && header.DataPageHeaderV2.Valid:
		v2 := &header.DataPageHeaderV2.V
		encoding = v2.Encoding
		for _, level := range []struct {
			length int32
			max    int
		}{{v2.RepetitionLevelsByteLength, s.leaf.maxRep}, {v2.DefinitionLevelsByteLength, s.leaf.maxDef}} {
			if level.length < 0 || int(level.length) > len(body) {
				return errors.New("a page's levels reach beyond it")
			}
			if level.max > 0 {
				if err := checkHybrid(body[:level.length], bits.Len(uint(level.max)), n); err != nil {
					return err
				}
			}
			body = body[level.length:]
		}
	case header.Type == format.DataPage && header.DataPageHeader.Valid:
		v1 := &header.DataPageHeader.V
		encoding = v1.Encoding
		for _, level := range []struct {
			encoding format.Encoding
			max      int
		}{{v1.RepetitionLevelEncoding, s.leaf.maxRep}, {v1.DefinitionLevelEncoding, s.leaf.maxDef}} {
			if level.max == 0 {
				continue
			}
			if level.encoding != format.RLE {
				return nil // packed bits take as many bytes as there are values
			}
			runs, rest, ok := prefixed(body)
			if !ok {
				return errors.New("a page's levels reach beyond it")
			}
			if err := checkHybrid(runs, bits.Len(uint(level.max)), n); err != nil {
				return err
			}
			body = rest
		}
	default:
		return nil
	}
	switch encoding {
	case plainDictionary, format.RLEDictionary:
		if len(body) == 0 {
			return nil
		}
		return checkHybrid(body[1:], int(body[0]), n)
	case format.RLE:
		runs, _, ok := prefixed(body)
		if !ok {
			return errors.New("a page's values reach beyond it")
		}
		return checkHybrid(runs, 1, n)
	}
	return nil
}

// prefixed takes the bytes behind their length of four bytes.
func prefixed(body []byte) (runs, rest []byte, ok bool) {
	if len(body) < 4 {
		return nil, nil, false
	}
	length := uint64(binary.LittleEndian.Uint32(body))
	if length > uint64(len(body)-4) {
		return nil, nil, false
	}
	return body[4 : 4+length], body[4+length:], true
}

// checkHybrid adds up the values of a sequence of runs and packed groups, the format's RLE encoding, of the given bit width.
func checkHybrid(data []byte, width int, n int64) error {
	const slack = 1 << 16 // groups are of eight, and some writers fill up
	if width > 32 {
		return errRuns
	}
	total := uint64(0)
	for len(data) > 0 {
		head, size := binary.Uvarint(data)
		if size <= 0 || head > 1<<33 {
			return errRuns
		}
		data = data[size:]
		count, skip := head>>1, uint64(width+7)/8
		if head&1 == 1 {
			count, skip = count*8, count*uint64(width)
		}
		if total += count; total > uint64(n)+slack {
			return errRuns
		}
		data = data[min(skip, uint64(len(data))):]
	}
	return nil
}
