package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hermes-env/hermes-env/trajectories"
	"github.com/hermes-env/hermes-env/trajectories/convert"
)

// cardMark is in every card this program writes, so that one a person wrote is
// never replaced.
const cardMark = "written by hermes-env"

// writeCard writes the dataset card of a run: what makes a loader give the columns
// of trajectories.jsonl the right types.
func writeCard(store *trajectories.Run) error {
	path := filepath.Join(store.Dir(), "README.md")
	old, err := os.ReadFile(path)
	if err == nil && !bytes.Contains(old, []byte(cardMark)) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write the dataset card: %w", err)
	}
	rows, size, err := countLines(filepath.Join(store.Dir(), "trajectories.jsonl"))
	if err != nil {
		return fmt.Errorf("write the dataset card: %w", err)
	}
	card := convert.RunCard(store.Manifest(), filepath.Base(store.Dir()), Version(), rows, size)
	temporary := path + ".tmp"
	if err := os.WriteFile(temporary, []byte(card.Text()), 0o644); err != nil {
		return fmt.Errorf("write the dataset card: %w", err)
	}
	return os.Rename(temporary, path)
}

// countLines returns the number of lines of a file and its size in bytes; a file
// that is missing has none.
func countLines(path string) (lines, size int64, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	in, buf := bufio.NewReader(f), make([]byte, 256<<10)
	for {
		n, err := in.Read(buf)
		lines += int64(bytes.Count(buf[:n], []byte{'\n'}))
		size += int64(n)
		if errors.Is(err, io.EOF) {
			return lines, size, nil
		}
		if err != nil {
			return 0, 0, err
		}
	}
}
