// Package rowtext finds values in the rows of a dataset and makes texts of them.
//
// A path names a value: a column, or a value inside one ("meta.answer", "choices.0"). A Template is text with paths
// in double braces. Text values are inserted as they are, everything else as the JSON it is in the row. The package never
// evaluates anything: there are no conditions, no loops and no code in a template, and inserted text is never read again.
package rowtext
