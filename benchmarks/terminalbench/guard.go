package terminalbench

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/toolcontext"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// doubt is a reason to think that something besides the tests acted while they ran.
type doubt struct {
	kind   string // in the words of trajectories.Tampering
	target string // what it concerns
	text   string // for people
}

// Kinds of doubts beside those of sandbox.Act.
const (
	kindSignal = "signal" // the tests were ended by one
	kindReward = sandbox.ActResult
	kindTests  = sandbox.ActSealed
	kindTools  = sandbox.ActCode
	kindSetup  = "setup"     // the tests could not install their tools
	kindLost   = "unwatched" // more happened than could be noted
)

// maxDoubts bounds what a record says of them.
const maxDoubts = 20

// copyLimit is the most that an agent may have written for its files to be copied
// before tests that run beside its processes.
const copyLimit = 256 << 20

// actsOnTests says whether a file acts on tests by being beside them.
func actsOnTests(name string) bool {
	base := path.Base(name)
	return slices.Contains(pytestConfigs, base) || path.Ext(base) == ".py" || path.Ext(base) == ".pth"
}

// keptRunning notes what of the agent's goes on.
func (v *verification) keptRunning() {
	kept, known := v.tc.Services()
	if v.report.Kept = kept; !known {
		v.report.Notes = append(v.report.Notes, "the sandbox can't tell services from other processes (there is no server in it, because this program is not a static one), so all were ended: tasks that need a service get no reward")
	}
	v.report.Ended = v.tc.Ended()
	if v.part.keep != keepAll {
		v.report.Keep = v.part.keep
	}
	if len(v.part.secrets) > 0 && len(v.report.Ended) > 0 {
		v.report.Notes = append(v.report.Notes, "what the agent left running was ended, because the tests are given secrets ("+strings.Join(v.part.secrets, ", ")+")")
	}
}

// guarded says whether processes of the agent's are there while the tests run.
func (v *verification) guarded() bool {
	return v.report.In == "" && len(v.report.Kept) > 0
}

func (v *verification) doubtIf(is bool, kind, target, format string, args ...any) {
	if is && len(v.doubts) < maxDoubts {
		v.doubts = append(v.doubts, doubt{kind, target, fmt.Sprintf(format, args...)})
	}
}

// copyFiles makes an image of the agent's files before the tests are there, for a
// second verification should the first be in doubt: what a process changes once it can
// see the tests is not in it. Without one such a verification fails.
func (v *verification) copyFiles(ctx context.Context) {
	meter, ok := v.box.(sandbox.DiskMeter)
	s, can := v.box.(sandbox.Snapshotter)
	if !ok || !can {
		return
	}
	if written, err := meter.Written(ctx); err != nil || written > copyLimit {
		return
	}
	image, release, err := s.Snapshot(ctx)
	if err != nil {
		v.report.Notes = append(v.report.Notes, "the agent's files could not be copied before the tests: "+err.Error())
		return
	}
	v.copy = image
	v.closers = append(v.closers, release)
}

// watchTests begins to watch the tests and their results, once they are in place.
func (v *verification) watchTests(ctx context.Context) error {
	v.doubts, v.watching = nil, false
	w, ok := v.box.(sandbox.Watcher)
	if !ok {
		return v.notWatched(sandbox.ErrUnsupported)
	}
	err := w.Watch(ctx, []string{verifierDir, testsDir})
	switch {
	case errors.Is(err, sandbox.ErrUnsupported):
		return v.notWatched(err)
	case notThere(err):
		v.doubtIf(true, kindTests, testsDir, "%s or %s was taken away before the tests", verifierDir, testsDir)
		return nil
	case err != nil:
		return infra("watch the tests and their results", err)
	}
	v.watching = true
	found, err := readVerifierFiles(ctx, v.root)
	if err != nil {
		return infra("read "+verifierDir, err)
	}
	v.doubtIf(found.hasText || found.hasJSON || found.problem != "", kindReward, verifierDir, "there was a reward before the tests ran")
	return nil
}

// disturbed judges what went wrong before the tests ran. Processes that the agent left
// running can bring that about, so it is a doubt if there are any.
func (v *verification) disturbed(op string, err error) error {
	if err == nil || !v.guarded() {
		return err
	}
	v.doubtIf(true, kindTests, testsDir, "%s failed beside the agent's processes: %v", op, err)
	return failure(classTampered, "%s failed beside the agent's processes: %w", op, errors.New(err.Error()))
}

func (v *verification) notWatched(err error) error {
	v.report.Notes = append(v.report.Notes, "the tests and their results could not be watched: "+err.Error())
	return nil
}

// lookBack judges what happened while the tests ran, right after their end. What the
// supervisor saw the tests themselves do is no reason for a doubt.
func (v *verification) lookBack(ctx context.Context, ran sandbox.Result) error {
	own := sandbox.Supervision{}
	if v.supervised != nil {
		own = *v.supervised
		for _, a := range own.Acts {
			v.doubtIf(true, a.Kind, a.Target, "%s: %s, refused to %q", a.Kind, a.Target, a.Process)
		}
		v.doubtIf(own.Lost, kindLost, testsDir, "more happened while the tests ran than could be noted")
		v.report.Changed = own.Changed
		v.report.Loaded = withSourced(own.Loaded, v.sourced())
		for _, name := range v.shadowing() {
			v.doubtIf(slices.Contains(own.Loaded, name) || own.Ran && v.testText().runsModule(moduleName(name)), kindRunner, name, "the tests loaded %s in place of a module of Python's or pytest's", name)
		}
	}
	if !v.watching {
		return nil
	}
	events, lost, err := v.box.(sandbox.Watcher).Watched(ctx, false)
	if err != nil {
		return infra("read what happened while the tests ran", err)
	}
	v.doubtIf(lost, kindLost, testsDir, "more happened to the tests and their results than could be noted")
	// Under supervision only processes that were kept can send one, or code that the tests
	// have loaded.
	v.doubtIf((v.supervised == nil || v.guarded() || len(own.Loaded) > 0) && !ran.TimedOut && ran.ExitCode > 128 && ran.ExitCode <= 128+64, kindSignal, testScript, "the tests were ended by signal %d", ran.ExitCode-128)
	given, err := v.givenTests()
	if err != nil {
		return err
	}
	v.given = given
	v.rewardWrites = 0
	writes, removals := 0, 0
	for _, e := range sorted(events) {
		times := max(e.Created, e.Written) + e.Arrived
		dir, name := path.Split(e.Path)
		switch {
		case isReward(e.Path):
			v.rewardWrites += times
			writes, removals = writes+times, removals+e.Left
			v.doubtIf(e.Elsewhere > 0, kindReward, e.Path, "%s was written under another name", name)
		case e.Path == verifierDir || e.Path == testsDir || e.Path == path.Dir(verifierDir):
			v.doubtIf(!own.Moved, kindTests, e.Path, "%s was replaced while the tests ran", e.Path)
		case strings.HasPrefix(dir, testsDir+"/"):
			_, mine := given[e.Path]
			if v.supervised != nil && !mine {
				v.doubtIf(times > 0 && !added(own.Added, e.Path), kindTests, e.Path, "%s was put beside the tests while they ran, and not by them", e.Path)
				continue
			}
			v.doubtIf((mine || actsOnTests(name)) && own.SealedWrites == 0, kindTests, e.Path, "%s was changed %d times and removed %d times while the tests ran", e.Path, times, e.Left)
		}
	}
	if v.supervised != nil {
		v.doubtIf(writes+removals > own.ResultWrites, kindReward, verifierDir, "a reward was written or removed %d times, %d of them by the tests", writes+removals, own.ResultWrites)
		return nil
	}
	v.doubtIf(removals > 0, kindReward, verifierDir, "a reward was removed %d times while the tests ran", removals)
	v.doubtIf(writes > 1, kindReward, verifierDir, "a reward was written %d times", writes)
	return nil
}

// added says whether the tests made a file themselves.
func added(list []string, name string) bool {
	return slices.ContainsFunc(list, func(by string) bool { return name == by || strings.HasPrefix(name, by+"/") })
}

func isReward(name string) bool {
	return name == verifierDir+"/reward.txt" || name == verifierDir+"/reward.json"
}

func sorted(events []sandbox.WatchEvents) []sandbox.WatchEvents {
	return slices.SortedFunc(slices.Values(events), func(a, b sandbox.WatchEvents) int { return strings.Compare(a.Path, b.Path) })
}

// lookAfter judges what happened between the end of the tests and the reading of
// their results, and how the tests look by now.
func (v *verification) lookAfter(ctx context.Context, files verifierFiles, exitCode int) error {
	if !v.watching {
		return nil
	}
	events, lost, err := v.box.(sandbox.Watcher).Watched(ctx, true)
	if err != nil {
		return infra("read what happened after the tests", err)
	}
	v.doubtIf(lost, kindLost, testsDir, "more happened to the tests and their results than could be noted")
	for _, e := range sorted(events) {
		v.doubtIf(isReward(e.Path), kindReward, e.Path, "%s was written after the tests had ended", path.Base(e.Path))
		v.doubtIf(e.Path == verifierDir || e.Path == path.Dir(verifierDir), kindReward, e.Path, "%s was replaced after the tests had ended", e.Path)
	}
	v.doubtIf(v.rewardWrites == 0 && (files.hasText || files.hasJSON), kindReward, verifierDir, "there is a reward that was not written while the tests ran")
	if v.supervised != nil && !v.guarded() {
		if !v.supervised.Ran {
			return nil // what the tests and the tools are was not open to anything else
		}
		return v.compareTools(ctx) // a call whose path was changed while it was decided shows there
	}
	result, problem := files.parse()
	v.doubtIf(v.supervised == nil && problem == nil && exitCode != 0 && result.value > 0, kindReward, verifierDir, "there is a reward although the tests ended with an error")
	if v.supervised != nil && v.supervised.SealedWrites > 0 {
		return v.compareTools(ctx)
	}
	if err := v.compareTests(ctx); err != nil {
		return err
	}
	return v.compareTools(ctx)
}

// compareTests looks whether the tests are still those that were put there.
func (v *verification) compareTests(ctx context.Context) error {
	now := map[string]string{}
	stream, err := v.root.Download(ctx, testsDir)
	if err != nil && !notThere(err) {
		return infra("read "+testsDir, err)
	}
	if err == nil {
		defer stream.Close()
		if now, err = digests(stream); err != nil {
			return infra("read "+testsDir, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v.given)) {
		found, ok := now[name]
		v.doubtIf(!ok, kindTests, name, "%s is gone", name)
		v.doubtIf(ok && found != v.given[name], kindTests, name, "%s is not what was put there (%.12s)", name, found)
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		_, mine := v.given[name]
		v.doubtIf(!mine && actsOnTests(name) && (v.supervised == nil || !added(v.supervised.Added, name)), kindTests, name, "%s is new (%.12s)", name, now[name])
	}
	return nil
}

// notThere says whether a path is missing, also for want of a directory above it.
func notThere(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || err != nil && strings.Contains(err.Error(), "not a directory")
}

// digests returns what a tar stream of the tests holds, by path: digests of files and
// targets of links.
func digests(stream io.Reader) (map[string]string, error) {
	found := map[string]string{}
	archive := tar.NewReader(stream)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		name := path.Join(path.Dir(testsDir), h.Name)
		switch h.Typeflag {
		case tar.TypeSymlink:
			found[name] = "link " + h.Linkname
		case tar.TypeReg:
			sum := sha256.New()
			if _, err := io.Copy(sum, archive); err != nil {
				return nil, err
			}
			found[name] = hex.EncodeToString(sum.Sum(nil))
		case tar.TypeLink: // two names of one file, as the sandbox's own doing
			found[name] = "hard link " + h.Linkname
		}
	}
}

// givenTests returns what the tests are made of, as digests does.
func (v *verification) givenTests() (map[string]string, error) {
	given := map[string]string{}
	for _, dir := range v.part.testFolders() {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return nil, failure(classBadTask, "open the task's tests: %w", err)
		}
		err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
			at := path.Join(testsDir, name)
			switch {
			case err != nil:
				return err
			case d.Type()&fs.ModeSymlink != 0:
				target, err := root.Readlink(name)
				given[at] = "link " + target
				return err
			case !d.Type().IsRegular():
				return nil
			}
			f, err := root.Open(name)
			if err != nil {
				return err
			}
			defer f.Close()
			sum := sha256.New()
			_, err = io.Copy(sum, f)
			given[at] = hex.EncodeToString(sum.Sum(nil))
			return err
		})
		_ = root.Close() // only read from
		if err != nil {
			return nil, failure(classBadTask, "read the task's tests: %w", err)
		}
	}
	return given, nil
}

// compareTools looks whether what scripts go through was replaced meanwhile.
func (v *verification) compareTools(ctx context.Context) error {
	changer, ok := v.box.(sandbox.Changer)
	if !ok || v.supervised != nil && v.supervised.Installed {
		return nil
	}
	changes, err := changer.Changes(ctx)
	if errors.Is(err, sandbox.ErrUnsupported) {
		return nil
	}
	if err := v.unlistable(err); err != nil {
		return err
	}
	// Without a supervisor it is unknown whether the tests installed packages.
	packages := v.installed || v.supervised == nil && upgraded(changes)
	for _, c := range changes {
		if slices.Contains(v.changes, c) || v.supervised != nil && slices.Contains(v.supervised.Replaced, c.Path) {
			continue
		}
		what := judgeChange(c)
		v.doubtIf(core(c, packages) || what == "replaced" || what == "removed" || what != "" && v.supervised != nil, kindTools, c.Path, "%s was %s while the tests ran", c.Path, c.Kind)
	}
	return nil
}

// doubted is the result of a verification in which only the agent's code that the tests
// execute can have raised the doubts. A reward of it never counts.
func (v *verification) doubted(score env.Score, err error) (env.Score, error) {
	v.noteDoubts()
	if err == nil && score.Value <= 0 {
		return score, nil
	}
	return env.Score{}, failure(classTampered, "the reward can't be trusted: %s%s", strings.Join(v.report.Doubts, "; "), v.unattributed())
}

// unattributed says what to do if the tests may have raised the doubts themselves.
func (v *verification) unattributed() string {
	if v.supervised != nil && !slices.ContainsFunc(v.doubts, func(d doubt) bool { return d.kind != sandbox.ActRead }) {
		return "; if the program is meant to read files of the tests that they don't name to it, set metadata.tests_readable to true in the task"
	}
	if v.supervised != nil {
		return "; if the tests are meant to do that, set metadata.isolate_tests to false in the task"
	}
	return "; without isolation (" + v.report.Why + ") the tests can't be told from the agent's code"
}

// noteDoubts puts the doubts on the record, each once.
func (v *verification) noteDoubts() {
	for _, d := range v.doubts {
		if !slices.Contains(v.report.Doubts, d.text) {
			v.report.Doubts = append(v.report.Doubts, d.text)
		}
		if !slices.Contains(v.confirmed, d) {
			v.confirmed = append(v.confirmed, d)
		}
	}
}

// repeat verifies once more where nothing of the agent's runs: on its files as they
// were before the tests. A positive reward of a run without doubts counts. A 0 says
// nothing if the tests may have missed the agent's services.
func (v *verification) repeat(ctx context.Context, limit time.Duration) (env.Score, error) {
	v.noteDoubts()
	tampered := func(why string) error {
		v.report.Repeated = why
		return failure(classTampered, "the reward can't be trusted, because the agent's processes went on: %s; %s", strings.Join(v.report.Doubts, "; "), why)
	}
	if v.copy == "" {
		return env.Score{}, tampered(fmt.Sprintf("there is no copy of the agent's files for a second verification (they have more than %d MiB, or the backend makes none)", copyLimit>>20))
	}
	box, err := v.boxOf(ctx, v.copy)
	if err != nil {
		return env.Score{}, err
	}
	v.closers = append(v.closers, box.Close)
	v.box, v.second, v.report.In = box, true, verifyFresh
	score, err := v.tests(ctx, limit, false)
	var failed *env.VerifierError
	switch {
	case toolcontext.IsInfrastructure(err) || ctx.Err() != nil || errors.As(err, &failed) && failed.Infrastructure:
		return score, err
	case len(v.doubts) > 0:
		v.noteDoubts()
		return env.Score{}, tampered("the second verification, without them, raised doubts as well" + v.unattributed())
	case err == nil && score.Value > 0:
		v.report.Repeated = "the tests passed on the agent's files alone"
		return score, nil
	case !slices.ContainsFunc(v.report.Kept, func(s sandbox.Service) bool { return len(s.Listens) > 0 }):
		v.report.Repeated = "none of them was a service, so the tests without them decide"
		return score, err
	case err != nil:
		return env.Score{}, tampered("without them the tests gave no reward: " + err.Error())
	}
	return env.Score{}, tampered("without them the tests gave 0, which says nothing where they need a service")
}
