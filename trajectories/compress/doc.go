// Package compress makes trajectories fit a token budget: turns in the middle of a ShareGPT
// conversation are replaced by a summary that a model writes.
//
// It never leaves a row out unless told to, never puts anything but a real summary in the
// place of real turns, never parts a call from its answer, and never touches the first turn of
// a protected role or the last turns. Files are read and written row by row in their order; what
// a model was paid for is kept in a journal beside the output until the output is whole. What
// counts as a token, and where keys come from, is the caller's to say.
package compress
