package cli

import (
	"fmt"
	"sort"
	"strings"

	"github.com/alecthomas/kong"
)

type completeCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"Shell to print the script for: bash, zsh or fish."`
}

// Run prints a script that completes commands and flags.
func (c *completeCommand) Run(s *session) error {
	words := make(map[string][]string) // by command; "" holds the commands
	for _, node := range s.parser.Model.Children {
		if node.Type != kong.CommandNode {
			continue
		}
		words[""] = append(words[""], node.Name)
		for _, group := range node.AllFlags(true) {
			for _, f := range group {
				words[node.Name] = append(words[node.Name], "--"+f.Name)
			}
		}
	}
	commands := append([]string(nil), words[""]...)
	sort.Strings(commands)
	var b strings.Builder
	switch c.Shell {
	case "fish":
		for _, command := range commands {
			fmt.Fprintf(&b, "complete -c %s -n __fish_use_subcommand -f -a %s\n", s.name, command)
			for _, flag := range words[command] {
				fmt.Fprintf(&b, "complete -c %s -n '__fish_seen_subcommand_from %s' -l %s\n", s.name, command, strings.TrimPrefix(flag, "--"))
			}
		}
	default:
		if c.Shell == "zsh" {
			b.WriteString("autoload -U +X bashcompinit && bashcompinit\n")
		}
		function := "_" + strings.NewReplacer("-", "_", ".", "_").Replace(s.name)
		fmt.Fprintf(&b, "%s() {\n  local word=\"${COMP_WORDS[COMP_CWORD]}\" list=\n", function)
		fmt.Fprintf(&b, "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n    COMPREPLY=($(compgen -W %q -- \"$word\"))\n    return\n  fi\n", strings.Join(commands, " "))
		b.WriteString("  case \"${COMP_WORDS[1]}\" in\n")
		for _, command := range commands {
			fmt.Fprintf(&b, "    %s) list=%q ;;\n", command, strings.Join(words[command], " "))
		}
		b.WriteString("  esac\n  case \"$word\" in\n    -*) COMPREPLY=($(compgen -W \"$list\" -- \"$word\")) ;;\n    *) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n  esac\n}\n")
		fmt.Fprintf(&b, "complete -F %s %s\n", function, s.name)
	}
	_, err := fmt.Fprint(s.app.Stdout, b.String())
	return err
}
