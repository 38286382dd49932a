// Package stats describes what a run or a file of trajectories holds: outcomes,
// scores, turns, tokens, tools, reasoning, duplicates, money, time.
//
// Rows are read one at a time and memory does not grow with their length. Exact
// figures (counts, sums, minima, maxima) cover every row; quantiles and histograms
// rest on a sample once there are more than 65,536 values, and say so. Broken
// lines are counted and named, never fatal. The package shows nothing; callers do.
package stats
