package config

// UnsupportedField is a field of the original framework that does nothing here. A
// value that asks for nothing is accepted, so that old files keep working.
type UnsupportedField struct {
	Section string // "env", "openai", or "" at the top level
	Name    string
	Why     string // what is missing, or what to use instead
	// Harmless: every value is accepted, because what it asks for is so in any case.
	Harmless bool

	inert []string // values, in lower case, that ask for nothing
}

// Unsupported lists the fields of the original framework that do nothing here. An
// environment's own struct may declare one of them; it is then an ordinary field.
func Unsupported() []UnsupportedField {
	off := []string{"false", "no", "off", "0"}
	nothing := func(section, name, why string, inert ...string) UnsupportedField {
		return UnsupportedField{Section: section, Name: name, Why: why, inert: inert}
	}
	harmless := func(section, name, why string) UnsupportedField {
		return UnsupportedField{Section: section, Name: name, Why: why, Harmless: true}
	}
	const ownDataset = "this environment has a dataset of its own; the environment prompts takes any by name"
	return []UnsupportedField{
		nothing("", "slurm", "the harness doesn't read a Slurm allocation; list the servers under openai", off...),
		nothing("", "testing", "the mock server of the original is now an embedded model; set openai.base_url to replay:", off...),
		harmless("", "max_n_completions", "one completion is asked for per request, so none asks for more than any limit"),
		nothing("", "proxy_url", "tokens are kept by the harness itself and need no proxy; name the model servers under openai"),
		nothing("", "teacher", "there is no teacher distillation; an environment may add a teacher's tokens to its groups itself"),

		nothing("env", "teacher_enabled", "there is no teacher distillation; an environment may add a teacher's tokens to its groups itself", off...),
		nothing("env", "teacher_top_k", "there is no teacher distillation", "0", "-1"),
		nothing("env", "dataset_name", ownDataset),
		nothing("env", "dataset_split", ownDataset),
		nothing("env", "prompt_field", ownDataset),

		nothing("", "tinker", "it configures a trainer, which reads its own file"),

		nothing("openai", "temperature", "it is a setting of the rollouts: env.agent_temperature"),
		nothing("openai", "max_tokens", "it is a setting of the rollouts: env.max_token_length"),
		nothing("openai", "top_p", "further fields of requests go into env.extra_body"),
		harmless("openai", "n_kwarg_is_ignored", "one completion is asked for per request, which every server understands"),
	}
}
