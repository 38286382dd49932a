package terminalbench

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// kindRunner: a module of the agent's was loaded in place of one of Python's or pytest's.
const kindRunner = "runner"

// pythonModules are modules of Python's library, and those that pytest is made of.
var pythonModules = strings.Fields(`
abc argparse array ast asyncio atexit base64 bdb binascii bisect builtins bz2 cProfile calendar cmath cmd code codecs codeop collections colorsys
compileall concurrent configparser contextlib contextvars copy copyreg csv ctypes curses dataclasses datetime dbm decimal difflib dis doctest email
encodings ensurepip enum errno faulthandler fcntl filecmp fileinput fnmatch fractions ftplib functools gc genericpath getopt getpass gettext glob
graphlib grp gzip hashlib heapq hmac html http imaplib importlib inspect io ipaddress itertools json keyword linecache locale logging lzma mailbox
marshal math mimetypes mmap modulefinder multiprocessing netrc ntpath numbers opcode operator optparse os pathlib pdb pickle pickletools pkgutil
platform plistlib poplib posixpath pprint profile pstats pty pwd py_compile pyclbr pydoc pydoc_data pyexpat queue quopri random re readline reprlib
resource rlcompleter runpy sched secrets select selectors shelve shlex shutil signal site smtplib socket socketserver sqlite3 sre_compile
sre_constants sre_parse ssl stat statistics string stringprep struct subprocess symtable sys sysconfig syslog tabnanny tarfile tempfile termios
textwrap threading time timeit tkinter token tokenize tomllib trace traceback tracemalloc tty types typing unicodedata unittest urllib uuid venv
warnings wave weakref webbrowser wsgiref xml xmlrpc zipapp zipfile zipimport zlib zoneinfo
pytest _pytest pluggy iniconfig packaging exceptiongroup tomli pygments py pytest_json_ctrf
`)

// shadowing returns files of the agent's that Python finds before its own modules, or
// pytest's, when it runs in the directory of the task: such a file acts on every test that
// imports the module. Those that the task or its tests name are the agent's work.
func (v *verification) shadowing() []string {
	dirs := append(v.task.workDirs(), "/", testsDir, v.box.Info().Dir)
	var list []string
	for _, c := range v.changes {
		if c.Kind != sandbox.Deleted && slices.Contains(dirs, moduleDir(c.Path)) && slices.Contains(pythonModules, moduleName(c.Path)) && !v.named(c.Path) {
			list = append(list, c.Path)
		}
	}
	return list
}

// sources matches a shell's commands that run a file as part of the script.
var sources = regexp.MustCompile(`(?m)(?:^|[;&|(]|\bthen|\bdo|\belse)\s*(?:source|\.)\s+["']?([^\s"';&|)]+)`)

// sourced returns files of the agent's that the scripts of the tests run as part of
// themselves. Their reading can't be told from that of any other file, so the scripts are
// asked.
func (v *verification) sourced() []string {
	var list []string
	for _, found := range sources.FindAllStringSubmatch(string(v.testText()), -1) {
		name := found[1]
		if !path.IsAbs(name) {
			name = path.Join("/", v.box.Info().Dir, name)
		}
		for _, c := range v.changes {
			if c.Path == path.Clean(name) && c.Kind != sandbox.Deleted {
				list = append(list, c.Path)
			}
		}
	}
	return list
}

// withSourced joins what tests load as modules and what they source, each file once.
func withSourced(loaded, sourced []string) []string {
	all := slices.Concat(loaded, sourced)
	slices.Sort(all)
	return slices.Compact(all)
}

// runsModule says whether the tests have Python run a module, such as pytest.
func (t testText) runsModule(name string) bool {
	return regexp.MustCompile(`-m\s+` + regexp.QuoteMeta(name) + `\b`).MatchString(string(t))
}

// named says whether the task's instruction or its tests name a file or its module's
// directory.
func (v *verification) named(file string) bool {
	name := path.Base(file)
	if name == "__init__.py" {
		name = path.Base(path.Dir(file))
	}
	return testText(v.part.instruction).MatchString(name) || strings.HasSuffix(name, ".py") && v.mentions(name)
}

// moduleName is the name under which Python imports a file from its directory, "" if it
// does not.
func moduleName(file string) string {
	if name := fileModule(file); name != "__init__" {
		return name
	}
	return path.Base(path.Dir(file))
}

// fileModule is a module's name without that of its package.
func fileModule(file string) string {
	for _, ending := range []string{".py", ".pyc", ".so"} {
		if name, ok := strings.CutSuffix(path.Base(file), ending); ok {
			name, _, _ = strings.Cut(name, ".") // json.cpython-312-x86_64-linux-gnu.so
			return name
		}
	}
	return ""
}

// moduleDir is the directory from which Python imports a file.
func moduleDir(file string) string {
	if fileModule(file) == "__init__" {
		return path.Dir(path.Dir(file))
	}
	return path.Dir(file)
}
