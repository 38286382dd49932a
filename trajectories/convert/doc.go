// Package convert turns stored rollouts and data sets of other programs into each
// other: recorded rollouts, ShareGPT rows, chat messages, the text of a model's own
// format, ATIF documents, preference pairs, trainer groups; as JSON Lines or Parquet.
//
// Every format is read into rollouts and written from them. What a target can't
// carry, what it needs and the source lacks, and what was filtered are counted by
// name: a conversion never loses anything silently. Output appears whole or not at
// all. The package never judges a rollout and never changes its input.
package convert
