// Package client speaks the Atropos protocol to an API server, as a worker or as
// a trainer does.
//
// A call makes one request and waits for its reply: retrying, spooling and pacing
// are the caller's, who learns from StatusError whether trying again can help.
// The package never invents data and never drops any.
package client
