package dataset

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hermes-env/hermes-env/env/dataset/hub"
)

// The formats of Options.Format.
const (
	FormatAuto    = ""        // by file name and content
	FormatJSONL   = "jsonl"   // one JSON object per line
	FormatJSON    = "json"    // an array of objects, an object with a list of them, or an object of columns
	FormatCSV     = "csv"     // comma-separated values with a header
	FormatTSV     = "tsv"     // tab-separated values with a header
	FormatParquet = "parquet" // Apache Parquet
	FormatHarbor  = "harbor"  // a folder of Harbor tasks
)

// What Options.OnBadRow may say.
const (
	BadRowFails = "fail" // the pass ends with the Problem
	BadRowSkips = "skip" // the row is left out, reported to Warn and counted
)

// DefaultMaxRowBytes is the row limit when Options.MaxRowBytes is 0: 256 MiB.
const DefaultMaxRowBytes = 256 << 20

// Options says which rows to read and how.
type Options struct {
	// Name is a file, a glob, a folder, or the id of a dataset on the hub ("org/name"); required.
	Name string
	// Subset is a configuration of the dataset card or a folder of that name; "" means the default one.
	Subset string
	// Split is "train", "test", …; "" means train, or the only one there is.
	Split string
	// Revision is a branch, tag or commit on the hub; "" means main. Local files have none.
	Revision string
	// Format is one of the Format constants; "" decides by file name and content.
	Format string
	// Files are globs relative to the folder or repository; given, they alone make the split.
	Files []string
	// OnBadRow is "fail" (also when "") or "skip".
	OnBadRow string
	// MaxRowBytes is the largest row accepted, in bytes of its text or of the JSON made from it; 0 means DefaultMaxRowBytes.
	MaxRowBytes int64
	// Columns are the top-level keys to read, in no particular order; none means all. Parquet columns left out are not read
	// from disk.
	Columns []string
	// Delimiter separates the fields of CSV files; 0 means "," for csv and a tab for tsv.
	Delimiter rune
	// TypedCSV turns CSV cells that are numbers, true, false or empty into JSON numbers, booleans and null; otherwise every
	// cell is a string.
	TypedCSV bool
	// Hub configures the Hugging Face client, usually with hub.FromEnvironment(os.Getenv); the zero value reads the public hub
	// without a token.
	Hub hub.Options
	// Warn hears of every skipped row and of every remark, from the goroutine that iterates; nil means nobody listens.
	Warn func(Problem)
}

// check refuses what can never work, all of it at once.
func (o *Options) check() error {
	var wrong []string
	if strings.TrimSpace(o.Name) == "" {
		wrong = append(wrong, "no dataset named: give a file, a folder, a glob or a dataset id such as org/name")
	}
	formats := []string{FormatAuto, FormatJSONL, FormatJSON, FormatCSV, FormatTSV, FormatParquet, FormatHarbor}
	if !slices.Contains(formats, o.Format) {
		wrong = append(wrong, fmt.Sprintf("unknown format %q: want one of %s", o.Format, strings.Join(formats[1:], ", ")))
	}
	if o.OnBadRow != "" && o.OnBadRow != BadRowFails && o.OnBadRow != BadRowSkips {
		wrong = append(wrong, fmt.Sprintf("unknown rule for bad rows %q: want %q or %q", o.OnBadRow, BadRowFails, BadRowSkips))
	}
	if o.MaxRowBytes < 0 {
		wrong = append(wrong, fmt.Sprintf("the row limit is %d bytes: want 0 for the default, or a positive number", o.MaxRowBytes))
	}
	if d := o.Delimiter; d == '"' || d == '\n' || d == '\r' || d < 0 || d == '\uFFFD' {
		wrong = append(wrong, fmt.Sprintf("%q can't separate CSV fields", d))
	}
	if strings.ContainsAny(o.Split, "[:+]") {
		wrong = append(wrong, fmt.Sprintf("split %q: slices and sums of splits are not supported; name one split and limit the rows instead", o.Split))
	}
	seen := map[string]bool{}
	for _, c := range o.Columns {
		if seen[c] {
			wrong = append(wrong, fmt.Sprintf("column %q is named twice", c))
		}
		seen[c] = true
	}
	if len(wrong) > 0 {
		return fmt.Errorf("open dataset: %s", strings.Join(wrong, "; "))
	}
	return nil
}

func (o *Options) maxRow() int64 {
	if o.MaxRowBytes > 0 {
		return o.MaxRowBytes
	}
	return DefaultMaxRowBytes
}
