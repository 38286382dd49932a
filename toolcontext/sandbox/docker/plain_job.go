package docker

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hermes-env/hermes-env/internal/textutil"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// isName reports whether a shell can have a variable of that name.
func isName(name string) bool {
	for i, r := range []byte(name) {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}

// job is what the shell of one command reads: it goes to the directory, sets the
// variables and runs the program, or the script in the file beside it.
func (d *plain) job(c sandbox.Command, file string) string {
	var b strings.Builder
	if c.Session {
		b.WriteString("__h_base=" + textutil.ShellQuote(d.info.Dir) + "\n")
		b.WriteString("if [ -f " + plainState + " ]; then . " + plainState + " 2>/dev/null; __h_base=${HERMES_ENV_DIR%x}; unset -v HERMES_ENV_DIR; fi\n")
	} else {
		b.WriteString("__h_base=" + textutil.ShellQuote(d.info.Dir) + "\n")
	}
	d.enterDirectory(&b, c)
	names := slices.Sorted(maps.Keys(c.Env))
	for i, name := range names {
		if !isName(name) {
			continue // handed over by the engine
		}
		if c.Session {
			fmt.Fprintf(&b, "__h_had%d=${%s+x} __h_old%d=${%s-}\n", i, name, i, name)
		}
		b.WriteString("export " + name + "=" + textutil.ShellQuote(c.Env[name]) + "\n")
	}
	if c.Args != nil {
		b.WriteString("unset -v __h_base\nexec")
		for _, a := range c.Args {
			b.WriteString(" " + textutil.ShellQuote(a))
		}
		b.WriteString("\n")
		return b.String()
	}
	if !c.Session {
		b.WriteString("unset -v __h_base\n. " + file + ".script\n")
		return b.String()
	}
	d.dumpState(&b, c, names, file)
	b.WriteString("trap __h_dump EXIT\n. " + file + ".script\n")
	b.WriteString("{ set -- $?; set +exu; } 2>/dev/null; __h_dump; exit $1\n")
	return b.String()
}

// plainDir holds what passes between the harness and a container without the server.
const plainDir = "/.hermes-env"

// plainState is where a session is kept, inside the container: nothing of it is
// read outside.
const plainState = plainDir + "/state"

// enterDirectory goes to the command's directory, or to the nearest one above the
// session's when that is gone.
func (d *plain) enterDirectory(b *strings.Builder, c sandbox.Command) {
	b.WriteString(`__h_d=$__h_base
while ! cd -- "$__h_d" 2>/dev/null; do case $__h_d in */?*) __h_d=${__h_d%/*} ;; *) __h_d=/ ;; esac; [ -n "$__h_d" ] || __h_d=/; done
`)
	if c.Dir == "" {
		b.WriteString("[ \"$__h_d\" = \"$__h_base\" ] || { printf '[the working directory %s is gone; now in %s]\\n' \"$__h_base\" \"$__h_d\" >&2; __h_base=$__h_d; }\n")
		b.WriteString("unset -v __h_d\n")
		return
	}
	dir := textutil.ShellQuote(c.Dir)
	if c.Dir == "~" || strings.HasPrefix(c.Dir, "~/") {
		dir = textutil.ShellQuote(d.info.Home + c.Dir[1:])
	}
	b.WriteString("unset -v __h_d\n[ -d " + dir + " ] || { printf 'sh: cd: %s: No such directory\\n' " + dir + " >&2; exit 126; }\n")
	b.WriteString("cd -- " + dir + " || exit 126\n")
}

// dumpState defines what writes the session's state after a script: its directory
// and exported variables, in the shell's own quoting. Variables for this command only
// get their old values back, unless the script changed them; those that no program
// could be started with are dropped.
func (d *plain) dumpState(b *strings.Builder, c sandbox.Command, names []string, file string) {
	if c.Dir != "" {
		b.WriteString("__h_here=$(pwd -P; echo x)\n")
	}
	b.WriteString("__h_dump() {\n{ set +exuCf; } 2>/dev/null; [ -f " + file + ".done ] && return\n(\numask 022\n")
	b.WriteString("__h_now=$(case \"$(pwd -P 2>/dev/null)\" in (/*) pwd -P ;; (*) printf '%s\\n' \"$PWD\" ;; esac; echo x)\n")
	if c.Dir != "" {
		b.WriteString("if [ \"$__h_now\" = \"$__h_here\" ]; then HERMES_ENV_DIR=${__h_base}x; else HERMES_ENV_DIR=${__h_now%?x}x; fi\n")
	} else {
		b.WriteString("HERMES_ENV_DIR=${__h_now%?x}x\n")
	}
	for i, name := range names {
		if isName(name) {
			fmt.Fprintf(b, "if [ \"${%s-}\" = %s ]; then if [ -n \"$__h_had%d\" ]; then export %s=\"$__h_old%d\"; else unset -v %s; fi; fi\n",
				name, textutil.ShellQuote(c.Env[name]), i, name, i, name)
		}
	}
	b.WriteString("unset -v HERMES_ENV_SANDBOX PWD OLDPWD SHLVL _ 2>/dev/null\n")
	b.WriteString("__h_sum=0\nexport -p >" + file + ".names\n")
	b.WriteString("while IFS= read -r __h_l; do case $__h_l in 'export '*=*|'declare -x '*=*) ;; *) continue ;; esac\n" +
		"__h_n=${__h_l#export }; __h_n=${__h_n#declare -x }; __h_n=${__h_n%%=*}\n" +
		"case $__h_n in ''|[0-9]*|*[!A-Za-z0-9_]*) continue ;; esac\n" +
		"eval \"__h_v=\\${$__h_n-}\"; __h_sum=$((__h_sum+${#__h_v}))\n" +
		"if [ ${#__h_v} -gt 130000 ] || [ $__h_sum -gt 1000000 ]; then unset -v \"$__h_n\"; __h_sum=$((__h_sum-${#__h_v})); fi\n" +
		"done <" + file + ".names\n")
	b.WriteString("export HERMES_ENV_DIR\n{\n")
	for _, name := range d.baseNames {
		fmt.Fprintf(b, "[ -n \"${%s+x}\" ] || echo unset -v %s\n", name, name)
	}
	b.WriteString("export -p; } >" + file + ".state && : >" + file + ".done\n) 2>/dev/null\n}\n")
}
