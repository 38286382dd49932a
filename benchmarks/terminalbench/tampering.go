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
	What string `json:"what"` // replaced, removed, shadows, preload, startup or loader
}

func (t tampering) String() string { return t.Path + " (" + t.What + ")" }

// maxTampering bounds what a record says of it.
const maxTampering = 50

// verifierTools are the programs that test scripts of this family run.
var verifierTools = []string{
	"sh", "bash", "dash", "busybox", "env", "echo", "cat", "cp", "mv", "rm", "mkdir", "chmod", "ls", "grep", "sed", "awk", "diff", "cmp", "head", "tail",
	"tar", "gzip", "curl", "wget", "git", "apt-get", "apt", "apk", "dpkg", "uv", "uvx", "pip", "pip3", "pytest", "python", "python3", "node", "npm", "make", "timeout", "tee", "test", "[",
}

// toolDirs are where shells look for programs; the later ones come before the
// system's own in the PATH of usual images.
var (
	systemDirs = []string{"/bin", "/sbin", "/usr/bin", "/usr/sbin"}
	localDirs  = []string{"/usr/local/bin", "/usr/local/sbin", "/root/.local/bin", "/root/.cargo/bin", "/root/bin"}
)

// startupFiles act on programs that are run, whoever runs them.
var startupFiles = []string{
	"/root/.curlrc", "/etc/curlrc", "/root/.wgetrc", "/etc/wgetrc", "/etc/pip.conf", "/root/.pip/pip.conf", "/root/.config/pip/pip.conf", "/root/.config/uv/uv.toml",
	"/etc/uv/uv.toml", "/root/.pydistutils.cfg", "/conftest.py", "/pytest.ini", "/tox.ini", "/setup.cfg", "/pyproject.toml",
}

// judgeChange says how a change can act on a verifier, "" when it can't by its place.
func judgeChange(c sandbox.Change) string {
	dir, name := path.Split(c.Path)
	dir = path.Clean(dir)
	changed := map[sandbox.ChangeKind]string{sandbox.Modified: "replaced", sandbox.Deleted: "removed"}[c.Kind]
	switch {
	case c.Path == "/etc/ld.so.preload" && c.Kind != sandbox.Deleted:
		return "preload"
	case slices.Contains(startupFiles, c.Path) && c.Kind != sandbox.Deleted:
		return "startup"
	case (name == "sitecustomize.py" || name == "usercustomize.py") && c.Kind != sandbox.Deleted:
		return "startup"
	case (loader(name) || shellLibrary(name)) && libraryDir(dir):
		return changed
	case shellLibrary(name) && hardwareDir(dir):
		return "shadows"
	case !isTool(name):
		return ""
	case slices.Contains(systemDirs, dir):
		return changed
	case slices.Contains(localDirs, dir):
		if c.Kind == sandbox.Added {
			return "shadows"
		}
		return changed
	}
	return ""
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

// packageDatabases change when packages are installed or upgraded.
var packageDatabases = []string{"/var/lib/dpkg/status", "/lib/apk/db/installed", "/usr/lib/apk/db/installed", "/var/lib/rpm", "/usr/lib/sysimage/rpm", "/var/lib/pacman/local"}

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
func redirected(changes []sandbox.Change) bool {
	list, library := false, false
	for _, c := range changes {
		name := path.Base(c.Path)
		list = list || c.Path == loaderCache
		library = library || c.Kind != sandbox.Deleted && (shellLibrary(name) || loader(name))
	}
	return list && library && !upgraded(changes)
}

// upgraded says whether a package manager was at work.
func upgraded(changes []sandbox.Change) bool {
	return slices.ContainsFunc(changes, func(c sandbox.Change) bool { return slices.Contains(packageDatabases, c.Path) })
}

// toRestore returns the changes that have to be undone before tests may run; none
// when they may run in the agent's container.
func toRestore(policy string, changes []sandbox.Change) map[string]bool {
	undo := map[string]bool{}
	packages := upgraded(changes)
	if (policy == tamperingCore || policy == tamperingRestore) && redirected(changes) {
		undo[loaderCache] = true
	}
	for _, c := range changes {
		if policy == tamperingCore && core(c, packages) || policy == tamperingRestore && judgeChange(c) != "" {
			undo[c.Path] = true
		}
	}
	return undo
}

// judgeChanges returns what of the changes can act on a verifier.
func judgeChanges(changes []sandbox.Change) []tampering {
	var found []tampering
	for _, c := range changes {
		if what := judgeChange(c); what != "" {
			found = append(found, tampering{c.Path, what})
		}
	}
	if redirected(changes) {
		found = append(found, tampering{loaderCache, "loader"})
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
	if err := unlistable(err); err != nil {
		return err
	}
	v.changes = changes
	v.tampered = judgeChanges(changes)
	v.report.Tampering = v.tampered[:min(len(v.tampered), maxTampering)]
	if len(v.tampered) > maxTampering {
		v.report.Notes = append(v.report.Notes, fmt.Sprintf("%d more changes of what the verifier relies on are not listed", len(v.tampered)-maxTampering))
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
func unlistable(err error) error {
	switch {
	case err == nil:
		return nil
	case strings.Contains(err.Error(), "file name too long"):
		return failure(classTampering, "what the agent changed can't be listed, because it made a path that is too long for the engine: %.200s", err)
	}
	return infra("list what changed in the sandbox", err)
}
