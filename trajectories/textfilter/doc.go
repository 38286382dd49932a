// Package textfilter holds what decides about texts of training data: near-duplicates by
// MinHash, overlaps with evaluation sets by n-grams of words, repetition, language and
// refusals. It knows texts only: which texts of a row count, and what becomes of the row,
// is up to the caller. Every answer depends on its input alone: hash functions are fixed.
package textfilter
