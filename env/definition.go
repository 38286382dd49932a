package env

import "github.com/hermes-env/hermes-env/env/config"

// Definition describes an environment to the command line: its name, what it is
// for, its own configuration and how to build it.
type Definition struct {
	Name        string
	Description string // one sentence
	// Aliases are names that users may know it by, to suggest the right one and to
	// recognise configuration files that name none; optional.
	Aliases []string
	// Replay is the script of the embedded model that demonstrates the
	// environment without a model; nil when it has none.
	Replay []byte

	newOwn   func() any
	defaults func(*config.Env, any)
	build    func(config.Env, any) (Environment, error)
}

// Define makes a Definition of an environment with configuration fields of its
// own, the struct C, which live in the env section beside the common ones.
// defaults may be nil; it sets the environment's defaults for both.
func Define[C any](name, description string, defaults func(*config.Env, *C), build func(config.Env, C) (Environment, error)) Definition {
	return Definition{
		Name:        name,
		Description: description,
		newOwn:      func() any { return new(C) },
		defaults: func(common *config.Env, own any) {
			if defaults != nil {
				defaults(common, own.(*C))
			}
		},
		build: func(common config.Env, own any) (Environment, error) {
			return build(common, *own.(*C))
		},
	}
}

// NewOwn returns a pointer to a zero value of the environment's own configuration.
func (d Definition) NewOwn() any { return d.newOwn() }

// SetDefaults applies the environment's defaults to the common and its own configuration.
func (d Definition) SetDefaults(common *config.Env, own any) { d.defaults(common, own) }

// New builds the environment from a resolved configuration; own is what NewOwn returned.
func (d Definition) New(common config.Env, own any) (Environment, error) {
	return d.build(common, own)
}
