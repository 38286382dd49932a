// Package journal keeps a log of records in a directory, durably: many goroutines
// append, and what they append together costs one fsync.
//
// The log is a row of files. Each begins with a snapshot, so that recovery reads the
// newest file only; older ones stay as long as somebody needs data in them. A
// record has a meta part, which is replayed, and data, which is read by place. The
// package knows nothing of what the bytes mean, and never repairs what was promised
// to be durable without being told to.
package journal
