package terminalbench

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/trajectories"
)

// codeDirs hold the programs and libraries that test runners are made of, and what these
// read when they start.
var codeDirs = slices.Concat([]string{
	"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr", "/opt", "/nix", "/snap",
	"/etc/ld.so.preload", "/etc/ld.so.cache", "/root/.local", "/root/.cache/uv", "/root/.cargo",
}, startupFiles, startupDirs)

// execTests runs the tests, supervised where that is possible, so that code of the
// agent's that they execute can't act on them.
func (v *verification) execTests(ctx context.Context, c sandbox.Command) (sandbox.Result, error) {
	v.supervised, v.report.Isolated, v.report.Why, v.report.Left = nil, false, "", nil
	way, leave, err := v.wayForTests(ctx)
	if err != nil {
		return sandbox.Result{}, err
	}
	defer leave(ctx)
	return v.execThrough(ctx, way, c)
}

// leaveLimit bounds the end of the way for the tests.
const leaveLimit = 5 * time.Second

// wayForTests returns the way into the sandbox through which the tests run. Beside
// processes of the agent's that is one of their own: what is started through it can't be
// traced by them. leave gives it up.
func (v *verification) wayForTests(ctx context.Context) (way sandbox.Sandbox, leave func(context.Context), err error) {
	_, opens := v.box.(sandbox.UserSwitcher)
	if v.user != v.box || !opens || !v.guarded() || v.part.keep == keepAll && !v.part.last {
		return v.user, func(context.Context) {}, nil
	}
	if way, err = openAs(ctx, v.box, v.part.verifierUser); err != nil {
		return nil, nil, err
	}
	return way, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveLimit)
		defer cancel()
		_ = way.Close(ctx) // what it could not end is ended with all others
	}, nil
}

func (v *verification) execThrough(ctx context.Context, way sandbox.Sandbox, c sandbox.Command) (sandbox.Result, error) {
	supervisor, ok := way.(sandbox.Supervisor)
	switch {
	case !v.e.isolates(v.task.config):
		v.report.Why = "isolate_tests is false"
	case !ok:
		v.report.Why = "the " + v.box.Info().Backend + " backend has no supervisor"
	case !isRoot(v.part.verifierUser) && v.part.verifierUser != "" && v.mentions("sudo"):
		v.report.Why = "the tests use sudo as the user " + v.part.verifierUser + ", which has no effect in isolated tests"
	case v.testText().gainsPrivileges():
		v.report.Why = "the tests become another user and seem to use set-user-ID programs, such as sudo, which have no effect in isolated tests"
	default:
		ran, seen, err := supervisor.ExecSupervised(ctx, c, v.policy())
		if err == nil {
			v.supervised, v.report.Isolated = &seen, true
			return ran, nil
		}
		if !errors.Is(err, sandbox.ErrUnsupported) {
			return ran, err
		}
		v.report.Why = err.Error()
	}
	return way.Exec(ctx, c)
}

// policy says what the agent's code may do while the tests run.
func (v *verification) policy() sandbox.Policy {
	foreign := v.foreign()
	return sandbox.Policy{
		Results: []string{verifierDir + "/reward.txt", verifierDir + "/reward.json"},
		Sealed:  []string{testsDir},
		Code:    codeDirs,
		Free:    v.task.workDirs(),
		Foreign: foreign, TestFiles: pytestConfigs,
		HideSealed: len(foreign) > 0 && !v.task.config.Metadata.TestsReadable, Packages: v.installed,
		Loads: v.solved() || len(v.shadowing()) > 0,
	}
}

// workDirs are the directories in which an agent works: those that the task names, and
// the working directory.
func (t *task) workDirs() []string {
	dirs := slices.Clone(t.config.Metadata.WorkDirectories)
	if dir := t.workdir(); dir != "" && path.Clean(dir) != "/" {
		dirs = append(dirs, path.Clean(dir))
	}
	return dirs
}

// solvedNote is the note of a sandbox in which the reference solution ran.
const solvedNote = "solution"

// forgedNote is the note of a sandbox in which a forgery was tried.
const forgedNote = "forgery"

// solved says whether it is the reference solution's work that is verified. Its
// verification shows which of the agent's files the tests load.
func (v *verification) solved() bool {
	_, ok := v.tc.Noted(solvedNote)
	return ok
}

// maxForeign bounds the paths of a policy. Beyond it the directories of changes stand
// for them.
const maxForeign = 20_000

// foreign returns what the agent made or changed, as far as it is where the tests run,
// in the form of a policy. Directories that it made stand for all below them.
func (v *verification) foreign() []string {
	if v.changes == nil {
		var dirs []string
		for _, dir := range v.task.workDirs() {
			dirs = append(dirs, dir+"/")
		}
		return dirs
	}
	var list []string
	last := "\x00"
	for _, c := range v.changes { // what is in a directory comes after it
		switch {
		case c.Kind == sandbox.Deleted, v.undone[c.Path], strings.HasPrefix(c.Path, last):
		case c.Kind == sandbox.Added:
			last = c.Path + "/"
			list = append(list, last)
		default:
			list = append(list, c.Path)
		}
	}
	if len(list) <= maxForeign {
		return list
	}
	for i, name := range list {
		list[i] = path.Dir(strings.TrimSuffix(name, "/")) + "/"
	}
	list = slices.Compact(list)
	return slices.DeleteFunc(list, func(dir string) bool { return slices.Contains(systemDirs, path.Clean(dir)) || dir == "/" })
}

// mentions says whether a word is in one of the files of the tests.
func (v *verification) mentions(word string) bool { return v.testText().MatchString(word) }

// testText returns the text of the tests, which is read once.
func (v *verification) testText() testText {
	if v.text == nil {
		text := v.part.testText()
		v.text = &text
	}
	return *v.text
}

// Patterns in tests that become another user, and in tests of programs that give them
// back what root may do.
var (
	becomesUser    = regexp.MustCompile(`(?m)\b(su|runuser|setpriv|gosu|su-exec|setuid|setreuid|setresuid|sudo -u|chroot --userspec)\b|\buser=|--reuid`)
	usesPrivileges = regexp.MustCompile(`(?i)\bsudo\b|set-?uid|\bsuid\b|chmod +0?[4567][0-7]{3}|0o[4567][0-7]{3}|[ug]\+s|S_IS[UG]ID`)
)

// gainsPrivileges says whether the tests seem to run set-user-ID programs as another user
// than root.
func (t testText) gainsPrivileges() bool {
	return becomesUser.MatchString(string(t)) && usesPrivileges.MatchString(string(t))
}

// testText is the text of a part's tests.
func (p part) testText() testText {
	var text strings.Builder
	for _, dir := range p.testFolders() {
		_ = filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || !slices.Contains([]string{".sh", ".py", ".js", ".ts", ""}, filepath.Ext(name)) {
				return nil // what can't be read has no words
			}
			if info, err := d.Info(); err != nil || info.Size() > 1<<20 || text.Len() > 8<<20 {
				return nil
			}
			content, _ := os.ReadFile(name)
			text.Write(content)
			text.WriteByte('\n')
			return nil
		})
	}
	return testText(text.String())
}

type testText string

// MatchString says whether a word stands by itself in the text.
func (t testText) MatchString(word string) bool {
	return regexp.MustCompile(`(?:^|[^\w.-])` + regexp.QuoteMeta(word) + `(?:[^\w-]|$)`).MatchString(string(t))
}

// alwaysActive are the kinds of changes that act on any tests.
var alwaysActive = []string{"preload", "loader", "replaced", "removed", "startup", "patched", "plugin"}

// tampering returns what the record says of the agent's acts on its verification.
func (v *verification) tampering() []trajectories.Tampering {
	var list []trajectories.Tampering
	for _, d := range v.confirmed {
		list = append(list, trajectories.Tampering{Kind: d.kind, Target: d.target, Detail: d.text, Active: true})
	}
	if len(v.tampered) == 0 {
		return list
	}
	text := v.testText()
	packages := v.installed
	for _, t := range v.tampered {
		detail := "changed by the agent before the tests"
		active := v.report.In != verifyClean && !v.undone[t.Path]
		switch {
		case v.undone[t.Path] || v.report.In == verifyClean:
			detail += ", not there when they ran"
		case slices.Contains(alwaysActive, t.What) && !packages:
		case text.MatchString(path.Base(t.Path)):
			detail += ", which name it"
		case slices.ContainsFunc(v.report.Loaded, func(name string) bool { return name == t.Path || strings.HasPrefix(name, t.Path+"/") }):
			detail += ", which loaded it"
		default:
			active = false
		}
		list = append(list, trajectories.Tampering{Kind: t.What, Target: t.Path, Detail: detail, Active: active})
	}
	return list
}
