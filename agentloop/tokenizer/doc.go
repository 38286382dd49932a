// Package tokenizer turns text into the token ids of a model and back, from the
// tokenizer.json that models are published with.
//
// Encoding and decoding are exact: the ids are those of the library that wrote the
// file. A component of the file that this package doesn't know is an error when the
// file is loaded, never a guess. The package loads files that are already on this
// machine; it never downloads, trains or changes a tokenizer.
//
// The format is that of Hugging Face's tokenizers library
// (https://huggingface.co/docs/tokenizers/api/tokenizer).
package tokenizer
