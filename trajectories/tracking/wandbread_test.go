package tracking

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
)

// The reader here is written from the description of the format, not from the writer:
// blocks of 32 KiB; checksum, length and type before each piece; zeros where a header
// does not fit any more.

var errTorn = errors.New("torn")

// readFrames returns the records of a .wandb file, and errTorn with those before the
// place where it breaks off.
func readFrames(data []byte) ([][]byte, error) {
	if len(data) < 7 || string(data[:4]) != ":W&B" || binary.LittleEndian.Uint16(data[4:]) != 0xBEE1 || data[6] != 0 {
		return nil, errors.New("no head")
	}
	var records [][]byte
	var record []byte
	inside := false
	for at := 7; at < len(data); {
		if left := 32768 - at%32768; left < 7 {
			for _, b := range data[at:min(len(data), at+left)] {
				if b != 0 {
					return records, errors.New("padding is not zero")
				}
			}
			at += left
			continue
		}
		if at+7 > len(data) {
			return records, errTorn
		}
		sum, length, kind := binary.LittleEndian.Uint32(data[at:]), int(binary.LittleEndian.Uint16(data[at+4:])), data[at+6]
		if at+7+length > len(data) {
			return records, errTorn
		}
		if at%32768+7+length > 32768 {
			return records, errors.New("a piece crosses the end of its block")
		}
		if crc32.ChecksumIEEE(data[at+6:at+7+length]) != sum {
			return records, errors.New("wrong checksum")
		}
		piece := data[at+7 : at+7+length]
		at += 7 + length
		switch {
		case kind == 1 && !inside:
			records = append(records, piece)
		case kind == 2 && !inside:
			record, inside = append([]byte(nil), piece...), true
		case kind == 3 && inside:
			record = append(record, piece...)
		case kind == 4 && inside:
			records, inside = append(records, append(record, piece...)), false
		default:
			return records, errors.New("pieces in a wrong order")
		}
	}
	if inside {
		return records, errTorn
	}
	return records, nil
}

// field is one field of a message: a number, or bytes.
type field struct {
	num    protowire.Number
	number uint64
	bytes  []byte
}

func fields(t require.TestingT, message []byte) []field {
	var all []field
	for len(message) > 0 {
		num, kind, n := protowire.ConsumeTag(message)
		require.NoError(t, protowire.ParseError(n))
		message = message[n:]
		f := field{num: num}
		switch kind {
		case protowire.VarintType:
			f.number, n = protowire.ConsumeVarint(message)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(message)
		default:
			require.FailNow(t, "unexpected wire type", "%d of field %d", kind, num)
		}
		require.NoError(t, protowire.ParseError(n))
		message = message[n:]
		all = append(all, f)
	}
	return all
}

// only returns the bytes of the single field with a number.
func only(t require.TestingT, message []byte, num protowire.Number) []byte {
	var found [][]byte
	for _, f := range fields(t, message) {
		if f.num == num {
			found = append(found, f.bytes)
		}
	}
	require.Len(t, found, 1, "fields %d", num)
	return found[0]
}

// record is a decoded record: its number, the field of its payload and the payload.
type record struct {
	num     uint64
	kind    protowire.Number
	payload []byte
}

func readWandb(t require.TestingT, path string) []record {
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	frames, err := readFrames(data)
	require.NoError(t, err)
	var records []record
	for _, frame := range frames {
		all := fields(t, frame)
		require.Len(t, all, 2)
		require.EqualValues(t, 1, all[0].num)
		records = append(records, record{all[0].number, all[1].num, all[1].bytes})
	}
	return records
}

// items decodes the items of a history, summary or configuration by their key.
func items(t require.TestingT, message []byte, num protowire.Number) map[string]string {
	got := make(map[string]string)
	for _, f := range fields(t, message) {
		if f.num == num {
			got[string(only(t, f.bytes, 2))] = string(only(t, f.bytes, 16))
		}
	}
	return got
}

func kinds(records []record) []int {
	var k []int
	for _, r := range records {
		k = append(k, int(r.kind))
	}
	return k
}

func TestTheReaderOfTheTestsRefusesWhatIsDamaged(t *testing.T) {
	good := appendWandbFrame(wandbHead(), 7, []byte("hello"))
	_, err := readFrames(good)
	require.NoError(t, err)
	for i := 7; i < len(good); i++ {
		bad := append([]byte(nil), good...)
		bad[i] ^= 1
		_, err := readFrames(bad)
		require.Error(t, err, "byte %d", i)
	}
}
