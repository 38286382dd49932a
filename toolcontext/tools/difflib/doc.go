// Package difflib compares sequences the way Python's difflib does: the
// Ratcliff/Obershelp matcher with its junk heuristic for popular elements,
// similarity ratios, grouped opcodes and unified diffs.
//
// Models are trained on tools whose answers depend on these exact ratios and
// diffs, so the results are Python's to the last digit (checked against values
// computed by CPython 3). The package does no input or output.
package difflib
