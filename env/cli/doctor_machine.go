package cli

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox/program"
)

// program checks the binary that runs.
func (d *doctor) program() []finding {
	about := fmt.Sprintf("%s %s (%s %s/%s)", d.name, Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	found := []finding{{Check: "version", Level: levelOK, Found: about}}
	static := finding{Check: "static", Level: levelOK, Found: "one file that needs no libraries, so it runs in any container"}
	path, err := os.Executable()
	if err == nil {
		var needs string
		if needs, err = interpreter(path); needs != "" {
			static = finding{Check: "static", Level: levelWarning, Found: "linked to the libraries of this machine (" + needs + "): it can't serve inside containers",
				Fix: buildFix(runtime.GOARCH)}
		}
	}
	var format *elf.FormatError
	switch {
	case errors.As(err, &format):
		static = finding{Check: "static", Level: levelOK, Found: "a program for " + runtime.GOOS + "; containers need one for Linux, in " + binaryVariable}
	case err != nil:
		static = finding{Check: "static", Level: levelWarning, Found: fmt.Sprintf("this program's file can't be read: %v", err), Fix: "start it again from a file that exists"}
	}
	return append(found, static)
}

// buildFix is the command after which sandboxes have a program that can serve in
// them. arch is the machine's, as Go names it; "" is this one's.
func buildFix(arch string) string { return program.BuildCommand(arch) }

// interpreter returns what loads the libraries of a program for Linux; "" for a static one.
func interpreter(path string) (string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			name := make([]byte, min(p.Filesz, 256))
			n, err := p.ReadAt(name, 0)
			if n > 1 && name[n-1] == 0 {
				return string(name[:n-1]), nil
			}
			return "unknown", err
		}
	}
	return "", nil
}

// machineLimits checks what the system lets this process have.
func machineLimits() []finding {
	return []finding{openFiles(limitOf(unix.RLIMIT_NOFILE)), processes(limitOf(unix.RLIMIT_NPROC), os.Geteuid() == 0)}
}

// limitOf returns a limit of this process; the largest number where there is none.
func limitOf(resource int) uint64 {
	var l unix.Rlimit
	if err := unix.Getrlimit(resource, &l); err != nil {
		return unix.RLIM_INFINITY
	}
	return l.Cur
}

func shownLimit(n uint64) string {
	if n >= 1<<62 {
		return "no limit"
	}
	return fmt.Sprint(n)
}

// A rollout holds about ten files: its connection to the model, its sandbox's
// streams, pipes of running commands.
func openFiles(n uint64) finding {
	f := finding{Check: "open files", Level: levelOK, Found: shownLimit(n)}
	const fix = "ulimit -n 65536 before the start; for good, nofile in /etc/security/limits.conf or LimitNOFILE= of a service"
	switch {
	case n < 256:
		f.Level, f.Fix = levelProblem, fix
		f.Found += ": enough for about " + count(int(n)/10, "rollout") + " at once"
	case n < 4096:
		f.Level, f.Fix = levelWarning, fix
		f.Found += ": enough for about " + count(int(n)/10, "rollout") + " at once"
	}
	return f
}

func processes(n uint64, root bool) finding {
	f := finding{Check: "processes", Level: levelOK, Found: shownLimit(n)}
	const fix = "ulimit -u 8192 before the start; for good, nproc in /etc/security/limits.conf or TasksMax= of a service"
	switch {
	case root: // is not bound by it
		f.Found = "not limited for root"
	case n < 128:
		f.Level, f.Fix = levelProblem, fix
	case n < 1024:
		f.Level, f.Fix = levelWarning, fix
	}
	return f
}

// diskUse is how full a file system is.
type diskUse struct {
	Free  uint64 // bytes that this user may still write
	Inode uint64 // files that may still be made; 0 with NoInodes where that is not counted
	// NoInodes says that the file system makes room for files as it needs.
	NoInodes bool
}

// diskSpace looks at the file system that holds a path.
func diskSpace(path string) (diskUse, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return diskUse{}, err
	}
	return diskUse{Free: uint64(s.Bavail) * uint64(s.Bsize), Inode: uint64(s.Ffree), NoInodes: s.Files == 0}, nil
}

// spaceFinding judges the space below a directory.
func (d *doctor) spaceFinding(path, fix string) finding {
	use, err := d.space(path)
	if err != nil {
		return finding{Check: "space", Level: levelWarning, Found: fmt.Sprintf("%s: %v", path, err)}
	}
	f := finding{Check: "space", Level: levelOK, Found: fmt.Sprintf("%s free in %s", shownBytes(use.Free), path)}
	switch {
	case use.Free < 1<<30:
		f.Level, f.Fix = levelProblem, fix
	case use.Free < 5<<30:
		f.Level, f.Fix = levelWarning, fix
	case !use.NoInodes && use.Inode < 10_000:
		f.Level, f.Fix = levelProblem, fix
		f.Found += fmt.Sprintf(", but only %d more files fit", use.Inode)
	}
	return f
}

func shownBytes(n uint64) string {
	if n < 1<<30 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}
