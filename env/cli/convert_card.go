package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hermes-env/hermes-env/internal/atomicfile"
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
	lines, err := describeTrajectories(filepath.Join(store.Dir(), "trajectories.jsonl"))
	if err != nil {
		return fmt.Errorf("write the dataset card: %w", err)
	}
	card := convert.RunCard(store.Manifest(), filepath.Base(store.Dir()), Version(), lines)
	if err := atomicfile.Write(path, []byte(card.Text())); err != nil {
		return fmt.Errorf("write the dataset card: %w", err)
	}
	return nil
}

// describeTrajectories reads a file for its card; one that is missing is empty.
func describeTrajectories(path string) (lines convert.Trajectories, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return lines, nil
	}
	if err != nil {
		return lines, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return convert.DescribeTrajectories(f)
}
