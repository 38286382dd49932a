// Package agentloop runs one multi-turn conversation between a model and its
// tools: model call, tool calls, results, and again, until the model answers
// without a call, a stop condition holds, or something fails.
//
// The model's own mistakes (unknown tools, broken arguments) become results the
// model can read; trouble with the endpoint or the sandbox ends the run with an
// error beside the partial Result, and is never turned into an answer. The
// package knows nothing of items, rewards or files.
package agentloop
