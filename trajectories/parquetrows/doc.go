// Package parquetrows reads the rows of Parquet files, of any writer, as JSON objects.
//
// Pages are checked and decompressed here before the Parquet library decodes them: it
// takes more memory than there is for damaged ones, and makes other values of some
// that are whole. Reading streams: one page per column is in memory at a time. The
// package never changes a value silently: what JSON can't say is a remark or makes the
// row a bad one.
package parquetrows
