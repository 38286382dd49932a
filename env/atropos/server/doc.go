// Package server is the Atropos API server: workers post groups to it, a trainer
// takes batches from it.
//
// What it has acknowledged is on disk and survives a kill. The data of groups lies
// in the journal only, packed as it will be sent, so that memory does not grow with
// the queue and a batch is sent without being decoded or encoded; the lock on the
// state is never held while bytes are read, packed or sent. The server never
// changes a group and never drops one that it has taken.
package server
