package tracking

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
)

// The framing of a .wandb file: LevelDB's log format with a head of seven bytes that
// counts as part of the first block, and the plain CRC-32 of IEEE over type and data.
const (
	wandbBlock  = 32 << 10
	wandbHeader = 7 // checksum 4, length 2, type 1; the file's head is as long
)

// Types of a physical record: a whole record, or a piece of one.
const (
	wandbFull = iota + 1
	wandbFirst
	wandbMiddle
	wandbLast
)

// wandbHead begins every file: the identifier, a magic number and version 0.
func wandbHead() []byte { return []byte{':', 'W', '&', 'B', 0xE1, 0xBE, 0} }

// wandbLog appends records to a .wandb file.
type wandbLog struct {
	f      *os.File
	offset int64 // of the end of the last whole record
	broken error // a write that could not be taken back
}

// createWandbLog makes a new file; one that exists is an error.
func createWandbLog(path string) (*wandbLog, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	if _, err := f.Write(wandbHead()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &wandbLog{f: f, offset: wandbHeader}, nil
}

// append writes records with a single write, so that a killed process leaves at most
// the last of them in part, which readers stop at.
func (l *wandbLog) append(records ...[]byte) error {
	if l.broken != nil {
		return l.broken
	}
	var buf []byte
	for _, r := range records {
		buf = appendWandbFrame(buf, l.offset+int64(len(buf)), r)
	}
	_, err := l.f.WriteAt(buf, l.offset)
	if err != nil {
		err = fmt.Errorf("write %s: %w", l.f.Name(), err)
		if cut := l.f.Truncate(l.offset); cut != nil {
			l.broken = errors.Join(err, cut)
		}
		return err
	}
	l.offset += int64(len(buf))
	return nil
}

// appendWandbFrame appends a record as it stands at an offset of the file, in pieces
// where it does not fit into what is left of a block.
func appendWandbFrame(dst []byte, offset int64, record []byte) []byte {
	for first := true; ; first = false {
		room := wandbBlock - int(offset%wandbBlock)
		if room < wandbHeader {
			dst = append(dst, make([]byte, room)...)
			offset += int64(room)
			room = wandbBlock
		}
		piece := record[:min(len(record), room-wandbHeader)]
		record = record[len(piece):]
		kind := byte(wandbMiddle)
		switch {
		case first && len(record) == 0:
			kind = wandbFull
		case first:
			kind = wandbFirst
		case len(record) == 0:
			kind = wandbLast
		}
		sum := crc32.Update(crc32.ChecksumIEEE([]byte{kind}), crc32.IEEETable, piece)
		dst = binary.LittleEndian.AppendUint32(dst, sum)
		dst = binary.LittleEndian.AppendUint16(dst, uint16(len(piece)))
		dst = append(append(dst, kind), piece...)
		offset += wandbHeader + int64(len(piece))
		if kind == wandbFull || kind == wandbLast {
			return dst
		}
	}
}

func (l *wandbLog) close() error { return errors.Join(l.broken, l.f.Sync(), l.f.Close()) }
