// Package parsers turns the raw text of a language model into content and tool
// calls, and writes tool calls back. A [Format] knows one model family's way of
// calling tools: [Format.Parse] reads a whole response, [Format.Stream] reads it
// piece by piece, [Format.Render] is the inverse. [Lookup] finds a format by
// name, [SplitReasoning] cuts the thinking off before parsing.
//
// Parsing never fails and never loses text: what is not a call is content. The
// package never executes anything, never checks that a tool exists, never
// repairs malformed arguments, and depends on nothing else of this project.
package parsers
