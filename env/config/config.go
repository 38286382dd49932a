package config

// Agents that can run the rollouts.
const (
	AgentModel  = "model"  // the model servers of the openai section
	AgentOracle = "oracle" // the environment's reference solution
	AgentNop    = "nop"    // nothing
)

// Config is the whole configuration, typed.
type Config struct {
	Environment string   // name of the environment
	Agent       string   // AgentModel, AgentOracle or AgentNop
	Mode        Mode     // the command the configuration is for
	Env         Env      // the env: section
	Own         any      // the environment's own fields of the env: section: a pointer to its struct, or nil
	Servers     []Server // the openai: section; empty when nothing configures a server
}

// GroupsInFlight returns how many groups process runs at once: max_num_workers, or
// max_num_workers_per_node for every model server when that is -1.
func (c *Config) GroupsInFlight() int {
	if c.Env.MaxNumWorkers > 0 {
		return c.Env.MaxNumWorkers
	}
	return c.Env.MaxNumWorkersPerNode * max(1, len(c.Servers))
}

// Environment is what an environment brings to its configuration.
type Environment struct {
	Name string
	// Aliases are names that users may know it by: those of the original framework, and
	// short ones. A file is recognised by them, and a name that is not right gets the
	// right one suggested.
	Aliases []string
	// Own returns a pointer to a new struct with the environment's own fields of the
	// env: section; nil when it has none. A field left zero gets its default tag.
	Own func() any
	// Defaults changes c in place to the environment's defaults; c.Own is what Own
	// returned. nil changes nothing.
	Defaults func(c *Config)
}

// Validator is implemented by an environment's own struct that has rules between
// fields. Each error is reported; a *FieldError is placed at its field.
type Validator interface {
	ValidateConfig(c *Config) []error
}

// FieldError is an error about one field.
type FieldError struct {
	Field   string // below the section: "task_filter"
	Message string
}

// Error returns the field and the message.
func (e *FieldError) Error() string { return "env." + e.Field + ": " + e.Message }

// Options says what to resolve, and for whom.
type Options struct {
	Mode         Mode          // the command; "" is Evaluate
	File         string        // YAML file; "" for none
	Text         []byte        // what File holds, if it is not to be read; nil reads it
	Recorded     bool          // Text is a configuration as a run recorded it, without its keys
	Flags        []Flag        // in the order given; the last of a name wins
	Environments []Environment // those to choose from; a single one needs no naming

	Parsers []string // names tool_call_parser may have; nil accepts any
	// AbsentParsers are names of other servers that tool_call_parser can't have,
	// with the reason.
	AbsentParsers map[string]string
	ServerTypes   []string // server types the program speaks; nil is openai
	Backends      []string // sandbox backends the program has; nil is local
	// EmbeddedServers are words base_url may be, alone or followed by a colon and
	// more, for servers the program starts itself, such as "replay". They get no key.
	EmbeddedServers []string

	LookupEnv        func(string) (string, bool) // environment variables; nil knows none (pass os.LookupEnv)
	WorkDir          string                      // where .env is looked for first; "" is the working directory
	WithoutKeys      bool                        // look no keys up and need none, for printing a configuration
	AllowUnsupported bool                        // warn about fields of the original framework that do nothing here
}

func (o Options) withDefaults() Options {
	if o.Mode == "" {
		o.Mode = Evaluate
	}
	if o.ServerTypes == nil {
		o.ServerTypes = []string{"openai"}
	}
	if o.Backends == nil {
		o.Backends = []string{"local"}
	}
	if o.LookupEnv == nil {
		o.LookupEnv = func(string) (string, bool) { return "", false }
	}
	return o
}
