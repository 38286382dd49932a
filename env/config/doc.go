// Package config turns a YAML file and command-line flags into one typed, fully
// validated configuration. Values come, in this order, from built-in defaults, the
// environment's defaults, adjustments of the command (evaluate, process), the YAML
// file and flags; a later source wins, objects merge, lists and scalars replace.
//
// Every problem of every source is found in one pass and reported with its file,
// line and key. The package reads the config file, .env files and, through the
// function it is given, environment variables; it never writes, never changes the
// process environment and never shows a secret it has read.
package config
