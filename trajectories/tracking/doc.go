// Package tracking takes the figures of a run while it goes on to where people look at
// them: JSON Lines files beside the run, the files of an offline Weights & Biases run,
// and text that Prometheus reads.
//
// A Window adds up what happens between two logs under the names the Atropos
// framework gave its figures, and a Recorder says when to log. Nothing here decides
// anything: a sink that fails is reported once and never ends a run, no figure is made
// up where nothing was measured, and nothing is ever sent over a network.
package tracking
