package terminalbench

import (
	"slices"
	"strings"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// workRoots are the directories in which agents work if the task doesn't say, beside its
// working directory. What is elsewhere belongs to the system.
var workRoots = []string{"/app", "/workspace", "/workdir", "/work", "/src", "/project", "/code", "/data", "/srv", "/opt", "/home", "/root", "/tmp", "/var/tmp", "/var/www", "/mnt", "/media", "/output", "/results"}

// systemRoots are the directories of the root that belong to the system.
var systemRoots = []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr", "/etc", "/boot", "/dev", "/proc", "/sys", "/run", "/var", "/logs", "/tests", "/solution", "/nix", "/snap"}

// outsideWork returns the changes that are not part of the agent's work, which a clean
// container lacks.
func outsideWork(t *task, changes []sandbox.Change) map[string]bool {
	declared := t.config.Metadata.WorkDirectories
	out := map[string]bool{}
	for _, c := range changes {
		if !isWork(c, t, declared) {
			out[c.Path] = true
		}
	}
	return out
}

// isWork says whether a change is part of the agent's work: in one of the directories
// that the task declares or, without any, outside of the system's directories and of
// what programs read when they start.
func isWork(c sandbox.Change, t *task, declared []string) bool {
	in := func(dir string) bool { return c.Path == dir || strings.HasPrefix(c.Path, dir+"/") }
	if len(declared) > 0 {
		return slices.ContainsFunc(declared, in)
	}
	switch {
	case judgeChange(c) != "", strings.HasPrefix(c.Path, "/root/."), hiddenAtHome(c.Path):
		return false
	case slices.ContainsFunc(t.workDirs(), in):
		return true
	case sandbox.InPackages(c.Path):
		return false
	case slices.ContainsFunc(workRoots, in):
		return true
	case slices.ContainsFunc(systemRoots, in):
		return false
	}
	return true // a directory of its own below the root
}

// hiddenAtHome says whether a path is a hidden file or directory of a user's home.
func hiddenAtHome(name string) bool {
	rest, ok := strings.CutPrefix(name, "/home/")
	if !ok {
		return false
	}
	_, below, _ := strings.Cut(rest, "/")
	return strings.HasPrefix(below, ".")
}

// leftOut counts the changes that a clean container lacks: directories only if nothing
// in them changed, and nothing of what the harness made.
func leftOut(changes []sandbox.Change, undone map[string]bool) int {
	own := []string{"/logs", testsDir, solutionDir}
	n := 0
	for i, c := range changes {
		holds := i+1 < len(changes) && strings.HasPrefix(changes[i+1].Path, c.Path+"/")
		if undone[c.Path] && !holds && !slices.ContainsFunc(own, func(dir string) bool { return c.Path == dir || strings.HasPrefix(c.Path, dir+"/") }) {
			n++
		}
	}
	return n
}
