package terminalbench

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// tampering is something the agent changed that verifiers rely on. It need not be
// meant as an attack: an upgrade of the system's packages looks the same.
type tampering struct {
	Path string `json:"path"`
	// What is replaced, removed, shadows, preload, startup, loader, patched (a library of
	// an interpreter, or an installed package), runner (a package that test runners are
	// made of was installed) or plugin (of pytest).
	What string `json:"what"`
}

func (t tampering) String() string { return t.Path + " (" + t.What + ")" }

// maxTampering bounds what a record says of it.
const maxTampering = 50

// verifierTools are the programs that test scripts of this family run.
var verifierTools = strings.Fields(`
	[ arch awk b2sum base32 base64 basename basenc bash bc busybox cat chcon chgrp chmod chown chroot cksum cmp comm cp csplit curl cut dash date dd df diff dir dircolors
	dirname du echo egrep env expand expr factor false fgrep file find flock fmt fold gawk getent gpg grep groups gunzip gzip head hexdump hostid id install jq kill killall
	ldconfig link ln locale logname ls lsof mawk md5sum mkdir mkfifo mknod mktemp mv nc netstat nice nl nohup nproc numfmt od openssl paste patch pathchk pgrep pidof pinky
	pkill pr printenv printf ps ptx pwd readlink realpath rm rmdir rsync script sed seq setsid sh sha1sum sha224sum sha256sum sha384sum sha512sum shred shuf sleep socat sort
	split ss ssh scp stat stdbuf stty su sudo sum sync tac tail tar tee test time timeout touch tr true truncate tsort tty uname unexpand uniq unlink unxz unzip uptime users
	vdir wc wget which who whoami xargs xxd xz yes zcat zip zstd
	apk apt apt-get dpkg gcc g++ cc c++ clang cmake make ld as go cargo rustc java javac perl ruby php lua node nodejs npm npx yarn pnpm bun deno
	git hg uv uvx pip pip3 pipx pytest py.test python python2 python3 pypy3 poetry conda tox coverage Rscript R julia sqlite3 psql mysql`)

// toolDirs are where shells look for programs; the later ones come before the
// system's own in the PATH of usual images.
var (
	systemDirs = []string{"/bin", "/sbin", "/usr/bin", "/usr/sbin"}
	localDirs  = []string{"/usr/local/bin", "/usr/local/sbin", "/root/.local/bin", "/root/.cargo/bin", "/root/bin"}
)

// startupFiles act on programs that are run, whoever runs them.
var startupFiles = []string{
	"/root/.curlrc", "/etc/curlrc", "/root/.wgetrc", "/etc/wgetrc", "/etc/pip.conf", "/root/.pip/pip.conf", "/root/.config/pip/pip.conf", "/root/.config/uv/uv.toml",
	"/etc/uv/uv.toml", "/root/.pydistutils.cfg", "/root/.npmrc", "/etc/npmrc", "/root/.netrc", "/etc/environment", "/etc/profile", "/etc/bash.bashrc",
	"/root/.bashrc", "/root/.profile", "/root/.bash_profile", "/root/.bash_login", "/root/.pytest.ini",
	"/etc/ld.so.conf", "/etc/ssl/openssl.cnf", "/usr/lib/ssl/openssl.cnf",
}

// startupDirs hold files that act in the same way.
var startupDirs = []string{"/etc/profile.d", "/etc/ld.so.conf.d", "/etc/apt/apt.conf.d", "/etc/apt/sources.list.d", "/etc/pip", "/root/.config/pip", "/root/.config/uv"}

// pytestConfigs change how pytest runs from the root, which is above the tests.
var pytestConfigs = []string{"conftest.py", "pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml"}

// runnerPackages are Python packages that test runners are made of.
var runnerPackages = []string{"pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments", "tomli", "exceptiongroup", "pytest_json_ctrf", "pytest_timeout", "xdist", "execnet", "pip", "uv", "unittest", "attr", "attrs", "colorama"}

// judgeChange says how a change can act on a verifier, "" when it can't by its place.
func judgeChange(c sandbox.Change) string {
	dir, name := path.Split(c.Path)
	dir = path.Clean(dir)
	changed := map[sandbox.ChangeKind]string{sandbox.Modified: "replaced", sandbox.Deleted: "removed"}[c.Kind]
	switch {
	case c.Path == "/etc/ld.so.preload" && c.Kind != sandbox.Deleted:
		return "preload"
	case c.Kind != sandbox.Deleted && startsUp(dir, name, c.Path):
		return "startup"
	case (loader(name) || shellLibrary(name)) && libraryDir(dir):
		return changed
	case shellLibrary(name) && hardwareDir(dir):
		return "shadows"
	case sandbox.InPackages(c.Path):
		return judgePackage(c)
	case standardLibrary(c.Path):
		return judgeLibrary(c)
	case !isTool(name):
		return ""
	case slices.Contains(systemDirs, dir):
		return changed
	case programDir(dir):
		if c.Kind == sandbox.Added {
			return "shadows"
		}
		return changed
	}
	return ""
}

// startsUp says whether programs read a file whenever they start.
func startsUp(dir, name, whole string) bool {
	switch {
	case slices.Contains(startupFiles, whole), slices.Contains(startupDirs, dir):
		return true
	case sandbox.StartsInterpreters(name):
		return true
	case name == "pyvenv.cfg" && slices.Contains(systemDirs, dir):
		return true
	case path.Ext(name) == ".pth" && sandbox.InPackages(whole):
		return !strings.HasPrefix(name, "__editable__") && name != "distutils-precedence.pth"
	}
	return dir == "/" && slices.Contains(pytestConfigs, name)
}

// sourceOnly are those of runnerPackages that have no compiled modules.
var sourceOnly = []string{"pytest", "_pytest", "pluggy", "iniconfig", "packaging"}

// compiledModule says whether Python takes a file for a module without its source. It
// prefers a library to the source.
func compiledModule(name string) bool {
	return path.Ext(name) == ".so" || path.Ext(name) == ".pyc" && path.Base(path.Dir(name)) != "__pycache__"
}

// judgePackage judges changes of installed Python packages. Installing others than those
// test runners are made of is common, and acts on no tests.
func judgePackage(c sandbox.Change) string {
	_, below, ok := strings.Cut(c.Path, "/site-packages/")
	if !ok {
		_, below, _ = strings.Cut(c.Path, "/dist-packages/")
	}
	top, rest, _ := strings.Cut(below, "/")
	module := top
	if rest == "" && moduleName(top) != "" {
		module = moduleName(top)
	}
	switch {
	case c.Kind == sandbox.Added && compiledModule(c.Path) && (rest == "" && slices.Contains(runnerPackages, module) || slices.Contains(sourceOnly, top)):
		return "patched" // no package brings it
	case c.Kind == sandbox.Added && rest == "" && slices.Contains(runnerPackages, module):
		return "runner"
	case path.Ext(c.Path) == ".pyc":
		return judgeCompiled(c)
	case strings.Contains(rest, "__pycache__"):
		return ""
	case c.Kind != sandbox.Added && (path.Ext(c.Path) == ".py" || strings.Contains(path.Base(c.Path), ".so")):
		return "patched"
	case c.Kind == sandbox.Added && rest == "entry_points.txt" && strings.HasPrefix(top, "pytest"):
		return "plugin"
	}
	return ""
}

// judgeCompiled judges changes of compiled Python modules. Python writes those that are
// missing; it has no reason to change one of the image's.
func judgeCompiled(c sandbox.Change) string {
	if c.Kind == sandbox.Modified {
		return "patched"
	}
	return ""
}

// judgeLibrary judges changes of an interpreter's library.
func judgeLibrary(c sandbox.Change) string {
	name := path.Base(c.Path)
	module := strings.TrimSuffix(name, ".py")
	switch {
	case path.Ext(name) == ".pyc":
		return judgeCompiled(c)
	case c.Kind != sandbox.Added && slices.Contains(libraryEndings, path.Ext(name)):
		return "patched"
	case c.Kind == sandbox.Added && path.Ext(name) == ".zip":
		return "startup" // python311.zip comes before the library itself
	case c.Kind == sandbox.Added && module != name && slices.Contains(runnerPackages, module):
		return "runner"
	}
	return ""
}

// libraryEndings are those of modules of interpreters' libraries.
var libraryEndings = []string{".py", ".so", ".js", ".mjs", ".cjs", ".json", ".pm", ".pl", ".rb"}

// standardLibrary says whether a path is in the library that comes with an interpreter.
func standardLibrary(name string) bool {
	for _, root := range []string{"/usr/lib/python3", "/usr/local/lib/python3", "/usr/lib/node_modules/", "/usr/local/lib/node_modules/", "/usr/share/perl", "/usr/lib/ruby", "/usr/share/nodejs/"} {
		if strings.HasPrefix(name, root) {
			return true
		}
	}
	_, version, found := strings.Cut(name, "/lib/python3") // of another installation, such as conda's
	return found && strings.Contains(version, "/")
}

// programDir says whether programs are likely to be looked for in a directory.
func programDir(dir string) bool {
	return slices.Contains(localDirs, dir) || path.Base(dir) == "bin" && (strings.HasPrefix(dir, "/usr/") || strings.HasPrefix(dir, "/opt/") || strings.HasPrefix(dir, "/root/."))
}

// loaderCache says where the dynamic loader finds libraries. Installing one rewrites it.
const loaderCache = "/etc/ld.so.cache"

// shellLibraries are what bash, dash, env and the usual small programs are linked to,
// beside the C library: code in there runs in every test script.
var shellLibraries = []string{"libtinfo", "libreadline", "libhistory", "libncurses", "libncursesw", "libdl", "libpthread", "libm", "librt", "libselinux", "libpcre2-8", "libacl", "libattr", "libcap", "libgcc_s"}

func shellLibrary(name string) bool {
	base, _, found := strings.Cut(name, ".so.")
	return found && slices.Contains(shellLibraries, base)
}

// libraryDir says whether the loader looks for libraries there by itself.
func libraryDir(dir string) bool {
	return slices.Contains([]string{"/lib", "/lib64", "/usr/lib", "/usr/lib64"}, strings.TrimSuffix(dir, "/"+multiarch(dir)))
}

// hardwareDir says whether the loader looks there before the directories of libraries.
func hardwareDir(dir string) bool {
	root, _, found := strings.Cut(dir+"/", "/glibc-hwcaps/")
	return found && libraryDir(root)
}

// multiarch is the last part of a library directory such as /lib/x86_64-linux-gnu.
func multiarch(dir string) string {
	if base := path.Base(dir); strings.Contains(base, "-linux-") {
		return base
	}
	return "\x00"
}

// loader says whether a file is the dynamic loader or the C library.
func loader(name string) bool {
	return strings.HasPrefix(name, "ld-linux") || strings.HasPrefix(name, "ld-musl") || name == "libc.so.6" || name == "libc.musl-x86_64.so.1"
}

// isTool says whether verifiers run a program of that name; python3.12 is one.
func isTool(name string) bool {
	if version, ok := strings.CutPrefix(name, "python3."); ok {
		return version != "" && strings.Trim(version, "0123456789") == ""
	}
	return slices.Contains(verifierTools, name)
}

// coreTools are the programs that every test script goes through.
var coreTools = []string{"sh", "bash", "dash", "busybox", "env"}

// core says whether a change decides what any script does: the shells, env, and what
// the loader puts into every program. An upgrade of packages may change the C
// library, which then has to stay as it is.
func core(c sandbox.Change, upgraded bool) bool {
	name := path.Base(c.Path)
	switch what := judgeChange(c); {
	case what == "preload":
		return true
	case what == "shadows":
		return shellLibrary(name) && !upgraded
	case what != "replaced" && what != "removed":
		return false
	}
	return slices.Contains(coreTools, name) && !slices.Contains(localDirs, path.Dir(c.Path)) || (loader(name) || shellLibrary(name)) && !upgraded
}

// redirected says whether the loader may have been told to take a library of the
// shells from somewhere else: its list is new, and so is a library of such a name. An
// agent that installs other libraries changes the list alone.
func redirected(changes []sandbox.Change, installed bool) bool {
	list, library := false, false
	for _, c := range changes {
		name := path.Base(c.Path)
		list = list || c.Path == loaderCache
		library = library || c.Kind != sandbox.Deleted && (shellLibrary(name) || loader(name))
	}
	return list && library && !installed
}

// toRestore returns the changes that have to be undone before tests may run; none
// when they may run in the agent's container. installed says that packages were.
func toRestore(policy string, changes []sandbox.Change, installed bool) map[string]bool {
	undo := map[string]bool{}
	if (policy == tamperingCore || policy == tamperingRestore) && redirected(changes, installed) {
		undo[loaderCache] = true
	}
	for _, c := range changes {
		if policy == tamperingCore && core(c, installed) || policy == tamperingRestore && judgeChange(c) != "" {
			undo[c.Path] = true
		}
	}
	return undo
}

// toUndo returns the changes that env.restore_tools undoes before the tests.
func (v *verification) toUndo() map[string]bool {
	undo := toRestore(v.e.own.RestoreTools, v.changes, v.installed)
	if v.e.own.RestoreTools == tamperingRestore {
		for _, t := range v.tampered {
			undo[t.Path] = true
		}
	}
	return undo
}

// judgeChanges returns what of the changes can act on a verifier.
func judgeChanges(changes []sandbox.Change, installed bool) []tampering {
	var found []tampering
	for _, c := range changes {
		if what := judgeChange(c); what != "" {
			found = append(found, tampering{c.Path, what})
		}
	}
	if redirected(changes, installed) {
		found = append(found, tampering{loaderCache, "loader"})
	}
	if !installed { // nothing was installed that could have brought them
		found = append(found, shadowedModules(changes)...)
		found = append(found, nameServices(changes)...)
		for _, c := range changes {
			if c.Kind == sandbox.Modified && strings.Contains(path.Base(c.Path), ".so") && libraryDir(path.Dir(c.Path)) && judgeChange(c) == "" {
				found = append(found, tampering{c.Path, "replaced"})
			}
		}
	}
	return found
}

// inspect looks for what the agent changed that the verifier relies on, and keeps
// the changes where that is asked for.
func (v *verification) inspect(ctx context.Context) error {
	changer, ok := v.box.(sandbox.Changer)
	if !ok {
		return v.notInspected(sandbox.ErrUnsupported)
	}
	changes, err := changer.Changes(ctx)
	if errors.Is(err, sandbox.ErrUnsupported) {
		return v.notInspected(err)
	}
	if err := v.unlistable(err); err != nil {
		return err
	}
	v.changes = changes
	if err := v.findPackages(ctx); err != nil {
		return err
	}
	v.tampered = judgeChanges(changes, v.installed)
	v.report.Tampering = v.tampered[:min(len(v.tampered), maxTampering)]
	if len(v.tampered) > maxTampering {
		v.report.Notes = append(v.report.Notes, fmt.Sprintf("%d more changes of what the verifier relies on are not listed", len(v.tampered)-maxTampering))
	}
	if err := v.readEntryPoints(ctx, changer); err != nil {
		return err
	}
	if err := v.findShadowingLibraries(ctx); err != nil {
		return err
	}
	return v.keepDiff(ctx, changer)
}

func (v *verification) notInspected(err error) error {
	if v.e.own.StrictTampering || v.e.own.RestoreTools == tamperingRestore || v.e.own.KeepSandboxDiff {
		return infra("list what changed in the sandbox", fmt.Errorf("the %s backend: %w; set env.restore_tools to none, env.strict_tampering and env.keep_sandbox_diff to false", v.box.Info().Backend, err))
	}
	v.report.Notes = append(v.report.Notes, "what the agent changed could not be listed: "+err.Error())
	return nil
}

// unlistable sorts why changes could not be listed. Directories that an agent has
// nested deeper than the engine can follow are no trouble of the machine's.
func (v *verification) unlistable(err error) error {
	switch {
	case err == nil:
		return nil
	case strings.Contains(err.Error(), "file name too long"):
		v.confirmed = append(v.confirmed, doubt{kindLost, "/", "a path that is too long for the engine"})
		return failure(classTampered, "what the agent changed can't be listed, because it made a path that is too long for the engine: %.200s", err)
	}
	return infra("list what changed in the sandbox", err)
}
