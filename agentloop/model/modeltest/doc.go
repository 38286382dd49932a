// Package modeltest is a scriptable mock of an OpenAI-compatible server, in the
// manner of net/http/httptest: real sockets, scripted turns, latency and every
// fault a real endpoint shows.
//
// NewTokenServer is a double of servers that take and give token ids: vLLM, SGLang.
//
// NewServer is for tests; New gives an http.Handler and Start a server for
// programs that are no tests, such as benchmark commands. The package never
// imports testing and never talks to another machine.
package modeltest
