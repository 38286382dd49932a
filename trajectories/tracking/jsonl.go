package tracking

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
)

// Names of the files a JSONL sink writes.
const (
	MetricsFile = "metrics.jsonl"
	TablesFile  = "tables.jsonl"
)

// JSONL writes figures to metrics.jsonl and tables to tables.jsonl in a directory, one
// object per log and per table. An existing file is gone on with.
type JSONL struct {
	now     func() time.Time
	metrics *lineFile
	tables  *lineFile // nil until there is a table
	dir     string
	first   int // step of the last log of an earlier session
	buf     []byte
}

// NewJSONL opens the files in an existing directory. now is the clock of the
// time stamps; nil is time.Now.
func NewJSONL(dir string, now func() time.Time) (*JSONL, error) {
	if now == nil {
		now = time.Now
	}
	metrics, err := openLines(filepath.Join(dir, MetricsFile))
	if err != nil {
		return nil, err
	}
	step, err := metrics.lastStep()
	if err != nil {
		return nil, errors.Join(err, metrics.close())
	}
	return &JSONL{now: now, metrics: metrics, dir: dir, first: step}, nil
}

// LastStep returns the step of the last log of earlier sessions, 0 without any.
func (j *JSONL) LastStep() int { return j.first }

// Log implements Sink.
func (j *JSONL) Log(step int, metrics []Metric, tables []Table) error {
	var errs []error
	if len(metrics) > 0 {
		j.buf = append(j.head(step), metricMembers(metrics)...)
		errs = append(errs, j.metrics.append(append(j.buf, "}\n"...)))
	}
	for _, t := range tables {
		if j.tables == nil {
			var err error
			if j.tables, err = openLines(filepath.Join(j.dir, TablesFile)); err != nil {
				return errors.Join(append(errs, err)...)
			}
		}
		j.buf = append(j.head(step), `,"name":`...)
		j.buf = chat.AppendString(j.buf, t.Name)
		j.buf = append(j.buf, ',')
		j.buf = appendTableMembers(j.buf, t)
		errs = append(errs, j.tables.append(append(j.buf, "}\n"...)))
	}
	return errors.Join(errs...)
}

// head begins an object with the step and the time, under the names a Weights & Biases
// history has for them.
func (j *JSONL) head(step int) []byte {
	buf := strconv.AppendInt(append(j.buf[:0], `{"_step":`...), int64(step), 10)
	buf = append(buf, `,"_timestamp":`...)
	return appendSeconds(buf, j.now())
}

// Close implements Sink.
func (j *JSONL) Close() error {
	err := j.metrics.close()
	if j.tables != nil {
		err = errors.Join(err, j.tables.close())
	}
	return err
}

func metricMembers(metrics []Metric) []byte {
	var buf []byte
	for _, m := range metrics {
		buf = append(buf, ',')
		buf = chat.AppendString(buf, m.Name)
		buf = append(buf, ':')
		buf = appendNumber(buf, m.Value)
	}
	return buf
}

// appendTableMembers writes "columns" and "data", which is what the file of a table in
// Weights & Biases holds.
func appendTableMembers(dst []byte, t Table) []byte {
	dst = append(dst, `"columns":[`...)
	for i, c := range t.Columns {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = chat.AppendString(dst, c)
	}
	dst = append(dst, `],"data":[`...)
	for i, row := range t.Rows {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '[')
		for k, cell := range row {
			if k > 0 {
				dst = append(dst, ',')
			}
			switch {
			case !cell.IsNumber:
				dst = chat.AppendString(dst, cell.Text)
			case math.IsNaN(cell.Number) || math.IsInf(cell.Number, 0):
				dst = append(dst, "null"...)
			default:
				dst = appendNumber(dst, cell.Number)
			}
		}
		dst = append(dst, ']')
	}
	return append(dst, ']')
}

func appendNumber(dst []byte, n float64) []byte { return strconv.AppendFloat(dst, n, 'g', -1, 64) }

// appendSeconds writes a time as Unix seconds with their fraction in full.
func appendSeconds(dst []byte, t time.Time) []byte {
	return fmt.Appendf(dst, "%d.%06d", t.Unix(), t.Nanosecond()/1000)
}

// lineFile is a file that lines are appended to, each with a single write.
type lineFile struct {
	f   *os.File
	end int64 // of the last whole line
}

// openLines opens a file for appending. A last line without its newline, which a killed
// process left, is cut off.
func openLines(path string) (*lineFile, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open %s for metrics: %w", path, err)
	}
	end, err := lastNewline(f)
	if err == nil {
		err = f.Truncate(end)
	}
	if err == nil {
		_, err = f.Seek(end, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("go on with %s: %w", path, err), f.Close())
	}
	return &lineFile{f: f, end: end}, nil
}

// lastNewline returns the offset after the last newline of a file.
func lastNewline(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	buf := make([]byte, 64<<10)
	for end := info.Size(); end > 0; {
		n := min(end, int64(len(buf)))
		if _, err := f.ReadAt(buf[:n], end-n); err != nil {
			return 0, err
		}
		for i := n - 1; i >= 0; i-- {
			if buf[i] == '\n' {
				return end - n + i + 1, nil
			}
		}
		end -= n
	}
	return 0, nil
}

// lastStep returns the member _step of the last line, 0 without one.
func (l *lineFile) lastStep() (int, error) {
	const longest = 1 << 20 // of a log; a longer last line counts as having no step
	start := max(0, l.end-longest)
	tail := make([]byte, l.end-start)
	if _, err := l.f.ReadAt(tail, start); err != nil && err != io.EOF {
		return 0, fmt.Errorf("go on with %s: %w", l.f.Name(), err)
	}
	tail = bytes.TrimSuffix(tail, []byte("\n"))
	step := gjson.GetBytes(tail[bytes.LastIndexByte(tail, '\n')+1:], "_step").Int()
	return int(min(max(0, step), 1<<53)), nil
}

// append writes a line. One that could be written in part only is taken back.
func (l *lineFile) append(line []byte) error {
	n, err := l.f.Write(line)
	if err == nil {
		l.end += int64(n)
		return nil
	}
	err = fmt.Errorf("write %s: %w", l.f.Name(), err)
	if n > 0 {
		_, seek := l.f.Seek(l.end, io.SeekStart)
		err = errors.Join(err, l.f.Truncate(l.end), seek)
	}
	return err
}

func (l *lineFile) close() error {
	if err := l.f.Close(); err != nil {
		return fmt.Errorf("close %s: %w", l.f.Name(), err)
	}
	return nil
}
