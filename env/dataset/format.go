package dataset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// formatArrow stands for files that are recognised and refused.
const formatArrow = "arrow"

// formatOf guesses the format from a file's name; "" for names that tell nothing.
func formatOf(name string) string {
	name = strings.ToLower(path.Base(name))
	for _, packed := range []string{".gz", ".zst", ".bz2", ".zstd"} {
		name = strings.TrimSuffix(name, packed)
	}
	switch path.Ext(name) {
	case ".jsonl", ".ndjson":
		return FormatJSONL
	case ".json":
		return FormatJSON
	case ".csv":
		return FormatCSV
	case ".tsv":
		return FormatTSV
	case ".parquet", ".pq":
		return FormatParquet
	case ".arrow", ".feather":
		return formatArrow
	}
	return ""
}

// family is the format for the question whether files go together: .json and .jsonl do.
func family(format string) string {
	if format == FormatJSONL {
		return FormatJSON
	}
	return format
}

// isData tells data files from the papers that lie beside them.
func isData(name string) bool {
	metadata := []string{"dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json"}
	return formatOf(name) != "" && !slices.Contains(metadata, path.Base(name))
}

// oneFormat returns the one format of a split's files.
func oneFormat(files []listed) (string, error) {
	counts := map[string]int{}
	format := ""
	for _, f := range files {
		of := formatOf(f.path)
		counts[family(of)]++
		if format == "" || of != FormatJSONL {
			format = of
		}
	}
	if len(counts) > 1 {
		var found []string
		for of, n := range counts {
			if of == "" {
				of = "unknown"
			}
			found = append(found, fmt.Sprintf("%s (%d)", of, n))
		}
		slices.Sort(found)
		return "", fmt.Errorf("%w: the split has files of several formats: %s; set the format, or name the files", ErrFormat, strings.Join(found, ", "))
	}
	if format == formatArrow {
		return "", unusable("Arrow")
	}
	return format, nil
}

// openRows opens one file with the reader of its format.
func (d *Dataset) openRows(ctx context.Context, f *dataFile) (rowReader, error) {
	format := d.options.Format
	if format == FormatAuto {
		format = formatOf(f.path)
	}
	if format == FormatAuto {
		var err error
		if format, err = f.sniffFormat(ctx); err != nil {
			return nil, err
		}
	}
	switch format {
	case FormatParquet:
		handle, err := f.open(ctx)
		if err != nil {
			return nil, err
		}
		return newParquet(ctx, f, handle, &d.options)
	case FormatJSONL:
		t, err := f.openText(ctx)
		if err != nil {
			return nil, err
		}
		return newJSONLines(f, t, &d.options), nil
	case FormatJSON:
		return d.openJSON(ctx, f)
	case FormatCSV, FormatTSV:
		t, err := f.openText(ctx)
		if err != nil {
			return nil, err
		}
		r, err := newCSV(f, t, &d.options, format)
		if err != nil {
			t.close()
			return nil, err
		}
		return r, nil
	}
	return nil, fmt.Errorf("read %s: %w", f.path, unusable(format))
}

// sniffFormat decides for a file whose name says nothing.
func (f *dataFile) sniffFormat(ctx context.Context) (string, error) {
	file, err := f.open(ctx)
	if err != nil {
		return "", err
	}
	magic := make([]byte, 8)
	n, err := io.ReadFull(file, magic)
	file.Close()
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "", fmt.Errorf("read %s: %w", f.path, err)
	}
	if sniff(magic[:n]) == FormatParquet {
		return FormatParquet, nil
	}
	t, err := f.openText(ctx)
	if err != nil {
		return "", err
	}
	defer t.close()
	first, err := newJSONStream(t, 1).peek()
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return "", fmt.Errorf("read %s: %w", f.path, err)
	case err != nil || first == '{' || first == '[':
		return FormatJSON, nil
	}
	return "", fmt.Errorf("read %s: %w: neither its name nor its content tells what it is; set the format to one of jsonl, json, csv, tsv, parquet", f.path, ErrFormat)
}

// openJSON finds out how a JSON file holds its rows and opens it accordingly.
func (d *Dataset) openJSON(ctx context.Context, f *dataFile) (rowReader, error) {
	shape, key, err := f.probeShape(ctx, &d.options)
	if err != nil {
		return nil, err
	}
	t, err := f.openText(ctx)
	if err != nil {
		return nil, err
	}
	switch shape {
	case shapeArray, shapeList:
		return newJSONArray(f, t, &d.options, key), nil
	case shapeColumns, shapeSingle:
		return &jsonWhole{file: f, t: t, max: d.options.maxRow(), byName: shape == shapeColumns,
			json: jsonText{keep: keepSet(d.options.Columns)}}, nil
	}
	return newJSONLines(f, t, &d.options), nil
}

// probeShape reads the file as far as its first value goes.
func (f *dataFile) probeShape(ctx context.Context, o *Options) (jsonShape, string, error) {
	t, err := f.openText(ctx)
	if err != nil {
		return 0, "", err
	}
	defer t.close()
	prefer := []string{"train", "data", "rows"}
	if o.Split != "" {
		prefer = append([]string{o.Split}, prefer[1:]...)
	}
	stream := newJSONStream(t, o.maxRow())
	shape, key, err := probeJSON(stream, prefer)
	if err != nil {
		return 0, "", &Problem{File: f.path, Line: stream.line, Offset: stream.offset, Err: err}
	}
	return shape, key, nil
}
