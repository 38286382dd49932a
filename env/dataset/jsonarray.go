package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/tidwall/gjson"
)

// jsonArray reads the objects of one array, which may be the whole file or a member of the file's object.
type jsonArray struct {
	file    *dataFile
	stream  *jsonStream
	key     string // of the member that holds the rows; "" when the file is the array
	json    jsonText
	started bool
	ended   bool
	rows    int64
}

// newJSONArray prepares the reading of an array; key "" means the file is the array.
func newJSONArray(f *dataFile, t *text, o *Options, key string) *jsonArray {
	return &jsonArray{file: f, stream: newJSONStream(t, o.maxRow()), key: key, json: jsonText{keep: keepSet(o.Columns)}}
}

func (r *jsonArray) next() ([]byte, place, error) {
	s := r.stream
	here := func() place { return place{s.line, s.offset} }
	if r.ended {
		return nil, here(), io.EOF
	}
	if !r.started {
		r.started = true
		if err := r.enter(); err != nil {
			return nil, here(), err
		}
	}
	c, err := s.peek()
	if err != nil {
		return nil, here(), cut(err)
	}
	if c == ']' {
		if _, err := s.byte(); err != nil {
			return nil, here(), err
		}
		r.ended = true
		return nil, here(), r.leave()
	}
	if r.rows > 0 {
		if err := s.take("a comma between two rows", ','); err != nil {
			return nil, here(), err
		}
		if _, err := s.peek(); err != nil {
			return nil, here(), cut(err)
		}
	}
	at := here()
	raw, err := s.value(true)
	switch {
	case errors.Is(err, errLong):
		r.rows++
		return nil, at, &badRow{tooLarge(s.max)}
	case err != nil:
		return nil, at, err
	}
	r.rows++
	data, err := r.json.object(raw)
	if err != nil {
		return nil, at, &badRow{err}
	}
	return data, at, nil
}

// enter moves to the first element.
func (r *jsonArray) enter() error {
	s := r.stream
	if r.key == "" {
		return s.take("an array of rows", '[')
	}
	if err := s.take("an object", '{'); err != nil {
		return err
	}
	for {
		c, err := s.peek()
		if err != nil {
			return cut(err)
		}
		if c == ',' {
			if _, err := s.byte(); err != nil {
				return err
			}
			continue
		}
		key, _, err := s.member()
		if err != nil {
			return err
		}
		if key == r.key {
			return s.take("a list of rows", '[')
		}
		if _, err := s.value(false); err != nil {
			return err
		}
	}
}

// leave makes sure that nothing but the rest of the object follows the rows.
func (r *jsonArray) leave() error {
	s := r.stream
	if r.key != "" {
		return io.EOF // the probe has been there
	}
	c, err := s.peek()
	if err == nil {
		return fmt.Errorf("%w: %q after the end of the array", errSyntax, string(rune(c)))
	}
	return err
}

func (r *jsonArray) remark() error           { return r.json.remarks() }
func (r *jsonArray) columns() []string       { return nil }
func (r *jsonArray) finish() (string, error) { return r.stream.t.finish(r.file) }
func (r *jsonArray) close()                  { r.stream.t.close() }

// jsonWhole reads a file that is a single object: one row, or columns of equal length. Such a file has to fit in memory, so
// the row limit is its limit.
type jsonWhole struct {
	file    *dataFile
	t       *text
	json    jsonText
	max     int64
	byName  bool // columns
	started bool
	names   [][]byte
	cols    [][]gjson.Result
	row     int
}

func (r *jsonWhole) next() ([]byte, place, error) {
	at := place{1, 0}
	if !r.started {
		r.started = true
		data, err := io.ReadAll(io.LimitReader(r.t, r.max+1))
		switch {
		case err != nil:
			return nil, at, err
		case int64(len(data)) > r.max && r.byName:
			return nil, at, fmt.Errorf("%w: a file of columns must be read whole and has more than %d bytes; convert it to JSON Lines or Parquet", ErrRowTooLarge, r.max)
		case int64(len(data)) > r.max:
			return nil, at, tooLarge(r.max)
		}
		object, err := r.json.object(data)
		if err != nil {
			return nil, at, err
		}
		if !r.byName {
			return object, at, nil
		}
		if err := r.split(object); err != nil {
			return nil, at, err
		}
	}
	if len(r.cols) == 0 || r.row >= len(r.cols[0]) {
		return nil, at, io.EOF
	}
	var out bytes.Buffer
	out.WriteByte('{')
	for i, name := range r.names {
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(name)
		out.WriteByte(':')
		out.WriteString(r.cols[i][r.row].Raw)
	}
	out.WriteByte('}')
	r.row++
	return out.Bytes(), at, nil
}

// split takes the columns apart. Lists of different lengths are no columns, and the object no row that anyone meant.
func (r *jsonWhole) split(object []byte) error {
	var err error
	gjson.ParseBytes(object).ForEach(func(key, list gjson.Result) bool {
		values := list.Array()
		if len(r.cols) > 0 && len(values) != len(r.cols[0]) {
			err = fmt.Errorf("%w: an object of lists of different lengths (%s has %d values, %s has %d); write one object per line", ErrFormat,
				r.names[0], len(r.cols[0]), key.Raw, len(values))
			return false
		}
		r.names = append(r.names, []byte(key.Raw))
		r.cols = append(r.cols, values)
		return true
	})
	return err
}

func (r *jsonWhole) remark() error           { return r.json.remarks() }
func (r *jsonWhole) columns() []string       { return nil }
func (r *jsonWhole) finish() (string, error) { return r.t.finish(r.file) }
func (r *jsonWhole) close()                  { r.t.close() }
