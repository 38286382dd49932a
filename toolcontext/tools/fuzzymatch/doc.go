// Package fuzzymatch finds the place in a file that a model means when the text it
// gives is not quite what the file says, and replaces it.
//
// Nine strategies are tried from strict to lenient; the first that finds anything
// decides, also when what it found is ambiguous. Replacements follow the file's
// own indentation and typography. Where a replacement could damage the file it is
// refused with a reason the model can act on. The work is bounded, the package
// does no input or output.
package fuzzymatch
