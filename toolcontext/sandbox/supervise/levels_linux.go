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
	inline bool     // code among the arguments, or from standard input
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
			c.inline = true
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
	c.inline = true // from standard input
	return c
}

// execution is a program that a process is about to become.
type execution struct {
	file   string // its path, without links
	argv   []string
	script bool // the file begins with #!
	// resolve returns where a path among the arguments leads.
	resolve func(name string) place
	foreign func(name string) bool
	sealed  func(name string) bool
	// hooked says that package managers may run programs that are not of the image.
	hooked  bool
	workdir string
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
	c := codeOf("sh", x.argv)
	if slices.ContainsFunc(c.files, x.namesForeign) {
		return untrusted
	}
	return script
}

func (x execution) interpreted(kind string) level {
	c := codeOf(kind, x.argv)
	if slices.ContainsFunc(c.files, x.namesForeign) {
		return untrusted
	}
	if c.module != "" {
		top, _, _ := strings.Cut(c.module, ".")
		for _, name := range []string{top, top + ".py"} {
			if p := x.resolve(name); p.exists && x.foreign(p.path) {
				return untrusted
			}
		}
	}
	return program
}

// namesForeign says whether an argument is the path of something foreign.
func (x execution) namesForeign(arg string) bool {
	if _, value, ok := strings.Cut(arg, "="); ok && strings.HasPrefix(arg, "-") {
		arg = value
	}
	if arg == "" || strings.HasPrefix(arg, "-") || len(arg) > maxPath {
		return false
	}
	p := x.resolve(arg)
	return p.exists && x.foreign(p.path)
}
