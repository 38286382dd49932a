// Package terminaltest is the environment terminal-test: four inline tasks that
// write a small file in the home directory, to check that model, agent loop,
// tools, sandbox and verifier work together. It needs no data and no network.
package terminaltest
