package config

// Field describes one field, for help, flags and documentation.
type Field struct {
	Section  string // "env", "openai", or "" at the top level
	Name     string // dotted for a field inside an object: "judge.model"
	Type     string // in words: "integer", "list of text"
	Default  string // as JSON
	Help     string // one sentence in lower case
	Unit     string // what a number counts, "" where that is plain
	Choices  []string
	Nullable bool
	Own      bool // declared by the environment
	Affects  bool // counts for Resolved.Digest
	Mode     Mode // the one command it acts in; "" for all
	Bool     bool // a flag that needs no value
	Secret   bool
}

// Flag returns the name of the field's command-line flag, without dashes.
func (f Field) Flag() string { return join(f.Section, f.Name) }

// Fields lists the env: section with the built-in defaults, and after them the
// fields of own, a pointer to an environment's struct or nil, which is changed: it
// gets its default tags. The error is about own's Go type.
func Fields(own any) ([]Field, error) {
	return Environment{Name: "of that type", Own: func() any { return own }}.Fields()
}

// Fields lists the env: section with the environment's own fields and defaults.
func (e Environment) Fields() ([]Field, error) {
	c := Config{Environment: e.Name}
	fields, err := newEnvSection(&c, &e)
	if err != nil {
		return nil, err
	}
	if e.Defaults != nil {
		own := c.Own
		e.Defaults(&c)
		c.Own = own
	}
	return describeFields(fields, "env", ""), nil
}

// ServerFields lists the fields of one server of the openai: section.
func ServerFields() ([]Field, error) {
	specs, err := structSpecs(serverType, "")
	if err != nil {
		return nil, err
	}
	s := NewServer()
	return describeFields(bindStruct(valueOf(&s), specs), "openai", ""), nil
}

// TopFields lists the fields outside the sections.
func TopFields() []Field {
	agent := AgentModel
	fields := describeFields([]bound{{agentSpec(), valueOf(&agent)}}, "", "")
	return append([]Field{{Name: "environment", Type: "text", Default: "null", Affects: true,
		Help: "which environment to run; may be left out where there is only one"}}, fields...)
}

func describeFields(fields []bound, section, path string) []Field {
	var out []Field
	for _, f := range fields {
		if f.shape == shapeObject {
			out = append(out, describeFields(bindStruct(f.value, f.fields), section, join(path, f.name))...)
			continue
		}
		choices := f.choices
		if f.elem != nil {
			choices = f.elem.choices
		}
		out = append(out, Field{Section: section, Name: join(path, f.name), Type: f.typeName(),
			Default: string(f.appendJSON(nil, f.value)), Help: f.help, Unit: f.unit, Choices: choices,
			Nullable: f.nullable, Own: f.own, Affects: f.affects, Mode: f.mode,
			Bool: f.shape == shapeBool, Secret: f.shape == shapeSecret})
	}
	return out
}
