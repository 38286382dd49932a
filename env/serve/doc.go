// Package serve is the life of a worker: it registers with an API server, lets
// groups start only as fast as the trainer uses them, keeps what is finished on disk
// until the server has it, and evaluates at the trainer's cadence.
//
// It makes no rollouts: a Runner of package env does, which asks Admit before each
// group and hands finished ones to the worker as its GroupSink. The package never
// gives a group up because a server is away or refuses for now, and never ends a
// rollout that is under way to start another.
package serve
