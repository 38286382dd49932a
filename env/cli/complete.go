package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/parsers"
	"github.com/hermes-env/hermes-env/toolcontext/tools"
	"github.com/hermes-env/hermes-env/trajectories"
)

type completeCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"Shell to print the script for: bash, zsh or fish."`
}

// completion is what a shell is told about one command.
type completion struct {
	name  string
	sub   []string // sub-commands, or the words its argument may be
	flags []string // with dashes
}

// Run prints a script that completes commands, flags and their values.
func (c *completeCommand) Run(s *session) error {
	values, err := s.flagValues()
	if err != nil {
		return err
	}
	list := s.completions()
	script := bashCompletion(s.name, list, values)
	switch c.Shell {
	case "zsh":
		script = "autoload -U +X bashcompinit && bashcompinit\n" + script
	case "fish":
		script = fishCompletion(s.name, list, values)
	}
	_, err = fmt.Fprint(s.app.Stdout, script)
	return err
}

// completions describes the commands, by name.
func (s *session) completions() []completion {
	var list []completion
	for _, node := range s.parser.Model.Children {
		if node.Type != kong.CommandNode || node.Hidden {
			continue
		}
		c := completion{name: node.Name, flags: flagNames(node)}
		for _, child := range node.Children {
			if child.Type == kong.CommandNode && !child.Hidden {
				c.sub = append(c.sub, child.Name)
				c.flags = append(c.flags, flagNames(child)...)
			}
		}
		switch node.Name {
		case "completion":
			c.sub = []string{"bash", "zsh", "fish"}
		case "envs":
			c.sub = s.environmentNames()
		}
		slices.Sort(c.flags)
		c.flags = slices.Compact(c.flags)
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b completion) int { return strings.Compare(a.name, b.name) })
	return list
}

func flagNames(node *kong.Node) []string {
	var names []string
	for _, group := range node.AllFlags(true) {
		for _, f := range group {
			names = append(names, "--"+f.Name)
		}
	}
	return names
}

func (s *session) environmentNames() []string {
	var names []string
	for _, d := range s.app.Environments {
		names = append(names, d.Name)
	}
	return names
}

// flagValues lists the values that flags may have, by name with dashes, where they are
// few and known.
func (s *session) flagValues() (map[string][]string, error) {
	values := map[string][]string{}
	err := kong.Visit(s.parser.Model, func(node kong.Visitable, next kong.Next) error {
		if f, ok := node.(*kong.Flag); ok && f.Enum != "" {
			add := values["--"+f.Name]
			for _, word := range strings.Split(f.Enum, ",") {
				add = append(add, strings.TrimSpace(word))
			}
			values["--"+f.Name] = add
		}
		return next(nil)
	})
	if err != nil {
		return nil, err
	}
	fields := config.TopFields()
	servers, err := config.ServerFields()
	if err != nil {
		return nil, err
	}
	fields = append(fields, servers...)
	for _, e := range s.app.configEnvironments() {
		own, err := e.Fields()
		if err != nil {
			return nil, err
		}
		fields = append(fields, own...)
	}
	for _, f := range fields {
		if len(f.Choices) > 0 {
			values["--"+f.Flag()] = append(values["--"+f.Flag()], f.Choices...)
		}
	}
	var outcomes []string
	for _, o := range trajectories.Outcomes() {
		outcomes = append(outcomes, string(o))
	}
	registry, err := tools.NewRegistry(tools.Builtin()...)
	if err != nil {
		return nil, err
	}
	for names, words := range map[string][]string{
		"--environment":          s.environmentNames(),
		"--env.terminal_backend": backends(), "--terminal-env": backends(),
		"--env.tool_call_parser": parsers.Names(), "--parser": parsers.Names(),
		"--env.enabled_toolsets": registry.Toolsets(), "--env.disabled_toolsets": registry.Toolsets(),
		"--env.distribution": tools.Distributions(), "--distribution": tools.Distributions(),
		"--openai.server_type": serverTypes(),
		"--retry-outcome":      outcomes,
	} {
		values[names] = append(values[names], words...)
	}
	for name, words := range values {
		slices.Sort(words)
		values[name] = slices.Compact(words)
	}
	return values, nil
}

// bashCompletion is a script for bash, which splits words at = too.
func bashCompletion(program string, list []completion, values map[string][]string) string {
	var b strings.Builder
	function := "_" + strings.NewReplacer("-", "_", ".", "_").Replace(program)
	fmt.Fprintf(&b, `%s() {
  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" list= sub= values=
  if [ "$cur" = "=" ]; then cur=""; elif [ "$prev" = "=" ]; then prev="${COMP_WORDS[COMP_CWORD-2]}"; fi
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W %q -- "$cur"))
    return
  fi
  case "$prev" in
`, function, strings.Join(commandNames(list), " ")+" help")
	for _, name := range sortedNames(values) {
		fmt.Fprintf(&b, "    %s) values=%q ;;\n", name, strings.Join(values[name], " "))
	}
	b.WriteString(`  esac
  if [ -n "$values" ]; then
    COMPREPLY=($(compgen -W "$values" -- "$cur"))
    return
  fi
  case "${COMP_WORDS[1]}" in
`)
	for _, c := range list {
		fmt.Fprintf(&b, "    %s) sub=%q list=%q ;;\n", c.name, strings.Join(c.sub, " "), strings.Join(c.flags, " "))
	}
	fmt.Fprintf(&b, "    help) sub=%q ;;\n", strings.Join(commandNames(list), " "))
	fmt.Fprintf(&b, `  esac
  case "$cur" in
    -*) COMPREPLY=($(compgen -W "$list" -- "$cur")); return ;;
  esac
  if [ "$COMP_CWORD" -eq 2 ] && [ -n "$sub" ]; then
    COMPREPLY=($(compgen -W "$sub" -- "$cur"))
    return
  fi
  COMPREPLY=($(compgen -f -- "$cur"))
}
complete -F %s -o filenames %s
`, function, program)
	return b.String()
}

// fishCompletion is a script for fish.
func fishCompletion(program string, list []completion, values map[string][]string) string {
	var b strings.Builder
	for _, c := range append([]completion{{name: "help", sub: commandNames(list)}}, list...) {
		fmt.Fprintf(&b, "complete -c %s -n __fish_use_subcommand -f -a %s\n", program, c.name)
		if len(c.sub) > 0 {
			words := strings.Join(c.sub, " ")
			fmt.Fprintf(&b, "complete -c %s -n '__fish_seen_subcommand_from %s; and not __fish_seen_subcommand_from %s' -f -a '%s'\n", program, c.name, words, words)
		}
		for _, flag := range c.flags {
			choice := ""
			if words := values[flag]; len(words) > 0 {
				choice = " -x -a '" + strings.Join(words, " ") + "'"
			}
			fmt.Fprintf(&b, "complete -c %s -n '__fish_seen_subcommand_from %s' -l %s%s\n", program, c.name, strings.TrimPrefix(flag, "--"), choice)
		}
	}
	return b.String()
}

func commandNames(list []completion) []string {
	names := make([]string, len(list))
	for i, c := range list {
		names[i] = c.name
	}
	return names
}

func sortedNames(values map[string][]string) []string {
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
