package validation

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/internal/atomicfile"
)

// FileName is the name of files of verdicts.
const FileName = "validations.jsonl"

// maxLine bounds what is read of one line, in bytes; a verdict is a few kilobytes.
const maxLine = 1 << 20

// DefaultPath returns where the verdicts of all runs of a user are kept:
// $XDG_DATA_HOME/hermes-env or ~/.local/share/hermes-env. Without a home directory
// there is no such place and ok is false.
func DefaultPath(getenv func(string) (string, bool)) (path string, ok bool) {
	if getenv == nil {
		return "", false
	}
	base, _ := getenv("XDG_DATA_HOME")
	if !filepath.IsAbs(base) { // the specification has relative ones ignored
		home, _ := getenv("HOME")
		if !filepath.IsAbs(home) {
			return "", false
		}
		base = filepath.Join(home, ".local", "share")
	}
	return filepath.Join(base, "hermes-env", FileName), true
}

// Append adds verdicts to a file, which is created when missing, with a single write:
// several processes may append at once. What a killed process left of a line is
// closed off first.
func Append(path string, verdicts ...Verdict) (err error) {
	if len(verdicts) == 0 {
		return nil
	}
	var lines bytes.Buffer
	if err := encode(&lines, verdicts); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("keep verdicts: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("keep verdicts: %w", err)
	}
	defer func() {
		if closing := f.Close(); err == nil && closing != nil {
			err = fmt.Errorf("keep verdicts in %s: %w", path, closing)
		}
	}()
	text := lines.Bytes()
	if torn, err := tornLine(f); err != nil {
		return fmt.Errorf("keep verdicts in %s: %w", path, err)
	} else if torn {
		text = append([]byte{'\n'}, text...)
	}
	if _, err := f.Write(text); err != nil {
		return fmt.Errorf("keep verdicts in %s: %w", path, err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("keep verdicts in %s: %w", path, err)
	}
	return nil
}

// tornLine says whether a file ends in the middle of a line.
func tornLine(f *os.File) (bool, error) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return false, err
	}
	var last [1]byte
	if _, err := f.ReadAt(last[:], info.Size()-1); err != nil {
		return false, err
	}
	return last[0] != '\n', nil
}

// Write replaces a file by one with these verdicts.
func Write(path string, verdicts []Verdict) error {
	var lines bytes.Buffer
	if err := encode(&lines, verdicts); err != nil {
		return err
	}
	if err := atomicfile.Write(path, lines.Bytes()); err != nil {
		return fmt.Errorf("write verdicts: %w", err)
	}
	return nil
}

func encode(b *bytes.Buffer, verdicts []Verdict) error {
	for _, v := range verdicts {
		if v.Reasons == nil {
			v.Reasons = []string{}
		}
		line, err := chat.Marshal(v)
		if err != nil {
			return fmt.Errorf("encode the verdict on item %q: %w", v.ItemID, err)
		}
		b.Write(line)
		b.WriteByte('\n')
	}
	return nil
}

// Known are verdicts of one environment by item digest.
type Known map[string]Verdict

// Read returns the newest verdict on each item of an environment that a file holds,
// and how many lines of it are no verdicts. A missing file holds none.
func Read(path, environment string) (Known, int, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Known{}, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read verdicts: %w", err)
	}
	defer f.Close()
	known, damaged, err := parse(f, environment)
	if err != nil {
		return nil, damaged, fmt.Errorf("read verdicts from %s: %w", path, err)
	}
	return known, damaged, nil
}

func parse(in io.Reader, environment string) (Known, int, error) {
	known, damaged := Known{}, 0
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		line, long, err := readLine(r)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, damaged, err
		}
		if text := bytes.TrimSpace(line); long || len(text) > 0 {
			var v Verdict
			if long || json.Unmarshal(text, &v) != nil || v.check() != nil {
				damaged++
			} else if old, ok := known[v.ItemDigest]; v.Environment == environment && (!ok || !v.At.Before(old.At)) {
				known[v.ItemDigest] = v
			}
		}
		if err != nil {
			return known, damaged, nil
		}
	}
}

// readLine returns the next line without holding more than maxLine of it; long says
// that there was more.
func readLine(r *bufio.Reader) (line []byte, long bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if !long {
			line = append(line, part...)
		}
		if len(line) > maxLine {
			line, long = nil, true
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return line, long, err
	}
}
