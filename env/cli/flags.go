package cli

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/hermes-env/hermes-env/env/config"
)

// configFlags are the flags --env.* and --openai.*. They are made from the fields
// of the configuration, so that a field needs no second declaration, and kept as
// raw text: the configuration knows each field's type.
type configFlags struct {
	values reflect.Value // pointer to a struct of rawFlag and rawBool fields
	names  []string      // flag name of each field of it
}

// rawFlag holds the text of a flag as it was given, the last one if given twice.
type rawFlag struct {
	set  bool
	text string
}

// Decode takes the flag's value from the command line.
func (f *rawFlag) Decode(ctx *kong.DecodeContext) error {
	token, err := ctx.Scan.PopValue("value")
	if err != nil {
		return err
	}
	f.set, f.text = true, token.String()
	return nil
}

// rawBool is a rawFlag whose value may be left out: --env.grace_turn,
// --env.grace_turn=false and --env.grace_turn false all work.
type rawBool struct{ rawFlag }

// IsBool tells kong that the value may be left out.
func (f *rawBool) IsBool() bool { return true }

// Decode takes the value where there is one.
func (f *rawBool) Decode(ctx *kong.DecodeContext) error {
	f.set, f.text = true, "true"
	next := ctx.Scan.Peek()
	given := next.Type == kong.FlagValueToken
	if next.Type == kong.UntypedToken {
		switch strings.ToLower(next.String()) {
		case "true", "false", "yes", "no", "on", "off", "1", "0":
			given = true
		}
	}
	if given {
		f.text = ctx.Scan.Pop().String()
	}
	return nil
}

// rawAny is a rawFlag that takes whatever follows it, or nothing. It stands for
// fields that have no type here.
type rawAny struct{ rawFlag }

// IsBool tells kong that the value may be left out.
func (f *rawAny) IsBool() bool { return true }

// Decode takes the next word as the value unless it is a flag.
func (f *rawAny) Decode(ctx *kong.DecodeContext) error {
	f.set, f.text = true, "true"
	next := ctx.Scan.Peek()
	if next.Type == kong.FlagValueToken || next.Type == kong.UntypedToken && !strings.HasPrefix(next.String(), "--") {
		f.text = ctx.Scan.Pop().String()
	}
	return nil
}

// newConfigFlags makes one flag per field of the configuration, the fields of
// all environments included.
func newConfigFlags(environments []config.Environment) (*configFlags, error) {
	common, err := config.Fields(nil)
	if err != nil {
		return nil, err
	}
	servers, err := config.ServerFields()
	if err != nil {
		return nil, err
	}
	fields := slices.Concat(common, servers)
	for _, e := range environments {
		all, err := e.Fields()
		if err != nil {
			return nil, err
		}
		for _, f := range all {
			if f.Own {
				f.Help += " (" + e.Name + ")"
				fields = append(fields, f)
			}
		}
	}
	c := &configFlags{}
	seen := make(map[string]bool)
	var members []reflect.StructField
	add := func(name, tag string, kind reflect.Type) {
		seen[name] = true
		members = append(members, reflect.StructField{
			Name: fmt.Sprintf("F%d", len(members)),
			Type: kind,
			Tag:  reflect.StructTag(fmt.Sprintf(`name:%q `, name) + tag),
		})
		c.names = append(c.names, name)
	}
	for _, f := range fields {
		name := f.Flag()
		if seen[name] {
			continue // two environments may have a field of the same name
		}
		kind := reflect.TypeFor[rawFlag]()
		if f.Bool {
			kind = reflect.TypeFor[rawBool]()
		}
		tag := fmt.Sprintf(`help:%q group:%q`, helpOf(f), f.Section)
		if !f.Bool {
			tag += fmt.Sprintf(` placeholder:%q`, strings.ToUpper(strings.ReplaceAll(f.Type, " ", "-")))
		}
		add(name, tag, kind)
	}
	// Fields of the original framework that do nothing here get a flag too, out of
	// sight, so that the configuration can say why.
	for _, f := range config.Unsupported() {
		name := strings.TrimPrefix(f.Section+"."+f.Name, ".")
		if !seen[name] {
			add(name, `hidden:""`, reflect.TypeFor[rawAny]())
		}
	}
	c.values = reflect.New(reflect.StructOf(members))
	return c, nil
}

func helpOf(f config.Field) string {
	help := f.Help
	if len(f.Choices) > 0 {
		help += "; one of " + strings.Join(f.Choices, ", ")
	}
	if f.Default != "" && f.Default != "null" && f.Default != `""` {
		value := strings.Trim(f.Default, `"`)
		if strings.Contains(value, "/") && !strings.Contains(value, ":") {
			value = "default " + value // [a/b] alone is a link to kong, which drops the brackets
		}
		help += " [" + value + "]"
	}
	// kong would read ${…} as a variable of its own.
	return strings.ReplaceAll(help, "${", "$${")
}

// plugin returns what kong embeds into a command.
func (c *configFlags) plugin() kong.Plugins { return kong.Plugins{c.values.Interface()} }

// given returns the flags that were set.
func (c *configFlags) given() []config.Flag {
	var flags []config.Flag
	v := c.values.Elem()
	for i, name := range c.names {
		var raw rawFlag
		switch f := v.Field(i).Interface().(type) {
		case rawFlag:
			raw = f
		case rawBool:
			raw = f.rawFlag
		case rawAny:
			raw = f.rawFlag
		}
		if raw.set {
			flags = append(flags, config.Flag{Name: name, Value: raw.text})
		}
	}
	return flags
}
