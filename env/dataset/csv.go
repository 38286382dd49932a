package dataset

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/hermes-env/hermes-env/trajectories/parquetrows"
)

// csvRows reads delimited text with a header. A field may be quoted with double quotes, inside which a doubled quote is one
// quote and line breaks are text; a quote elsewhere is text.
type csvRows struct {
	file   *dataFile
	t      *text
	max    int64
	comma  []byte
	typed  bool
	header []string
	names  [][]byte // encoded header; nil for columns left out
	line   int64
	offset int64
	raw    []byte
	fields []csvField
	values []byte
}

// csvField is one field of a record: a span of values.
type csvField struct {
	start, end int
	quoted     bool
}

// newCSV reads the header.
func newCSV(f *dataFile, t *text, o *Options, format string) (*csvRows, error) {
	comma := o.Delimiter
	if comma == 0 {
		comma = ','
		if format == FormatTSV {
			comma = '\t'
		}
	}
	r := &csvRows{file: f, t: t, max: o.maxRow(), comma: utf8.AppendRune(nil, comma), typed: o.TypedCSV}
	at, err := r.record()
	if errors.Is(err, io.EOF) {
		return r, nil // an empty file: no header, no rows
	}
	if err != nil {
		return nil, &Problem{File: f.path, Line: at.line, Err: fmt.Errorf("read the header: %w", err)}
	}
	keep := keepSet(o.Columns)
	for i, field := range r.fields {
		name := string(r.values[field.start:field.end])
		if name == "" {
			name = "Unnamed: " + strconv.Itoa(i) // what pandas, and with it the hub, calls an index column
		}
		if slices.Contains(r.header, name) {
			return nil, &Problem{File: f.path, Line: at.line, Err: fmt.Errorf("%w: two columns are called %q", ErrFormat, name)}
		}
		r.header = append(r.header, name)
		var encoded []byte
		if keep == nil || keep[name] {
			encoded = parquetrows.AppendString(nil, []byte(name))
		}
		r.names = append(r.names, encoded)
	}
	if err := r.checkHeader(o); err != nil {
		return nil, &Problem{File: f.path, Line: at.line, Err: err}
	}
	return r, nil
}

func (r *csvRows) checkHeader(o *Options) error {
	if slices.ContainsFunc(r.header, func(name string) bool { return strings.ContainsRune(name, '\r') }) {
		return fmt.Errorf("%w: its lines end in carriage returns alone; convert them to line feeds (tr '\\r' '\\n')", ErrFormat)
	}
	if len(r.header) == 1 && o.Delimiter == 0 {
		for _, other := range []string{";", "\t", "|", ","} {
			if strings.Contains(r.header[0], other) && other != string(r.comma) {
				return fmt.Errorf("%w: the header has one column, %q; it looks as if %q separated the fields: set the delimiter", ErrFormat, r.header[0], other)
			}
		}
	}
	return missingColumns(o.Columns, r.header)
}

// missingColumns is an error when a wanted column is not among those that exist.
func missingColumns(want, have []string) error {
	for _, c := range want {
		if !slices.Contains(have, c) {
			return fmt.Errorf("%w: there is no column %q; the columns are %s", ErrFormat, c, quoteAll(have))
		}
	}
	return nil
}

func (r *csvRows) next() ([]byte, place, error) {
	at, err := r.record()
	if err != nil {
		return nil, at, err
	}
	if len(r.fields) != len(r.header) {
		return nil, at, &badRow{fmt.Errorf("the row has %d fields, the header %d", len(r.fields), len(r.header))}
	}
	out := make([]byte, 1, len(r.values)+16*len(r.fields)+2)
	out[0] = '{'
	for i, field := range r.fields {
		if r.names[i] == nil {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, r.names[i]...)
		out = append(out, ':')
		value := r.values[field.start:field.end]
		if r.typed && !field.quoted {
			if plain, ok := typedCell(value); ok {
				out = append(out, plain...)
				continue
			}
		}
		out = parquetrows.AppendString(out, value)
	}
	return append(out, '}'), at, nil
}

// typedCell turns an unquoted cell into JSON when it reads as a number, a boolean or nothing.
func typedCell(cell []byte) ([]byte, bool) {
	switch string(bytes.ToLower(cell)) {
	case "":
		return []byte("null"), true
	case "true":
		return []byte("true"), true
	case "false":
		return []byte("false"), true
	}
	t := jsonText{src: cell}
	if c := cell[0]; c != '-' && (c < '0' || c > '9') {
		return nil, false
	}
	if err := t.numberValue(); err != nil || t.pos != len(cell) {
		return nil, false
	}
	return cell, true
}

// record reads the next record that isn't a blank line into fields and values.
func (r *csvRows) record() (place, error) {
	for {
		at := place{r.line + 1, r.offset}
		err := r.rawRecord()
		if err != nil {
			return at, err
		}
		if len(r.raw) == 0 {
			continue
		}
		if !utf8.Valid(r.raw) {
			return at, &badRow{fmt.Errorf("byte %d of the row is not UTF-8; convert the file to UTF-8", badUTF8(r.raw)+1)}
		}
		if bytes.IndexByte(r.raw, 0) >= 0 {
			return at, &badRow{errors.New("the row has a zero byte; the file is not text, or broken")}
		}
		return at, r.split()
	}
}

// rawRecord takes the lines of one record into raw, without the last line's end.
func (r *csvRows) rawRecord() error {
	r.raw = r.raw[:0]
	quoted, fieldStart, long := false, true, false
	for {
		part, err := r.t.ReadSlice('\n')
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
		if len(part) == 0 && len(r.raw) == 0 && !long && errors.Is(err, io.EOF) {
			return io.EOF
		}
		r.offset += int64(len(part))
		quoted, fieldStart = r.follow(part, quoted, fieldStart)
		if int64(len(r.raw)+len(part)) > r.max+2 {
			long = true
			r.raw = r.raw[:0]
		}
		if !long {
			r.raw = append(r.raw, part...)
		}
		if err == nil {
			r.line++
		}
		if errors.Is(err, bufio.ErrBufferFull) || err == nil && quoted {
			continue
		}
		if quoted {
			return fmt.Errorf("a quoted field has no end; look for a single %q", '"')
		}
		if long {
			return &badRow{tooLarge(r.max)}
		}
		r.raw = trimEnd(r.raw)
		return nil
	}
}

// follow keeps track of quotes over a piece of text: whether it ends inside a quoted field, and whether a field begins next.
// Inside a quoted field a doubled quote closes and opens it again, which comes to the same.
func (r *csvRows) follow(part []byte, quoted, fieldStart bool) (bool, bool) {
	for i := 0; i < len(part); i++ {
		c := part[i]
		switch {
		case quoted:
			end := bytes.IndexByte(part[i:], '"')
			if end < 0 {
				return true, false
			}
			i += end
			quoted = false
			fieldStart = true // a quote right after this one goes on with the field
			continue
		case c == '"' && fieldStart:
			quoted = true
		case c == r.comma[len(r.comma)-1] || c == '\n':
			fieldStart = true
			continue
		}
		fieldStart = false
	}
	return quoted, fieldStart
}

// split takes raw apart.
func (r *csvRows) split() error {
	r.fields, r.values = r.fields[:0], r.values[:0]
	rest := r.raw
	for {
		field := csvField{start: len(r.values)}
		if len(rest) > 0 && rest[0] == '"' {
			field.quoted = true
			rest = rest[1:]
			for {
				end := bytes.IndexByte(rest, '"')
				if end < 0 {
					return &badRow{fmt.Errorf("a quoted field has no end")}
				}
				r.values = append(r.values, rest[:end]...)
				rest = rest[end+1:]
				if len(rest) == 0 || rest[0] != '"' {
					break
				}
				r.values = append(r.values, '"')
				rest = rest[1:]
			}
			if len(rest) > 0 && !bytes.HasPrefix(rest, r.comma) {
				return &badRow{fmt.Errorf("text after the closing quote of field %d: %s", len(r.fields)+1, snippet(rest))}
			}
		} else {
			end := bytes.Index(rest, r.comma)
			if end < 0 {
				end = len(rest)
			}
			r.values = append(r.values, rest[:end]...)
			rest = rest[end:]
		}
		field.end = len(r.values)
		r.fields = append(r.fields, field)
		if len(rest) == 0 {
			return nil
		}
		rest = rest[len(r.comma):]
	}
}

func (r *csvRows) remark() error           { return nil }
func (r *csvRows) columns() []string       { return keptColumns(r.header, r.names) }
func (r *csvRows) finish() (string, error) { return r.t.finish(r.file) }
func (r *csvRows) close()                  { r.t.close() }

func keptColumns(header []string, names [][]byte) []string {
	var kept []string
	for i, name := range header {
		if names[i] != nil {
			kept = append(kept, name)
		}
	}
	return kept
}

func quoteAll(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = strconv.Quote(name)
	}
	return strings.Join(quoted, ", ")
}
