package batch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"

	"github.com/hermes-env/hermes-env/trajectories"
)

// Prompts is a file of prompts, one JSON object per line. It keeps some 60 bytes of every
// row in memory, and reads the texts when they are needed.
type Prompts struct {
	file string
	max  int
	rows []row

	// Odd counts prompts that are no texts; their JSON is what the model is told.
	Odd int
	// Skipped counts lines that can't be used.
	Skipped int
	// Images counts rows that name an image; FirstImage is the line of the first.
	Images, FirstImage int
	// DirsAlone counts rows with a working directory and no image.
	DirsAlone int
}

// ReadPrompts reads the file once. A line that can't be used is told to warn and left out;
// blank lines are ignored; max, when positive, is how many usable rows are taken. A file
// without a usable row is an error.
func ReadPrompts(ctx context.Context, file string, max int, warn func(string)) (*Prompts, error) {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("the dataset file %s does not exist", file)
	case err != nil:
		return nil, fmt.Errorf("read the dataset file: %w", err)
	case info.IsDir():
		return nil, fmt.Errorf("the dataset file %s is a directory: give a JSONL file", file)
	}
	p := &Prompts{file: file, max: max}
	occurrences := make(map[[sha256.Size]byte]uint32)
	bad := func(line int, err error) {
		p.Skipped++
		warn(fmt.Sprintf("%s, line %d is left out: %v", file, line, err))
	}
	for entry, err := range p.read(ctx, bad) {
		if err != nil {
			return nil, err
		}
		digest := entry.digest()
		p.rows = append(p.rows, row{digest: digest, text: hashText(entry.text), occurrence: occurrences[digest]})
		occurrences[digest]++
		if entry.odd {
			p.Odd++
		}
		switch {
		case entry.image != "":
			if p.Images++; p.Images == 1 {
				p.FirstImage = entry.line
			}
		case entry.dir != "":
			p.DirsAlone++
		}
	}
	if len(p.rows) == 0 {
		return nil, fmt.Errorf(`the dataset file %s has no usable row: every line needs a JSON object with a "prompt"`, file)
	}
	return p, nil
}

// Len returns the number of usable rows.
func (p *Prompts) Len() int { return len(p.rows) }

var errStop = errors.New("enough rows")

// read yields the usable rows in their order and tells bad of the other lines.
func (p *Prompts) read(ctx context.Context, bad func(line int, err error)) iter.Seq2[prompt, error] {
	return func(yield func(prompt, error) bool) {
		n := 0
		err := trajectories.EachLineOf(p.file, func(line trajectories.Line) error {
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
			text := line.Text
			if line.Number == 1 {
				text = bytes.TrimPrefix(text, []byte("\ufeff"))
			}
			text = bytes.TrimSpace(text)
			if len(text) == 0 {
				return nil
			}
			entry, err := parseLine(text)
			if err != nil {
				bad(line.Number, err)
				return nil
			}
			entry.line = line.Number
			if !yield(entry, nil) {
				return errStop
			}
			if n++; n == p.max {
				return errStop
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			yield(prompt{}, fmt.Errorf("read the dataset file: %w", err))
		}
	}
}

func parseLine(text []byte) (prompt, error) {
	switch {
	case !json.Valid(text):
		return prompt{}, errors.New("it is not valid JSON")
	case text[0] != '{':
		return prompt{}, errors.New("it is not a JSON object")
	}
	return parsePrompt(text)
}
