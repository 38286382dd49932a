//go:build amd64 || arm64

package supervise

import (
	"path"
	"slices"
	"strings"
)

// level says how far a process is trusted.
type level int

const (
	untrusted level = iota
	installer       // a package manager, or a program that it runs: its files are as good as those of the image
	carrier         // a plain tool, such as cp, that was given untrusted files: what it writes is untrusted
	program         // a program that the command's script runs, such as pytest
	launcher        // one that only starts others, such as timeout or uv
	script          // a shell that runs the command's script
)

// shells run the command's script and parts of it.
var shells = []string{"sh", "bash", "dash", "ash", "zsh", "ksh", "busybox"}

// launchers start another program and wait for it. What that may do depends on the
// program alone.
var launchers = []string{
	"env", "timeout", "nice", "nohup", "stdbuf", "setsid", "time", "sudo", "su", "runuser", "setpriv", "gosu", "chrt", "taskset", "ionice", "flock",
	"xargs", "find", "xvfb-run", "script", "unbuffer", "uv", "uvx", "pipx", "poetry", "hatch", "pdm", "conda", "mamba", "micromamba",
}

// plainTools read and write data and run no code that their arguments name.
var plainTools = []string{
	"cp", "mv", "cat", "tee", "echo", "printf", "jq", "grep", "egrep", "fgrep", "head", "tail", "sort", "uniq", "cut", "tr", "wc", "diff", "cmp", "comm", "ls", "stat",
	"test", "[", "true", "false", "mkdir", "rmdir", "touch", "chmod", "chown", "rm", "ln", "tar", "gzip", "gunzip", "zip", "unzip", "xz", "zstd", "bc", "expr", "date", "sleep",
	"md5sum", "sha1sum", "sha256sum", "sha512sum", "cksum", "base64", "xxd", "od", "hexdump", "curl", "wget", "file", "realpath", "readlink", "basename", "dirname", "id", "whoami",
	"pytest", "py.test", "ps", "pgrep", "pkill", "kill", "killall", "nc", "ss", "lsof",
}

// installers change programs and libraries, and run programs of packages to do so.
var installers = []string{
	"apt", "apt-get", "aptitude", "dpkg", "apk", "yum", "dnf", "microdnf", "rpm", "zypper", "pacman", "add-apt-repository", "apt-key",
	"update-alternatives", "update-ca-certificates", "ldconfig", "locale-gen",
}

// installerConfigs can name programs that package managers run.
var installerConfigs = []string{"/etc/apt/apt.conf", "/etc/apt/apt.conf.d", "/etc/dpkg", "/etc/apk", "/etc/yum", "/etc/dnf", "/etc/zypp"}

// builders run what a file of the working directory says.
var builders = []string{"make", "gmake", "ninja", "cmake", "npm", "npx", "yarn", "pnpm", "bun", "cargo", "go", "mvn", "gradle", "dotnet", "just", "rake", "tox", "nox", "meson", "bazel", "lake", "dune", "stack", "cabal", "mix", "sbt"}

// interpreter says which options of an interpreter name code.
type interpreter struct {
	inline []string // an option followed by code
	module []string // an option followed by the name of a module
	file   []string // an option followed by a file of code, beside the program
	value  []string // an option followed by something else
}

var interpreters = map[string]interpreter{
	"python":  {inline: []string{"-c"}, module: []string{"-m"}, value: []string{"-W", "-X", "--check-hash-based-pycs"}},
	"pypy":    {inline: []string{"-c"}, module: []string{"-m"}, value: []string{"-W", "-X"}},
	"node":    {inline: []string{"-e", "--eval", "-p", "--print"}, file: []string{"-r", "--require", "--import", "--loader"}},
	"deno":    {},
	"perl":    {inline: []string{"-e", "-E"}, value: []string{"-I"}},
	"ruby":    {inline: []string{"-e"}, file: []string{"-r"}, value: []string{"-I", "-C"}},
	"php":     {inline: []string{"-r"}, file: []string{"-f"}, value: []string{"-d", "-c"}},
	"lua":     {inline: []string{"-e"}, value: []string{"-l"}},
	"Rscript": {inline: []string{"-e"}},
	"julia":   {inline: []string{"-e", "-E"}, value: []string{"--project"}},
	"sh":      {inline: []string{"-c"}, value: []string{"-o", "+o", "-O", "+O", "--rcfile", "--init-file"}},
}

// kindOf returns the name an interpreter has in the table: python3.12 is python.
func kindOf(base string) (string, bool) {
	if slices.Contains(shells, base) {
		return "sh", true
	}
	trimmed := strings.TrimRight(base, "0123456789.")
	for _, name := range []string{base, trimmed} {
		if _, ok := interpreters[name]; ok {
			return name, true
		}
	}
	return "", false
}

// code is what an interpreter was told to run.
type code struct {
	files  []string // of code, as they were named
	module string   // the name of a module
	text   string   // the code among the arguments
	inline bool     // code among the arguments, or from standard input
	input  bool     // code from standard input
}

// codeOf reads the arguments of an interpreter, its own name included.
func codeOf(kind string, argv []string) code {
	in := interpreters[kind]
	var c code
	for i := 1; i < len(argv); i++ {
		a := argv[i]
		value := ""
		if i+1 < len(argv) {
			value = argv[i+1]
		}
		switch {
		case slices.Contains(in.inline, a) || kind == "sh" && strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.Contains(a, "c"):
			c.inline, c.text = true, value
			return c
		case slices.Contains(in.module, a):
			c.module = value
			return c
		case slices.Contains(in.file, a):
			c.files = append(c.files, value)
			i++
		case slices.Contains(in.value, a):
			i++
		case a == "--":
			if value != "" {
				c.files = append(c.files, value)
			}
			return c
		case strings.HasPrefix(a, "-") || kind == "sh" && strings.HasPrefix(a, "+"):
		default:
			c.files = append(c.files, a)
			return c
		}
	}
	c.inline, c.input = true, true
	return c
}

// execution is a program that a process is about to become.
type execution struct {
	file   string // its path, without links
	argv   []string
	script bool // the file begins with #!
	// resolve returns where a path among the arguments leads.
	resolve func(name string) place
	input   func() string // what standard input is
	foreign func(name string) bool
	agents  func(name string) bool // the agent's own code is there
	tests   func(name string) bool // it is below what is sealed, or that itself
	code    func(name string) bool // programs and libraries are there
	written func(dir string) bool  // the tests wrote something below
	read    func(text string) bool // it is the content of a file of the agent's that was read
	sealed  func(name string) bool
	// hooked says that package managers may run programs that are not of the image.
	hooked  bool
	workdir string
	// mixed says that it is started by a compiler or builder that works on files of the
	// tests, too.
	mixed bool
}

// next returns the level of a process of level from after it has become another program.
func (x execution) next(from level) level {
	if from == untrusted || x.foreign(x.file) {
		return untrusted
	}
	base := path.Base(x.file)
	kind, interprets := kindOf(base)
	switch {
	case from == installer:
		if interprets && slices.ContainsFunc(codeOf(kind, x.argv).files, x.namesForeign) {
			return untrusted
		}
		return installer
	case from != carrier && slices.Contains(installers, base) && !x.hooked && !x.namesCode():
		return installer
	}
	if from == program || from == carrier {
		// What tests start are the programs they test, or helpers that need no trust.
		return untrusted
	}
	switch {
	case x.script:
		if x.sealed(x.file) {
			return script
		}
		return program
	case kind == "sh":
		return x.shell()
	case interprets:
		return x.interpreted(kind)
	case slices.Contains(launchers, base):
		return launcher
	case slices.Contains(plainTools, base):
		if slices.ContainsFunc(x.argv[min(1, len(x.argv)):], x.namesForeign) {
			return carrier
		}
		return program
	case x.code(x.file) && x.foreign(x.input()): // such as sqlite3 with a script
		return untrusted
	case slices.Contains(builders, base) && x.foreign(x.workdir), slices.ContainsFunc(x.argv[min(1, len(x.argv)):], x.namesForeign):
		return untrusted
	}
	return program
}

// namesCode says whether the program, or one of its arguments, is foreign.
func (x execution) namesCode() bool {
	return x.foreign(x.file) || slices.ContainsFunc(x.argv[min(1, len(x.argv)):], x.namesForeign)
}

// shell is the level of a shell that the script starts.
func (x execution) shell() level {
	if len(x.argv) > 1 && path.Base(x.file) == "busybox" {
		if name := path.Base(x.argv[0]); !slices.Contains(shells, name) {
			return program // an applet
		}
	}
	if x.interprets("sh", x.foreign) {
		return untrusted
	}
	return script
}

func (x execution) interpreted(kind string) level {
	if x.interprets(kind, x.foreign) {
		return untrusted
	}
	return program
}

// interprets says whether an interpreter runs code for which is holds: a file, a module
// or its standard input. Code among the arguments is judged by whether it was read from a
// file of the agent's.
func (x execution) interprets(kind string, is func(name string) bool) bool {
	c := codeOf(kind, x.argv)
	if slices.ContainsFunc(c.files, func(arg string) bool { return x.names(arg, is) }) || c.input && is(x.input()) {
		return true
	}
	if c.text != "" && x.read(c.text) {
		return true
	}
	if c.module == "" {
		return false
	}
	top, _, _ := strings.Cut(c.module, ".")
	return slices.ContainsFunc([]string{top, top + ".py"}, func(name string) bool {
		p := x.resolve(name)
		return p.exists && is(p.path)
	})
}

// namesForeign says whether an argument is the path of something foreign.
func (x execution) namesForeign(arg string) bool { return x.names(arg, x.foreign) }

// names says whether an argument is the path of something for which is holds.
func (x execution) names(arg string, is func(name string) bool) bool {
	if _, value, ok := strings.Cut(arg, "="); ok && strings.HasPrefix(arg, "-") {
		arg = value
	}
	if arg == "" || strings.HasPrefix(arg, "-") || len(arg) > maxPath {
		return false
	}
	p := x.resolve(arg)
	return p.exists && is(p.path)
}

// testRunners run code of the tests, wherever they were installed.
var testRunners = []string{
	"pytest", "py.test", "unittest", "nose2", "tox", "nox", "jest", "vitest", "mocha", "ava", "tap", "jasmine", "karma", "cypress", "playwright", "bats", "rspec", "minitest",
	"phpunit", "prove", "busted", "ctest", "gotestsum",
}

// runtimes run code of files among their arguments.
var runtimes = []string{
	"java", "mono", "scala", "kotlin", "groovy", "erl", "escript", "elixir", "ocaml", "ocamlrun", "racket", "guile", "sbcl", "clisp", "ecl", "awk", "gawk", "mawk", "tclsh", "wish",
	"expect", "octave", "swipl", "gforth", "runhaskell", "runghc", "lli", "wasmtime", "wasmer", "wine", "qemu-x86_64", "qemu-aarch64", "qemu-arm", "qemu-riscv64", "qemu-i386",
}

// runsAgent says whether a process runs the agent's code from now on: the program is the
// agent's, or is told to work on files of the agent's and on none of the tests'. Code of
// the agent's that tests load into their own process is not meant.
func (x execution) runsAgent() bool {
	base := path.Base(x.file)
	args := x.argv[min(1, len(x.argv)):]
	kind, interprets := kindOf(base)
	switch {
	case slices.Contains(testRunners, base):
		return false
	case interprets:
		return x.interpretsAgent(kind)
	case x.agents(x.file):
		return !slices.Contains(launchers, base) && !slices.Contains(plainTools, base) || !x.code(x.file)
	case slices.Contains(launchers, base), slices.Contains(plainTools, base), slices.Contains(installers, base):
		return false
	case slices.Contains(runtimes, base):
		return x.runtimeOfAgent(args)
	case x.mixed || x.mixes():
		return false
	case slices.Contains(builders, base):
		return x.agents(x.workdir) || slices.ContainsFunc(args, x.namesAgents)
	}
	// Compilers and the like. Other programs than those of the system belong to the tests.
	return x.code(x.file) && !x.script && (slices.ContainsFunc(args, x.namesAgents) || x.agents(x.input()))
}

// mixes says whether a compiler or builder works on files of the tests, too.
func (x execution) mixes() bool {
	base := path.Base(x.file)
	if _, interprets := kindOf(base); interprets || slices.Contains(launchers, base) || slices.Contains(plainTools, base) || slices.Contains(testRunners, base) || !x.code(x.file) {
		return false
	}
	return x.tests(x.workdir) || slices.ContainsFunc(x.argv[min(1, len(x.argv)):], func(arg string) bool { return x.names(arg, x.tests) }) ||
		slices.Contains(builders, base) && x.written(x.workdir)
}

func (x execution) interpretsAgent(kind string) bool {
	c := codeOf(kind, x.argv)
	switch {
	case slices.ContainsFunc(c.files, func(f string) bool { return slices.Contains(testRunners, path.Base(f)) }):
		return false
	case x.interprets(kind, x.agents):
		return true
	}
	// Interpreters are often installed by agents.
	installed := x.code(x.file) || path.Base(path.Dir(x.file)) == "bin"
	return x.agents(x.file) && !installed && !slices.ContainsFunc(c.files, func(arg string) bool { return x.names(arg, x.tests) })
}

// runtimeOfAgent says whether the arguments of a runtime name code of the agent's and none
// of the tests'.
func (x execution) runtimeOfAgent(args []string) bool {
	found := false
	for _, arg := range args {
		for _, name := range strings.FieldsFunc(arg, func(r rune) bool { return strings.ContainsRune(":;,=", r) }) {
			if len(name) > maxPath {
				continue
			}
			p := x.resolve(name)
			code := p.dir || slices.Contains(codeEndings, path.Ext(p.path))
			if code && x.tests(p.path) {
				return false
			}
			class := x.resolve(name + ".class")
			found = found || p.exists && x.agents(p.path) || class.exists && x.agents(class.path)
		}
	}
	return found
}

func (x execution) namesAgents(arg string) bool { return x.names(arg, x.agents) }

// source is what a copier is told to copy.
type source struct {
	name string // as it was named
	place
}

// copies returns what a copier is told to copy, nil for another program.
func (x execution) copies() []source {
	base := path.Base(x.file)
	if base == "busybox" && len(x.argv) > 0 {
		base = path.Base(x.argv[0])
	}
	if !slices.Contains(copiers, base) {
		return nil
	}
	var list []source
	for _, arg := range x.argv[min(1, len(x.argv)):] {
		if !strings.HasPrefix(arg, "-") && len(arg) <= maxPath {
			list = append(list, source{arg, x.resolve(arg)})
		}
	}
	return list[:max(0, len(list)-1)]
}

// copiers have their target as their last argument.
var copiers = []string{"cp", "mv", "ln"}

// carries says whether a plain tool is given files of the agent's, so that what it writes
// may be copies of them.
func (x execution) carries() bool {
	base := path.Base(x.file)
	args := x.argv[min(1, len(x.argv)):]
	if slices.Contains(copiers, base) {
		args = args[:max(0, len(args)-1)]
	}
	return slices.Contains(plainTools, base) && slices.ContainsFunc(args, x.namesAgents)
}
