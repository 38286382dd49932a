package singularity

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hermes-env/hermes-env/internal/owner"
)

// Report is what singularity sandboxes find on this machine, for people who look for
// the reason why something does not work.
type Report struct {
	Command    string // path of the program
	Version    string // as it says itself
	Supported  bool   // the version is new enough; true where it can't be read
	Setuid     bool   // it starts instances with a program that is root
	Root       bool   // this process is root, who needs neither that nor namespaces
	Namespaces Namespaces
	// GroupsV2 says that control groups are version 2, and Delegated that this user may
	// make some: limits need both, but for root.
	GroupsV2, Delegated bool
	BaseDir, ImageDir   string
	ServerNone          error  // why no program can serve in instances; nil where one can
	Image               string // file or directory of the configured image; "" for none or one to be fetched
	Reference           string // what is to be fetched first; "" for nothing
	ImageError          error  // why the image can't be used; nil where it can
	Held                int    // instances and directories of live processes
	Abandoned           int    // of dead ones
}

// Namespaces says whether users who are not root may make user namespaces.
type Namespaces struct {
	Allowed bool
	Reason  string // the kernel's setting that forbids it
}

// system is where the kernel shows its settings.
type system struct{ root string }

func (s system) read(path string) (string, bool) {
	data, err := os.ReadFile(filepath.Join(s.root, path))
	return strings.TrimSpace(string(data)), err == nil
}

// namespaces reads the settings that forbid user namespaces. Those a kernel does not
// have forbid nothing.
func (s system) namespaces() Namespaces {
	for _, setting := range []struct{ path, forbids string }{
		{"proc/sys/user/max_user_namespaces", "0"},
		{"proc/sys/kernel/unprivileged_userns_clone", "0"},
		{"proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"},
	} {
		if value, ok := s.read(setting.path); ok && value == setting.forbids {
			name := strings.ReplaceAll(strings.TrimPrefix(setting.path, "proc/sys/"), "/", ".")
			return Namespaces{Reason: name + " is " + value}
		}
	}
	return Namespaces{Allowed: true}
}

// groups reports whether control groups are version 2, and whether a user may make some.
func (s system) groups(uid int) (v2, delegated bool) {
	if _, v2 = s.read("sys/fs/cgroup/cgroup.controllers"); !v2 {
		return false, false
	}
	has, _ := s.read("sys/fs/cgroup/user.slice/user-" + strconv.Itoa(uid) + ".slice/user@" + strconv.Itoa(uid) + ".service/cgroup.controllers")
	fields := strings.Fields(has)
	return true, slices.Contains(fields, "memory") && slices.Contains(fields, "pids") && slices.Contains(fields, "cpu")
}

// Inspect asks the command and looks at this machine. It starts and fetches nothing.
func Inspect(ctx context.Context, c Config) (Report, error) {
	p, err := New(c)
	if err != nil {
		return Report{}, err
	}
	return p.inspect(ctx, system{"/"})
}

func (p *Provider) inspect(ctx context.Context, s system) (Report, error) {
	r := Report{Command: p.config.Command, Root: os.Geteuid() == 0, BaseDir: p.config.BaseDir, ImageDir: p.config.ImageDir, ServerNone: p.noServer}
	said, err := p.run(ctx, "--version")
	if err != nil {
		return r, fmt.Errorf("ask %s for its version: %w", p.config.Command, err)
	}
	r.Version = strings.TrimSpace(said)
	r.Supported = supported(r.Version)
	if settings, err := p.run(ctx, "buildcfg"); err == nil { // only to say more
		r.Setuid = setuid(settings)
	}
	r.Namespaces = s.namespaces()
	r.GroupsV2, r.Delegated = s.groups(os.Getuid())
	p.inspectImage(&r)
	held, abandoned, err := p.count(ctx)
	r.Held, r.Abandoned = held, abandoned
	return r, err
}

// Oldest versions supported.
const (
	OldestApptainer   = "1.1"
	OldestSingularity = "3.10"
)

// supported reads "apptainer version 1.4.5" and "singularity-ce version 3.11.4-focal".
func supported(version string) bool {
	fields := strings.Fields(version)
	if len(fields) == 0 {
		return true
	}
	oldest := OldestSingularity
	if strings.HasPrefix(version, "apptainer") {
		oldest = OldestApptainer
	}
	major, minor, ok := numbers(fields[len(fields)-1])
	wantMajor, wantMinor, _ := numbers(oldest)
	return !ok || major > wantMajor || major == wantMajor && minor >= wantMinor
}

func numbers(version string) (major, minor int, ok bool) {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return 0, 0, false
	}
	major, err := strconv.Atoi(parts[0])
	end := strings.IndexFunc(parts[1], func(r rune) bool { return r < '0' || r > '9' })
	if end >= 0 {
		parts[1] = parts[1][:end]
	}
	minor, err2 := strconv.Atoi(parts[1])
	return major, minor, err == nil && err2 == nil
}

// setuid looks for the program's starter that is root, in the directory it names.
func setuid(settings string) bool {
	for line := range strings.SplitSeq(settings, "\n") {
		dir, ok := strings.CutPrefix(strings.TrimSpace(line), "LIBEXECDIR=")
		if !ok {
			continue
		}
		for _, name := range []string{"apptainer", "singularity"} {
			info, err := os.Stat(filepath.Join(dir, name, "bin", "starter-suid"))
			if err == nil && info.Mode()&fs.ModeSetuid != 0 {
				return true
			}
		}
	}
	return false
}

// inspectImage looks for the configured image.
func (p *Provider) inspectImage(r *Report) {
	if p.config.Image == "" {
		return
	}
	ref, registry := resolve(p.config.Image)
	if registry {
		file := p.imageFile(ref)
		if _, err := os.Stat(file); err != nil {
			r.Reference = ref
			return
		}
		ref = file
	}
	r.Image = ref
	f, err := os.Open(ref)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		r.ImageError = fmt.Errorf("read the image: %w", err)
	}
}

// count tells whose the instances and directories are.
func (p *Provider) count(ctx context.Context) (held, abandoned int, err error) {
	names, err := p.left(ctx)
	for _, name := range names {
		switch o, err := owner.ParseName(name); {
		case err != nil: // somebody's own
		case o.Alive():
			held++
		default:
			abandoned++
		}
	}
	return held, abandoned, err
}

// left returns the names of instances and directories, each once.
func (p *Provider) left(ctx context.Context) ([]string, error) {
	names, err := p.instances(ctx)
	if err != nil {
		return nil, fmt.Errorf("look for abandoned instances: %w", err)
	}
	list, err := os.ReadDir(p.config.BaseDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("look for abandoned directories: %w", err)
	}
	for _, entry := range list {
		names = append(names, entry.Name())
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
