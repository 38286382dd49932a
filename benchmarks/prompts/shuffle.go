package prompts

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"iter"
	"os"
	"slices"

	"github.com/hermes-env/hermes-env/env/dataset"
)

// spooled is where a row lies in the temporary file.
type spooled struct {
	rank     [16]byte // what decides its place
	position int64
	offset   int64
	length   int32
	key      int32 // length of the key, which comes first
}

// shuffled yields rows in the order of a digest of the seed and their keys: the same rows come in the same order wherever they
// stood, and added rows don't disturb the order of the others. The rows wait in a temporary file, so that memory holds about
// 50 bytes of each.
func shuffled(ctx context.Context, rows iter.Seq2[dataset.KeyedRow, error], seed int64) iter.Seq2[dataset.KeyedRow, error] {
	return func(yield func(dataset.KeyedRow, error) bool) {
		file, err := os.CreateTemp("", "hermes-env-shuffle-*")
		if err != nil {
			yield(dataset.KeyedRow{}, fmt.Errorf("make a file to shuffle the rows in: %w", err))
			return
		}
		defer os.Remove(file.Name())
		defer file.Close()
		// Where the system allows it the file goes now, so that nothing is left behind by a killed process.
		_ = os.Remove(file.Name())
		index, err := spool(file, rows, seed)
		if err != nil {
			yield(dataset.KeyedRow{}, err)
			return
		}
		slices.SortFunc(index, func(a, b spooled) int {
			return cmp.Or(bytes.Compare(a.rank[:], b.rank[:]), cmp.Compare(a.position, b.position))
		})
		for _, at := range index {
			if ctx.Err() != nil {
				yield(dataset.KeyedRow{}, context.Cause(ctx))
				return
			}
			text := make([]byte, at.length)
			if _, err := file.ReadAt(text, at.offset); err != nil {
				yield(dataset.KeyedRow{}, fmt.Errorf("read the shuffled rows: %w", err))
				return
			}
			row := dataset.KeyedRow{Row: dataset.Row{Position: at.position, Data: text[at.key:]}, Key: string(text[:at.key])}
			if !yield(row, nil) {
				return
			}
		}
	}
}

func spool(file *os.File, rows iter.Seq2[dataset.KeyedRow, error], seed int64) ([]spooled, error) {
	var index []spooled
	var offset int64
	var buffer []byte
	flush := func() error {
		if _, err := file.Write(buffer); err != nil {
			return fmt.Errorf("write the rows to shuffle: %w", err)
		}
		buffer = buffer[:0]
		return nil
	}
	prefix := binary.BigEndian.AppendUint64(nil, uint64(seed))
	for row, err := range rows {
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(append(prefix[:8:8], row.Key...))
		length := len(row.Key) + len(row.Data)
		index = append(index, spooled{[16]byte(sum[:16]), row.Position, offset, int32(length), int32(len(row.Key))})
		buffer = append(append(buffer, row.Key...), row.Data...)
		if offset += int64(length); len(buffer) > 1<<20 {
			if err := flush(); err != nil {
				return nil, err
			}
		}
	}
	return index, flush()
}
