// Package validation judges items by what their reference solution and a nobody
// score: a sound item is passed by its solution and not passed by doing nothing.
// Verdicts are kept in files of one JSON object per line and belong to an item's
// content digest, so that they hold wherever the same item turns up and never for
// one that changed.
//
// It runs nothing: the rollouts come from env.Runner. Trouble with sandboxes is
// never taken for a fault of the item.
package validation
