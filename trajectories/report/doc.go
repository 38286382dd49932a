// Package report makes self-contained HTML pages: the report of a run, with its
// scores, its matrix of items and attempts and readable transcripts, and the
// statistics of a run or a file.
//
// A page needs no network, no server and no other file. Everything a model, a tool
// or a dataset wrote is hostile text: it reaches the page escaped or as compressed
// data, is shown as text only, and a content security policy keeps anything but the
// page's own script from running. The package reads and writes no files.
package report
