// Package dataset reads rows from files: JSON Lines, JSON, CSV, TSV and Parquet, one file, a glob, a folder, a dataset of
// the Hugging Face hub, or a folder of Harbor tasks.
//
// Every row is one compact JSON object with the source's key order and digits, whatever the format. Reading streams: memory
// is bounded by one row (text) or one page per column (Parquet), never by the size of a file. Bad rows are named by file and
// line and then skipped or fatal; a file that changes between two passes is an error. The package never writes a file, never
// changes a value silently, and knows nothing of environments.
package dataset
