package cli

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// checkFlags refuses what the parser lets pass: a flag at the end of the line that lacks its value,
// and a second configuration file, which would silently replace the first.
func checkFlags(parsed *kong.Context, args []string) error {
	needsValue := func(arg string) bool {
		for _, f := range parsed.Flags() {
			if arg == "--"+f.Name || f.Short != 0 && arg == "-"+string(f.Short) {
				return !f.IsBool() && !f.IsCounter()
			}
		}
		return false
	}
	if n := len(args); n > 0 && needsValue(args[n-1]) && (n == 1 || !needsValue(args[n-2])) {
		return fmt.Errorf("flag %s needs a value", args[n-1])
	}
	files := 0
	for _, p := range parsed.Path {
		if p.Flag != nil && p.Flag.Name == "config" {
			files++
		}
	}
	if files > 1 {
		var names []string
		for i, arg := range args {
			if name, ok := strings.CutPrefix(arg, "--config="); ok {
				names = append(names, name)
			} else if (arg == "--config" || arg == "-c") && i+1 < len(args) {
				names = append(names, args[i+1])
			}
		}
		return fmt.Errorf("--config is given %d times (%s); a run has one configuration file, and flags change single fields", files, strings.Join(names, ", "))
	}
	return nil
}
