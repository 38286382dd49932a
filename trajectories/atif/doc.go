// Package atif writes and reads the Agent Trajectory Interchange Format, the
// JSON document in which Harbor and its viewers keep one agent run.
//
// FromRollout turns a recorded rollout into a document of version 1.7, Decode and
// Messages turn a document of any version 1.x back into a conversation, and
// Validate says what is wrong with one. What the format has no place for goes
// into its "extra" members, and what can't be kept at all is counted as a Loss.
// The package never judges a rollout and never reads or writes files.
package atif
