package journal

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// The head of a record, all numbers little endian: magic, kind, three bytes of
// zero, length of meta, length of data, the offset up to which the file was synced
// when the record was made, and the CRC-32C of all that follows the magic but
// itself. Meta and data follow.
const (
	magic    = "hAJ1"
	headSize = 4 + 4 + 4 + 8 + 8 + 4

	maxMeta = 1 << 30
	maxData = 1 << 40
)

// kind tells the first record of a file from the others.
type kind byte

const (
	kindSnapshot kind = 1
	kindEvent    kind = 2
)

// castagnoli returns the table of CRC-32C, which processors compute.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// Checksum is the CRC-32C of data, as records have it.
func Checksum(data []byte) uint32 { return crc32.Checksum(data, castagnoli()) }

// record is one record to write.
type record struct {
	kind kind
	meta []byte
	data [][]byte
}

func (r *record) dataSize() int64 {
	var n int64
	for _, d := range r.data {
		n += int64(len(d))
	}
	return n
}

func (r *record) size() int64 { return headSize + int64(len(r.meta)) + r.dataSize() }

// head returns the encoded head.
func (r *record) head(synced int64) []byte {
	head := make([]byte, headSize)
	copy(head, magic)
	head[4] = byte(r.kind)
	binary.LittleEndian.PutUint32(head[8:], uint32(len(r.meta)))
	binary.LittleEndian.PutUint64(head[12:], uint64(r.dataSize()))
	binary.LittleEndian.PutUint64(head[20:], uint64(synced))
	table := castagnoli()
	sum := crc32.Checksum(head[4:28], table)
	sum = crc32.Update(sum, table, r.meta)
	for _, d := range r.data {
		sum = crc32.Update(sum, table, d)
	}
	binary.LittleEndian.PutUint32(head[28:], sum)
	return head
}

// parsed is a record that was found in a file.
type parsed struct {
	kind   kind
	at     int64 // of its head
	meta   []byte
	dataAt int64
	end    int64
	synced int64
}

// errNoRecord says that no whole record begins at an offset.
var errNoRecord = errors.New("no record")

// parse reads the record that begins at an offset of a file's content.
func parse(content []byte, at int64) (parsed, error) {
	if int64(len(content))-at < headSize || string(content[at:at+4]) != magic {
		return parsed{}, errNoRecord
	}
	head := content[at : at+headSize]
	metaLength := int64(binary.LittleEndian.Uint32(head[8:]))
	dataLength := binary.LittleEndian.Uint64(head[12:])
	if metaLength > maxMeta || dataLength > maxData {
		return parsed{}, errNoRecord
	}
	end := at + headSize + metaLength + int64(dataLength)
	if end > int64(len(content)) {
		return parsed{}, errNoRecord
	}
	table := castagnoli()
	sum := crc32.Checksum(head[4:28], table)
	sum = crc32.Update(sum, table, content[at+headSize:end])
	if sum != binary.LittleEndian.Uint32(head[28:]) {
		return parsed{}, errNoRecord
	}
	k := kind(head[4])
	if k != kindSnapshot && k != kindEvent {
		return parsed{}, errNoRecord
	}
	return parsed{kind: k, at: at, meta: content[at+headSize : at+headSize+metaLength], dataAt: at + headSize + metaLength,
		end: end, synced: int64(binary.LittleEndian.Uint64(head[20:]))}, nil
}
