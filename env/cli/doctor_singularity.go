package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox/singularity"
)

// singularity looks at the installation of Apptainer or SingularityCE and runs a
// command in an instance.
func (d *doctor) singularity(ctx context.Context, j *job) []finding {
	c := d.singularityConfig()
	c.Image = j.cfg.Env.SingularityImage
	asking, cancel := context.WithTimeout(ctx, inspectTime)
	r, err := singularity.Inspect(asking, c)
	cancel()
	if err != nil {
		return []finding{noInstallation(err)}
	}
	found := d.installationFindings(r)
	for _, f := range found {
		if f.Level == levelProblem {
			return found // a start would only say it again
		}
	}
	switch {
	case r.Reference != "":
		return append(found, finding{Check: "start", Level: levelOK, Found: "not tried: the image is not here yet"})
	case r.Image == "":
		return append(found, finding{Check: "start", Level: levelOK, Found: "not tried: the items name the images"})
	}
	return append(found, d.tryBackend(ctx, j, filepath.Base(r.Command)+" --debug instance start "+shellWord(r.Image)+" try shows what it does"))
}

func noInstallation(err error) finding {
	f := finding{Check: "command", Level: levelProblem, Found: err.Error(), Fix: "run the command by hand, with --debug"}
	if errors.Is(err, singularity.ErrNoCommand) {
		f.Fix = "sudo apt-get install apptainer, sudo dnf install apptainer, or module load apptainer"
	}
	return f
}

// installationFindings judges what was seen of an installation.
func (d *doctor) installationFindings(r singularity.Report) []finding {
	version := finding{Check: "command", Level: levelOK, Found: r.Command + ", " + r.Version}
	if !r.Supported {
		version.Level = levelProblem
		version.Fix = fmt.Sprintf("install Apptainer %s or SingularityCE %s, or newer", singularity.OldestApptainer, singularity.OldestSingularity)
	}
	found := []finding{version, installationRights(r), installationGroups(r)}
	if r.ServerNone != nil {
		found = append(found, finding{Check: "server", Level: levelProblem, Found: r.ServerNone.Error(), Fix: buildFix("")})
	}
	found = append(found, installationImage(r))
	for _, place := range []struct{ dir, fix string }{
		{r.BaseDir, "remove files, or set TMPDIR to a larger disk"}, {r.ImageDir, "remove images from " + r.ImageDir + " that nobody needs"},
	} {
		f := d.spaceFinding(nearest(place.dir), place.fix)
		if place.dir == r.ImageDir {
			f.Check = "image space"
		}
		found = append(found, f)
	}
	return append(found, d.leftovers(r.Held, r.Abandoned, "instance", "instances"))
}

// installationRights judges how instances can be made by who is not root.
func installationRights(r singularity.Report) finding {
	f := finding{Check: "rights", Level: levelOK}
	switch {
	case r.Root:
		f.Found = "root, who may start instances"
	case r.Setuid && r.Namespaces.Allowed:
		f.Found = "its starter is set-user-id root, and user namespaces are allowed"
	case r.Setuid:
		f.Found = "its starter is set-user-id root; user namespaces are not allowed (" + r.Namespaces.Reason + "), so images that are directories may not work"
	case r.Namespaces.Allowed:
		f.Found = "user namespaces are allowed"
	default:
		f = finding{Check: "rights", Level: levelProblem, Found: "user namespaces are not allowed (" + r.Namespaces.Reason + "), and its starter is not set-user-id root",
			Fix: "sudo sysctl -w " + sysctlFix(r.Namespaces.Reason) + ", or install apptainer-suid"}
	}
	return f
}

// sysctlFix is the setting that allows what a reason says is forbidden.
func sysctlFix(reason string) string {
	switch name, _, _ := strings.Cut(reason, " "); name {
	case "user.max_user_namespaces":
		return name + "=28633"
	case "kernel.apparmor_restrict_unprivileged_userns":
		return name + "=0"
	default:
		return name + "=1"
	}
}

// installationGroups judges whether limits of items can be kept.
func installationGroups(r singularity.Report) finding {
	switch {
	case !r.GroupsV2:
		return finding{Check: "control groups", Level: levelWarning, Found: "version 2 is not there: items with limits on memory, processors or processes fail", Fix: "boot with systemd.unified_cgroup_hierarchy=1"}
	case !r.Root && !r.Delegated:
		return finding{Check: "control groups", Level: levelWarning, Found: "not all of cpu, memory and pids are delegated to this user: items with limits fail",
			Fix: "a file below /etc/systemd/system/user@.service.d with [Service] and Delegate=cpu cpuset io memory pids, then log in again"}
	}
	return finding{Check: "control groups", Level: levelOK, Found: "version 2, limits can be kept"}
}

func installationImage(r singularity.Report) finding {
	switch {
	case r.ImageError != nil:
		return finding{Check: "image", Level: levelProblem, Found: r.ImageError.Error(), Fix: "name another with --env.singularity_image"}
	case r.Reference != "":
		return finding{Check: "image", Level: levelWarning, Found: r.Reference + " is not here; the first rollout fetches it, which can take minutes",
			Fix: filepath.Base(r.Command) + " pull image.sif " + shellWord(r.Reference) + ", and name that file with --env.singularity_image"}
	case r.Image == "":
		return finding{Check: "image", Level: levelOK, Found: "none is configured, so every item has to name one"}
	}
	return finding{Check: "image", Level: levelOK, Found: r.Image}
}

// nearest returns a directory or the nearest one above it that is there.
func nearest(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || filepath.Dir(dir) == dir {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}
