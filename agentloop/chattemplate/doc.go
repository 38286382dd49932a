// Package chattemplate renders conversations with the chat templates that models are
// published with: the part of the Jinja2 language they use, with the results that
// Python's Jinja2 gives when it is set up the way Hugging Face's transformers does
// (https://huggingface.co/docs/transformers/chat_templating).
//
// Templates are foreign code. They can read what they are given and nothing else, and
// their work and output are bounded. A filter, test, method or statement that this
// package doesn't know is an error that names it, never a guess; one in a branch that is
// not taken does no harm.
package chattemplate
