// Package model talks to language models: one Client interface, an
// OpenAI-compatible chat client over net/http (NewChat), and decorators over the
// same interface: Retry sends again what may heal, Pool spreads requests over
// servers and limits them. Probe checks a server before a run. NewVLLM, NewSGLang and
// NewGenerate make clients that take and report token ids (Request.Prompt, Capture).
//
// It classifies every failure (Error, Kind) so that callers can tell an endpoint
// in trouble from a request the model can't take. It never decides what a
// rollout does about a failure and never logs keys or bodies.
package model
