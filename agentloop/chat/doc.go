// Package chat holds the OpenAI chat wire shape: messages, tool calls, tool
// definitions and usage.
//
// A Message is immutable and its JSON encoding is the truth: fields this package
// does not know survive a round trip, object keys keep their order and numbers
// their digits, and every message is encoded once and stitched into all later
// request bodies and records. The package never talks to a server and never
// decides what a message means for a rollout.
package chat
