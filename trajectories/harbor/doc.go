// Package harbor writes a run as a Harbor job: a directory per trial with its
// result, trajectory (ATIF) and verifier output, and the job's own result, so that
// Harbor's viewers, statistics and leaderboard checks read it.
//
// It also says what a leaderboard would reject. It never changes the run, never
// writes over a job that exists, and never invents a reward: a trial without a
// score has none in the export either.
package harbor
