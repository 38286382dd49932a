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
	text string
	// natural says that the tests may do that themselves; then they do it again when
	// nothing else runs.
	natural bool
}

// maxDoubts bounds what a record says of them.
const maxDoubts = 20

// copyLimit is the most that an agent may have written for its files to be copied
// before tests that run beside its processes.
const copyLimit = 256 << 20

// pytestFiles act on tests by being there.
var pytestFiles = []string{"conftest.py", "pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg", "sitecustomize.py", "usercustomize.py"}

// keptRunning notes what of the agent's goes on.
func (v *verification) keptRunning() {
	kept, known := v.tc.Services()
	if v.report.Kept = kept; !known {
		v.report.Notes = append(v.report.Notes, "the sandbox can't tell services from other processes (there is no server in it, because this program is not a static one), so all were ended: tasks that need a service get no reward")
	}
	if v.part.keep != keepServices {
		v.report.Keep = v.part.keep
	}
}

// guarded says whether processes of the agent's are there while the tests run.
func (v *verification) guarded() bool {
	return v.report.In != verifyFresh && (len(v.report.Kept) > 0 || v.part.keep == keepAll)
}

func (v *verification) doubtIf(is, natural bool, format string, args ...any) {
	if is && len(v.doubts) < maxDoubts {
		v.doubts = append(v.doubts, doubt{fmt.Sprintf(format, args...), natural})
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
	if !v.guarded() && !v.second {
		return nil
	}
	w, ok := v.box.(sandbox.Watcher)
	if !ok {
		return v.notWatched(sandbox.ErrUnsupported)
	}
	err := w.Watch(ctx, []string{verifierDir, testsDir})
	switch {
	case errors.Is(err, sandbox.ErrUnsupported):
		return v.notWatched(err)
	case notThere(err):
		v.doubtIf(true, false, "%s or %s was taken away before the tests", verifierDir, testsDir)
		return nil
	case err != nil:
		return infra("watch the tests and their results", err)
	}
	v.watching = true
	found, err := readVerifierFiles(ctx, v.root)
	if err != nil {
		return infra("read "+verifierDir, err)
	}
	v.doubtIf(found.hasText || found.hasJSON || found.problem != "", false, "there was a reward before the tests ran")
	return nil
}

func (v *verification) notWatched(err error) error {
	v.report.Notes = append(v.report.Notes, "what the agent's processes did to the tests could not be watched: "+err.Error())
	return nil
}

// lookBack judges what happened while the tests ran, right after their end.
func (v *verification) lookBack(ctx context.Context, ran sandbox.Result) error {
	if !v.watching {
		return nil
	}
	events, lost, err := v.box.(sandbox.Watcher).Watched(ctx, false)
	if err != nil {
		return infra("read what happened while the tests ran", err)
	}
	v.doubtIf(lost, false, "more happened to the tests and their results than could be noted")
	v.doubtIf(!ran.TimedOut && ran.ExitCode > 128 && ran.ExitCode <= 128+64, false, "the tests were ended by signal %d", ran.ExitCode-128)
	given, err := v.givenTests()
	if err != nil {
		return err
	}
	v.given = given
	v.rewardWrites = 0
	for _, e := range sorted(events) {
		times := max(e.Created, e.Written) + e.Arrived
		dir, name := path.Split(e.Path)
		switch {
		case isReward(e.Path):
			v.rewardWrites += times
			v.doubtIf(e.Elsewhere > 0, false, "%s was written under another name", name)
			v.doubtIf(e.Left > 0, true, "%s was removed %d times while the tests ran", name, e.Left)
		case e.Path == verifierDir || e.Path == testsDir || e.Path == path.Dir(verifierDir):
			v.doubtIf(true, false, "%s was replaced while the tests ran", e.Path)
		case strings.HasPrefix(dir, testsDir+"/"):
			_, mine := given[e.Path]
			v.doubtIf(mine || slices.Contains(pytestFiles, name), true, "%s was changed %d times and removed %d times while the tests ran", e.Path, times, e.Left)
		}
	}
	v.doubtIf(v.rewardWrites > 1, true, "a reward was written %d times", v.rewardWrites)
	return nil
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
	v.doubtIf(lost, false, "more happened to the tests and their results than could be noted")
	for _, e := range sorted(events) {
		v.doubtIf(isReward(e.Path), false, "%s was written after the tests had ended", path.Base(e.Path))
		v.doubtIf(e.Path == verifierDir || e.Path == path.Dir(verifierDir), false, "%s was replaced after the tests had ended", e.Path)
	}
	result, problem := files.parse()
	// In the second run 0 shows as well that these tests write a reward and then fail.
	v.doubtIf(problem == nil && exitCode != 0 && (result.value > 0 || v.second), true, "there is a reward although the tests ended with an error")
	v.doubtIf(v.rewardWrites == 0 && (files.hasText || files.hasJSON), false, "there is a reward that nobody wrote")
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
		v.doubtIf(!ok, true, "%s is gone", name)
		v.doubtIf(ok && found != v.given[name], true, "%s is not what was put there (%.12s)", name, found)
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		_, mine := v.given[name]
		v.doubtIf(!mine && slices.Contains(pytestFiles, path.Base(name)), true, "%s is new (%.12s)", name, now[name])
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
	if !ok {
		return nil
	}
	changes, err := changer.Changes(ctx)
	if errors.Is(err, sandbox.ErrUnsupported) {
		return nil
	}
	if err := unlistable(err); err != nil {
		return err
	}
	packages := upgraded(changes)
	for _, c := range changes {
		if slices.Contains(v.changes, c) {
			continue
		}
		what := judgeChange(c)
		decides := core(c, packages)
		// Other programs may be upgraded by the tests themselves.
		v.doubtIf(decides || what == "replaced" || what == "removed", !decides, "%s was %s while the tests ran", c.Path, c.Kind)
	}
	return nil
}

// repeat verifies once more where nothing of the agent's runs: on its files as they
// were before the tests. A positive reward of that run stands by itself. Otherwise the
// tests may have missed the agent's services, so the run decides only in one way: when
// everything that made the first one doubtful happens again, it is how these tests
// work, and the first one counts.
func (v *verification) repeat(ctx context.Context, limit time.Duration, first env.Score, firstErr error) (env.Score, error) {
	doubts, firstReport := v.doubts, v.report
	for _, d := range doubts {
		v.report.Doubts = append(v.report.Doubts, d.text)
	}
	firstReport.Doubts = v.report.Doubts
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
	switch {
	case toolcontext.IsInfrastructure(err) || ctx.Err() != nil:
		return score, err
	case err == nil && score.Value > 0:
		v.report.Repeated = "the tests passed on the agent's files alone"
		return score, nil
	case natural(doubts, v.doubts):
		v.report = firstReport
		v.report.Repeated = "the tests do the same when nothing else runs"
		return first, firstErr
	case err != nil:
		return env.Score{}, tampered("without them the tests gave no reward: " + err.Error())
	}
	return env.Score{}, tampered("without them the tests gave 0, which says nothing where they need a service")
}

// natural says whether all doubts are such that tests may cause themselves, and came up
// again.
func natural(doubts, again []doubt) bool {
	for _, d := range doubts {
		if !d.natural || !slices.Contains(again, d) {
			return false
		}
	}
	return true
}
