package prompts

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// skippedFile lists the rows left out, in the run directory.
const skippedFile = "skipped_rows.jsonl"

// maxSkippedListed bounds that list; further rows are only counted.
const maxSkippedListed = 10_000

// skippedRows counts the rows left out in the latest pass over the dataset, and keeps why.
type skippedRows struct {
	mu    sync.Mutex
	dir   string // run directory; "" until known
	count int
	lines []skippedRow
}

type skippedRow struct {
	file      string
	line, row int64
	reason    string
}

// begin forgets what an earlier pass left out.
func (s *skippedRows) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count, s.lines = 0, nil
}

func (s *skippedRows) add(file string, line, row int64, reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count++; len(s.lines) < maxSkippedListed {
		s.lines = append(s.lines, skippedRow{file, line, row, reason.Error()})
	}
}

func (s *skippedRows) useDir(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dir = dir
}

// total returns how many rows were left out and the reason of the first.
func (s *skippedRows) total() (count int, first string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lines) > 0 {
		first = s.lines[0].text()
	}
	return s.count, first
}

func (r skippedRow) text() string {
	place := fmt.Sprintf("row %d", r.row)
	if r.line > 0 {
		place = fmt.Sprintf("line %d", r.line)
	}
	return fmt.Sprintf("%s, %s: %s", r.file, place, r.reason)
}

// write puts the list into the run directory, in place of an earlier one.
func (s *skippedRows) write() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir == "" || s.count == 0 {
		return nil
	}
	file, err := os.Create(filepath.Join(s.dir, skippedFile))
	if err != nil {
		return fmt.Errorf("list the rows left out: %w", err)
	}
	w := bufio.NewWriter(file)
	for _, r := range s.lines {
		line := chat.AppendString([]byte(`{"file":`), r.file)
		if r.line > 0 {
			line = strconv.AppendInt(append(line, `,"line":`...), r.line, 10)
		}
		line = strconv.AppendInt(append(line, `,"row":`...), r.row, 10)
		line = chat.AppendString(append(line, `,"reason":`...), r.reason)
		_, _ = w.Write(append(line, "}\n"...)) // Flush says what went wrong
	}
	err = w.Flush()
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("list the rows left out: %w", err)
	}
	return nil
}
