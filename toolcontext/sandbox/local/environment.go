package local

import (
	"maps"
	"slices"
	"strings"
)

// MarkerVariable carries the sandbox's id and the command's number, so that a
// process can be told from its environment. Its value is never taken from outside.
const MarkerVariable = "HERMES_ENV_SANDBOX"

// allowed are the variables of the harness that commands get. The list names what
// programs need to find each other and to speak the user's language; everything
// else stays out, because keys hide under names no block-list knows.
var allowed = [...]string{"PATH", "LANG", "LANGUAGE", "TZ", "USER", "LOGNAME"}

const fallbackPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// inherited picks from environ what the allow-list and pass let through, or all.
func inherited(environ, pass []string, all bool) map[string]string {
	env := map[string]string{}
	for _, entry := range environ {
		name, value, ok := strings.Cut(entry, "=")
		if !ok || name == "" {
			continue
		}
		if all && name != MarkerVariable || strings.HasPrefix(name, "LC_") || slices.Contains(allowed[:], name) || slices.Contains(pass, name) {
			env[name] = value
		}
	}
	if env["PATH"] == "" {
		env["PATH"] = fallbackPath
	}
	return env
}

// baseEnvironment is what every command of a sandbox starts from.
func (s *Sandbox) baseEnvironment() map[string]string {
	env := maps.Clone(s.provider.inherited)
	env["HOME"] = s.info.Home
	if env["TERM"] == "" {
		env["TERM"] = "dumb"
	}
	if s.provider.config.Place == nil {
		env["TMPDIR"] = s.info.TempDir
		env["SHELL"] = s.provider.config.Shell
	}
	env["PAGER"] = "cat"
	env["GIT_PAGER"] = "cat"
	maps.Copy(env, s.spec.Env)
	return env
}

// environmentList turns env into the form a process takes, in a fixed order.
func environmentList(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}
