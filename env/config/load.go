package config

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/hermes-env/hermes-env/internal/textutil"
)

// loader resolves one configuration.
type loader struct {
	Options
	report  *report
	origins map[string]Origin
	config  Config
	known   bool // the environment is known, so unknown keys are known to be unknown

	redacted map[string]bool // paths of secrets that were written out when the run was recorded

	file *yaml.Node // the root mapping; nil without a file
	env  []bound    // fields of the env: section, the environment's own last

	defaults []byte // what the lowest sources say that can affect results, as JSON
}

// Load resolves the configuration. An error that lies in what the user wrote is an
// *Error that holds every problem found; any other error is about the Go code of an
// environment.
func Load(o Options) (*Resolved, error) {
	l := &loader{Options: o.withDefaults(), report: &report{}, origins: map[string]Origin{}}
	if l.Recorded {
		l.redacted = map[string]bool{}
	}
	l.readDocument()
	if err := l.prepare(); err != nil {
		return nil, err
	}
	l.rewrite()
	l.readTop()
	l.readEnv()
	l.readServers()
	l.validate()
	if !l.WithoutKeys {
		l.findKeys()
	}
	if err := l.report.err(); err != nil {
		return nil, err
	}
	return l.resolve()
}

func (l *loader) fileOrigin() Origin { return Origin{Kind: FromFile, Name: l.File} }

func (l *loader) decoder(o Origin) *decoder {
	d := &decoder{report: l.report, origin: o, origins: l.origins}
	if o.Kind == FromFile {
		d.redacted = l.redacted
	}
	return d
}

func (l *loader) readDocument() {
	if l.File == "" {
		return
	}
	data := l.Text
	if data == nil {
		var err error
		if data, err = readFile(l.File); err != nil {
			l.report.at(l.fileOrigin(), "", err.Error())
			return
		}
	}
	root, p := parseDocument(data)
	switch {
	case p != nil:
		o := l.fileOrigin()
		o.Line, o.Col = p.line, p.column
		l.report.at(o, "", p.Message)
	case root == nil && len(bytes.TrimSpace(data)) == 0:
		l.report.at(l.fileOrigin(), "", "the config file is empty")
	case root == nil:
		l.report.at(l.fileOrigin(), "", "the config file holds nothing but comments")
	case foreignFile(root) != "":
		l.report.at(l.fileOrigin().at(root), "", foreignFile(root))
	case root.Kind != yaml.MappingNode:
		l.report.at(l.fileOrigin().at(root), "", "a config is an object with the keys environment, env, openai and agent, got "+describe(root))
	default:
		l.file = root
	}
}

// unread reports whether there is a file that could not be used, so that nothing
// can be said about what is missing.
func (l *loader) unread() bool { return l.File != "" && l.file == nil }

// top returns the value of a top-level key of the file.
func (l *loader) top(key string) *yaml.Node { return lookup(l.file, key) }

func lookup(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// prepare picks the environment and fills in the three lowest sources.
func (l *loader) prepare() error {
	l.config.Agent = AgentModel
	l.config.Mode = l.Mode
	chosen := l.chooseEnvironment()
	if chosen != nil {
		l.config.Environment, l.known = chosen.Name, true
	}
	var err error
	if l.env, err = newEnvSection(&l.config, chosen); err != nil {
		return err
	}
	before := l.snapshot()
	for _, f := range l.env {
		l.markDefaults(f, "env."+f.name)
	}
	if chosen != nil && chosen.Defaults != nil {
		l.applyEnvironment(chosen, before)
	}
	l.defaultOnTampering()
	switch l.Mode {
	case Process:
		l.config.Env.EnsureScoresAreNotSame = false
		l.config.Env.IncludeMessages = true
		l.markMode("env.ensure_scores_are_not_same", "env.include_messages")
	case Serve:
		l.config.Env.TotalSteps = -1 // an environment's number is one of groups
		l.markMode("env.total_steps")
	}
	l.defaults = append(appendObject([]byte(`{"env":`), l.env, true), '}')
	return nil
}

// defaultOnTampering gives training data a policy for rollouts whose agent tampered with
// the verification, unless the environment has one of its own.
func (l *loader) defaultOnTampering() {
	if l.Mode == Evaluate || l.origins["env.on_tampering"].Kind != FromDefault {
		return
	}
	l.config.Env.OnTampering = TamperingUnscored
	if l.Mode == Serve {
		l.config.Env.OnTampering = TamperingZero
	}
	l.markMode("env.on_tampering")
}

// markMode says that the command gave fields their defaults.
func (l *loader) markMode(names ...string) {
	for _, name := range names {
		l.origins[name] = Origin{Kind: FromMode, Name: string(l.Mode)}
	}
}

func (l *loader) applyEnvironment(chosen *Environment, before map[string]string) {
	own := l.config.Own
	chosen.Defaults(&l.config)
	// The bound fields point into these; a default may change what they hold only.
	l.config.Own, l.config.Environment = own, chosen.Name
	o := Origin{Kind: FromEnvironment, Name: chosen.Name}
	for path, text := range l.snapshot() {
		if before[path] != text {
			l.origins[path] = o
		}
	}
	for _, f := range l.env {
		if m := f.checkBounds(f.value); m != "" {
			l.report.at(o, "env."+f.name, m)
		}
	}
}

// markDefaults notes built-in defaults, which for own fields are the environment's.
func (l *loader) markDefaults(f bound, path string) {
	if f.shape == shapeObject {
		for _, inner := range bindStruct(f.value, f.fields) {
			l.markDefaults(inner, join(path, inner.name))
		}
		return
	}
	l.origins[path] = Origin{Kind: FromDefault}
}

// snapshot returns every leaf of the env: section as JSON.
func (l *loader) snapshot() map[string]string {
	out := map[string]string{}
	var walk func(fields []bound, path string)
	walk = func(fields []bound, path string) {
		for _, f := range fields {
			if f.shape == shapeObject {
				walk(bindStruct(f.value, f.fields), join(path, f.name))
				continue
			}
			out[join(path, f.name)] = string(f.appendJSON(nil, f.value))
		}
	}
	walk(l.env, "env")
	return out
}

// newEnvSection binds the fields of the env: section and gives them their built-in
// defaults. It sets c.Own.
func newEnvSection(c *Config, environment *Environment) ([]bound, error) {
	specs, err := structSpecs(envType, "")
	if err != nil {
		return nil, err
	}
	fields := bindStruct(valueOf(&c.Env), specs)
	if environment != nil && environment.Own != nil {
		c.Own = environment.Own()
		own, err := ownFields(c.Own, fields)
		if err != nil {
			return nil, fmt.Errorf("environment %s: %w", environment.Name, err)
		}
		fields = append(fields, own...)
	}
	if err := applyDefaults(fields); err != nil {
		return nil, err
	}
	return fields, nil
}

func ownFields(own any, builtin []bound) ([]bound, error) {
	if own == nil {
		return nil, nil
	}
	v := reflect.ValueOf(own)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("own config must be a pointer to a struct, got %T", own)
	}
	specs, err := structSpecs(v.Elem().Type(), "")
	if err != nil {
		return nil, err
	}
	for _, s := range specs {
		for _, b := range builtin {
			if b.name == s.name {
				return nil, fmt.Errorf("own config declares %q, which every environment has already", s.name)
			}
		}
		s.markOwn()
	}
	return bindStruct(v.Elem(), specs), nil
}

// markOwn marks a field, and those inside it, as an environment's own.
func (s *fieldSpec) markOwn() {
	s.own = true
	for _, f := range s.fields {
		f.markOwn()
	}
}

// chooseEnvironment finds the environment that flags, the file or the lack of choice name.
func (l *loader) chooseEnvironment() *Environment {
	names := environmentNames(l.Environments)
	name, origin := "", Origin{}
	if n := l.top("environment"); n != nil && !isNull(n) {
		origin = l.fileOrigin().at(n)
		if m := wantText(n); m != "" {
			l.report.at(origin, "environment", m)
			return nil
		}
		name = n.Value
	}
	for _, f := range l.Flags {
		if f.Name == "environment" {
			name, origin = f.Value, Origin{Kind: FromFlag, Name: f.Name}
		}
	}
	if origin.Kind == "" {
		if len(l.Environments) == 1 {
			l.origins["environment"] = Origin{Kind: FromDefault}
			return &l.Environments[0]
		}
		if l.File == "" {
			l.report.at(Origin{}, "environment", "none named; pass --environment NAME or --config FILE (there are "+strings.Join(names, ", ")+")")
		} else if l.file != nil {
			return l.inferEnvironment()
		}
		return nil
	}
	l.origins["environment"] = origin
	for i, e := range l.Environments {
		if e.Name == name {
			return &l.Environments[i]
		}
	}
	l.report.at(origin, "environment", "no environment named "+textutil.Quote(name, maxQuoted)+"; "+MeantEnvironment(name, l.Environments))
	return nil
}

// MeantEnvironment says which environment was probably meant by a name that none has, or
// which there are.
func MeantEnvironment(name string, list []Environment) string {
	names := environmentNames(list)
	there := "there are " + strings.Join(names, ", ")
	for _, e := range list {
		if e.answersTo(name) {
			return fmt.Sprintf("did you mean %q?", e.Name)
		}
	}
	if o := originalEnvironment(name); o != nil {
		return fmt.Sprintf("it is the name of %s; %s", o.absent(), there)
	}
	if n := textutil.Nearest(name, names); n != "" {
		return fmt.Sprintf("did you mean %q?", n)
	}
	return there
}

// readTop reads the top-level keys and flags but for the two sections.
func (l *loader) readTop() {
	l.origins["agent"] = Origin{Kind: FromDefault}
	agent := []bound{{fieldSpec: agentSpec(), value: valueOf(&l.config.Agent)}}
	if l.file != nil {
		for i := 0; i+1 < len(l.file.Content); i += 2 {
			key, value := l.file.Content[i], l.file.Content[i+1]
			switch key.Value {
			case "environment", "env", "openai":
			case "agent":
				l.decoder(l.fileOrigin()).field(agent[0], value, "agent")
			default:
				l.unknownTop(key, value)
			}
		}
	}
	for _, f := range l.Flags {
		section, _, _ := strings.Cut(f.Name, ".")
		switch {
		case f.Name == "environment", section == "env" && section != f.Name, section == "openai" && section != f.Name:
		case f.Name == "agent":
			l.readFlag(agent, f, "", f.Name)
		default:
			l.unknownFlag(f)
		}
	}
}

func agentSpec() *fieldSpec {
	return &fieldSpec{name: "agent", path: "agent", shape: shapeText, typ: reflect.TypeFor[string](), affects: true,
		choices: []string{AgentModel, AgentOracle, AgentNop}, def: AgentModel, hasDef: true,
		help: "who acts: model asks the servers, oracle runs the reference solution, nop does nothing"}
}

func (l *loader) readEnv() {
	if n := l.top("env"); n != nil && !isNull(n) {
		d := l.decoder(l.fileOrigin())
		d.unknown = l.unknownKey("env")
		d.object(l.env, n, "env")
	}
	for _, f := range l.Flags {
		if name, ok := strings.CutPrefix(f.Name, "env."); ok {
			l.readFlag(l.env, f, "env", name)
		}
	}
}

// readFlag writes a flag into the field it names; path is where the fields live.
func (l *loader) readFlag(fields []bound, f Flag, path, name string) {
	field, rest, ok := findField(fields, name)
	origin := Origin{Kind: FromFlag, Name: f.Name}
	switch {
	case !ok:
		l.unknownFlag(f)
		return
	case rest != "":
		whole := strings.TrimSuffix(f.Name, "."+rest)
		l.report.at(origin, f.Name, fmt.Sprintf("%s is given as a whole: --%s '%s'", whole, whole, field.example()))
		return
	case field.mode != "" && field.mode != l.Mode && l.Mode != Serve:
		l.report.warn(origin, f.Name, "acts only in "+string(field.mode))
	}
	n, err := flagNode(field.fieldSpec, f.Value)
	if err != nil {
		l.report.at(origin, f.Name, fmt.Sprintf("want %s such as %s: %v", field.wanted(), field.example(), err))
		return
	}
	d := l.decoder(origin)
	d.unknown = l.unknownKey(path)
	d.field(field, n, join(path, name))
}
