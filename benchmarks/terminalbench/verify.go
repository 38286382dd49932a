package terminalbench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hermes-env/hermes-env/agentloop"
	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/internal/textutil"
	"github.com/hermes-env/hermes-env/toolcontext"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/tools"
)

// Places in a task's container.
const (
	testsDir    = "/tests"
	testScript  = testsDir + "/test.sh"
	verifierDir = "/logs/verifier"
	solutionDir = "/solution"
)

// logDirs are made before the agent starts; everybody may write there.
var logDirs = [...]string{"/logs/agent", verifierDir, "/logs/artifacts"}

// outputBytes is how much of what the tests print is kept in the record.
const outputBytes = 16 << 10

// verifyOverhead is what a verification may take beside the tests themselves.
const verifyOverhead = 3 * time.Minute

// verification is one verification under way.
type verification struct {
	e    *Environment
	task *task
	part part
	tc   *toolcontext.Context

	report    verifierReport
	closers   []func(context.Context) error
	box       sandbox.Sandbox // where the tests run
	root      sandbox.Sandbox // for putting and removing files: box, or another way into it
	user      sandbox.Sandbox // for running the tests: box, or another way into it
	changes   []sandbox.Change
	tampered  []tampering
	installed bool // the agent installed packages of the distribution

	copy         string               // an image of the agent's files from before the tests, "" where there is none
	where        string               // verifySame, verifyFresh or verifyClean: what the task or the configuration wants
	undone       map[string]bool      // changes of the agent's that are not where the tests run
	second       bool                 // this is the second verification
	watching     bool                 // the tests and their results are watched
	text         *testText            // of the tests, once it was read
	supervised   *sandbox.Supervision // what the supervisor saw of the last run of the tests; nil without one
	given        map[string]string    // what the tests are made of
	rewardWrites int                  // how often a reward was written while the tests ran
	doubts       []doubt              // of the last run of the tests
	confirmed    []doubt              // of all runs, on the record
}

// verifierReport is metadata.verifier of a record.
type verifierReport struct {
	Skipped    string            `json:"skipped,omitempty"`            // why no tests ran
	RewardFile string            `json:"reward_file,omitempty"`        // the file that counted
	ExitCode   *int              `json:"exit_code,omitempty"`          // of test.sh
	Seconds    float64           `json:"seconds,omitempty"`            // of the last run of test.sh
	Tries      int               `json:"tries,omitempty"`              // runs of test.sh
	In         string            `json:"verified_in,omitempty"`        // "fresh" or "clean" when in a container of its own
	LeftOut    int               `json:"changes_left_out,omitempty"`   // changes outside of the work that a clean container lacks
	Isolated   bool              `json:"isolated"`                     // the agent's code was kept away from the tests and the reward
	Why        string            `json:"not_isolated,omitempty"`       // why not
	Loaded     []string          `json:"loaded_by_tests,omitempty"`    // the agent's code that the tests loaded into their own process
	Changed    []string          `json:"changed_by_program,omitempty"` // files that the tests wrote and the agent's code then changed
	FellBack   bool              `json:"exit_code_fallback,omitempty"`
	Output     string            `json:"test_stdout,omitempty"`
	Cut        bool              `json:"test_stdout_cut,omitempty"`
	CTRF       json.RawMessage   `json:"ctrf,omitempty"`
	Tampering  []tampering       `json:"tampering,omitempty"`
	Diff       *storedDiff       `json:"sandbox_diff,omitempty"`
	Keep       string            `json:"keep_processes,omitempty"` // what of the agent's processes was to go on, when not the default
	Kept       []sandbox.Service `json:"kept_processes,omitempty"`
	Ended      []sandbox.Service `json:"ended_processes,omitempty"` // what the agent left running and was ended before the tests
	Left       []sandbox.Service `json:"left_by_tests,omitempty"`   // processes of the tests, ended before the reward was read
	Doubts     []string          `json:"doubts,omitempty"`          // why the first verification did not count by itself
	Artifacts  []keptArtifact    `json:"artifacts,omitempty"`
	Repeated   string            `json:"repeated,omitempty"` // what came of the second one
	Notes      []string          `json:"notes,omitempty"`
}

// closeLimit bounds the closing of ways into a sandbox.
const closeLimit = 30 * time.Second

// verify scores what is in the sandbox with the tests of one part of a task.
func (e *Environment) verify(ctx context.Context, t *task, p part, result *agentloop.Result, tc *toolcontext.Context) (env.Score, error) {
	v := &verification{e: e, task: t, part: p, tc: tc, where: e.verifiesIn(t.config)}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
		defer cancel()
		for i := len(v.closers) - 1; i >= 0; i-- {
			_ = v.closers[i](closing) // the container goes with the rollout's, or is swept
		}
	}()
	score, err := v.run(ctx, result)
	if !toolcontext.IsInfrastructure(err) {
		v.keepArtifacts(ctx)
	}
	score.Tampering = v.tampering()
	if _, forged := tc.Noted(forgedNote); !forged {
		e.count(v, score.Value)
	}
	details, bad := chat.Marshal(v.report)
	if bad != nil {
		return score, fmt.Errorf("encode what the verifier found: %w", bad)
	}
	if err != nil {
		var failure *env.VerifierError
		if errors.As(err, &failure) {
			failure.Details, failure.Tampering = details, score.Tampering
			failure.Agent = (failure.Agent || v.agentActed()) && !failure.Infrastructure
		}
		return env.Score{}, err
	}
	score.Details = details
	return score, nil
}

// listened names a process that listened and was ended before the tests, "" for none.
func (v *verification) listened() string {
	for _, p := range v.report.Ended {
		if len(p.Listens) > 0 {
			return p.String()
		}
	}
	return ""
}

// agentActed says whether code of the agent's could act while the tests ran.
func (v *verification) agentActed() bool {
	return v.guarded() || v.supervised != nil && v.supervised.Ran
}

func (v *verification) run(ctx context.Context, result *agentloop.Result) (env.Score, error) {
	limit, left := v.e.testLimit(v.part, result)
	switch {
	case result.StopReason == agentloop.StopTimeLimit && !v.e.own.verifiesAfterTimeout():
		v.report.Skipped = "the agent's time was up"
		return env.Score{Value: 0}, nil
	case limit <= 0:
		v.report.Skipped = "the task's time was up"
		return env.Score{Value: 0}, nil
	}
	box, err := v.tc.Sandbox(ctx)
	if err != nil {
		return env.Score{}, err
	}
	v.box = box
	if err := v.inspect(ctx); err != nil {
		return env.Score{}, err
	}
	if v.e.own.StrictTampering && len(v.tampered) > 0 {
		return env.Score{}, failure(classTampering, "the agent changed what the verifier relies on: %s", v.tampered[0])
	}
	restore := len(v.toUndo()) > 0
	switch v.keptRunning(); {
	case v.where != verifySame || v.needsFresh() || restore:
		if err := v.freshBox(ctx); err != nil {
			return env.Score{}, err
		}
	case v.guarded():
		v.copyFiles(ctx)
	}
	score, err := v.tests(ctx, limit, left)
	v.doubtIf(errors.Is(err, sandbox.ErrEndedInside), "sandbox_end", "/", "what ran in the sandbox ended it while the tests ran")
	switch {
	case err == nil && score.Value <= 0 && len(v.report.Kept) > 0 && v.report.In == verifyFresh:
		return env.Score{}, failure(classServicesLost, "the tests had to run in a fresh container, without what the agent left running (%s), and gave %g", v.report.Kept[0], score.Value)
	case err == nil && score.Value <= 0 && v.report.In != "" && v.listened() != "":
		return env.Score{}, &env.VerifierError{Class: classServicesLost, Agent: true,
			Err: fmt.Errorf("the tests ran in another container (verify_in %s), without what the agent left listening (%s), and gave %g; verify_in same keeps it", v.report.In, v.listened(), score.Value)}
	case err == nil && score.Value <= 0 && v.tc.ServicesEnded():
		return env.Score{}, failure(classServicesLost, "what the agent left listening was ended before the tests, because without a server in the container (this program is not a static one) it could not be kept; they gave %g", score.Value)
	case len(v.doubts) == 0 || toolcontext.IsInfrastructure(err) || ctx.Err() != nil:
		return score, err
	case v.guarded():
		return v.repeat(ctx, limit)
	}
	return v.doubted(score, err)
}

// tests runs the tests until they end within their limit, as often as is allowed, and
// scores what they left.
func (v *verification) tests(ctx context.Context, limit time.Duration, left bool) (env.Score, error) {
	if err := v.enter(ctx); err != nil {
		return env.Score{}, err
	}
	defer v.hideTests(ctx)
	hung := 0 // tries that ran into the limit after code of the agent's had run
	for tries := 1; ; tries++ {
		v.report.Tries++
		if err := v.disturbed("placing the tests", v.placeTests(ctx)); err != nil {
			return env.Score{}, err
		}
		ran, err := v.runTests(ctx, limit)
		if err != nil {
			return env.Score{}, err
		}
		if err := v.lookBack(ctx, ran); err != nil {
			return env.Score{}, err
		}
		if err := v.endTests(ctx); err != nil {
			return env.Score{}, err
		}
		files, err := readVerifierFiles(ctx, v.root)
		if err != nil {
			return env.Score{}, infra("read "+verifierDir, err)
		}
		if err := v.lookAfter(ctx, files, ran.ExitCode); err != nil {
			return env.Score{}, err
		}
		switch {
		case !ran.TimedOut:
			return v.score(ctx, files, ran)
		case left:
			v.report.Skipped = fmt.Sprintf("the task's time of %s was up while the tests ran", seconds(v.e.own.TaskTimeout.Duration()))
			return env.Score{Value: 0}, nil
		}
		if v.supervised != nil && v.supervised.Ran {
			hung++
		}
		switch {
		case tries <= v.e.own.VerifierRetries:
		case hung == tries && hung > 1:
			v.report.Notes = append(v.report.Notes, fmt.Sprintf("the tests did not end within %s in any of %d tries, in which they ran the agent's program: that is a 0", seconds(limit), tries))
			return env.Score{Value: 0}, nil
		default:
			return env.Score{}, failure(classTestsTimeout, "the tests did not end within %s (%d tries)", seconds(limit), tries)
		}
	}
}

// testLimit is how long the tests may take; left says that it is what is left of the
// whole task's time rather than the tests' own limit.
func (e *Environment) testLimit(p part, result *agentloop.Result) (limit time.Duration, left bool) {
	if e.own.TimeoutMode != timeoutFixed {
		return p.verifierTimeout, false
	}
	spent := time.Duration(0)
	for _, turn := range result.Turns {
		spent += turn.Total
	}
	limit = e.own.TestTimeout.Duration()
	if remaining := e.own.TaskTimeout.Duration() - spent; remaining < limit {
		return max(0, remaining), true
	}
	return limit, false
}

// needsFresh says whether the tests have to reach something else than the agent could,
// which a container can't change.
func (v *verification) needsFresh() bool {
	spec := v.tc.Spec()
	network, hosts := v.task.verifierNetwork(v.part, spec.Network, spec.AllowedHosts)
	return v.e.own.Network == "task" && (network != spec.Network || !slices.Equal(hosts, spec.AllowedHosts))
}

// enter finds the ways into the sandbox: one that may write anywhere, and one as the
// user that the tests run as.
func (v *verification) enter(ctx context.Context) error {
	agent := v.task.config.Agent.User
	if v.part.agentUser != "" {
		agent = v.part.agentUser
	}
	want := v.part.verifierUser
	var err error
	v.root, v.user = v.box, v.box
	if agent != "" || !canClean(ctx, v.box) {
		if v.root, err = v.as(ctx, "0"); err != nil {
			return err
		}
	}
	switch {
	case want == agent:
	case isRoot(want):
		v.user = v.root
		if v.root == v.box {
			v.user, err = v.as(ctx, want)
		}
	default:
		v.user, err = v.as(ctx, want)
	}
	return err
}

func isRoot(user string) bool {
	return user == "0" || user == "root" || user == "0:0" || user == "root:root"
}

// canClean says whether a way into a sandbox may write where the tests go.
func canClean(ctx context.Context, box sandbox.Sandbox) bool {
	return !isPermission(clean(ctx, box, verifierDir, 0o777))
}

// as opens another way into the sandbox.
func (v *verification) as(ctx context.Context, user string) (sandbox.Sandbox, error) {
	other, err := openAs(ctx, v.box, user)
	if err != nil {
		return nil, err
	}
	v.closers = append(v.closers, other.Close)
	return other, nil
}

func openAs(ctx context.Context, box sandbox.Sandbox, user string) (sandbox.Sandbox, error) {
	door, ok := box.(sandbox.UserSwitcher)
	if !ok {
		return nil, infra("enter the sandbox as another user", fmt.Errorf("the %s backend: %w", box.Info().Backend, sandbox.ErrUnsupported))
	}
	other, err := door.As(ctx, user)
	if err != nil {
		return nil, infra(fmt.Sprintf("enter the sandbox as user %q", user), err)
	}
	return other, nil
}

// placeTests removes whatever is where the tests and their results go, and puts the
// tests there.
func (v *verification) placeTests(ctx context.Context) error {
	for dir, mode := range map[string]os.FileMode{verifierDir: 0o777, testsDir: 0o755} {
		if err := clean(ctx, v.root, dir, mode); err != nil {
			return v.transferFailed("empty "+dir, err)
		}
	}
	for _, dir := range v.part.testFolders() {
		if err := uploadFolder(ctx, v.root, dir, testsDir); err != nil {
			return v.transferFailed("put the tests into "+testsDir, err)
		}
	}
	return v.watchTests(ctx)
}

// transferFailed sorts what went wrong with the sandbox's files: a disk that the
// agent has filled is no trouble of the machine's.
func (v *verification) transferFailed(op string, err error) error {
	if strings.Contains(err.Error(), "no space left on device") || strings.Contains(err.Error(), "disk quota exceeded") {
		v.confirmed = append(v.confirmed, doubt{"disk_full", "/", "the sandbox's disk is full"})
		return failure(classDiskFull, "%s: the sandbox's disk is full: %w", op, err)
	}
	if errors.Is(err, sandbox.ErrUnsafeArchive) || errors.Is(err, errBadFolder) {
		return failure(classBadTask, "%s: %w", op, err) // the same whenever it is tried
	}
	return infra(op, err)
}

// hideTests takes the tests away from where the agent of the next part could read them.
func (v *verification) hideTests(ctx context.Context) {
	if v.part.last {
		return
	}
	for dir, mode := range map[string]os.FileMode{testsDir: 0o755, verifierDir: 0o777} {
		if err := clean(ctx, v.root, dir, mode); err != nil {
			v.report.Notes = append(v.report.Notes, "the next part of the task may see "+dir+": "+err.Error())
		}
	}
}

// runTests runs test.sh as its user, in the environment of the image.
func (v *verification) runTests(ctx context.Context, limit time.Duration) (sandbox.Result, error) {
	args, err := v.part.testCommand()
	if err != nil {
		return sandbox.Result{}, err
	}
	ran, err := v.execTests(ctx, sandbox.Command{
		Args: args, Dir: v.task.workdir(), Env: v.part.verifierEnv, Timeout: limit, Merge: true, MaxOutput: 1 << 20,
	})
	if err == nil && ran.Cancelled {
		err = context.Cause(ctx)
		return ran, err
	}
	if err != nil {
		return ran, infra("run the tests", err)
	}
	v.report.ExitCode, v.report.Seconds = &ran.ExitCode, ran.Duration.Seconds()
	v.report.Output, v.report.Cut = cutOutput(ran.Stdout)
	v.report.Output = v.part.redact(v.report.Output)
	return ran, nil
}

// endTests ends what the tests left running, so that nothing writes a reward any more
// once they have ended.
func (v *verification) endTests(ctx context.Context) error {
	if v.part.keep == keepAll && !v.part.last {
		return nil // the next part needs the services
	}
	const op = "end what the tests left running"
	if v.user != v.box {
		if err := v.endAll(ctx, v.user); err != nil {
			return infra(op, err)
		}
		return nil
	}
	// The sandbox's own server ends everything, and fails on what it may not end: the
	// way in for root has to be closed meanwhile.
	inner := v.root != v.box
	if inner {
		if err := v.root.Close(ctx); err != nil {
			return infra(op, err)
		}
	}
	end := func(ctx context.Context) error { return v.endAll(ctx, v.box) }
	if k, ok := v.box.(sandbox.ServiceKeeper); ok && v.guarded() && !v.part.last {
		end = func(ctx context.Context) error { _, _, err := k.KillOthers(ctx, sandbox.KeepServices); return err }
	}
	if err := end(ctx); err != nil {
		return infra(op, err)
	}
	if inner {
		var err error
		v.root, err = v.as(ctx, "0")
		return err
	}
	return nil
}

// endAll ends all processes of a way into the sandbox, and notes those that the tests
// started.
func (v *verification) endAll(ctx context.Context, box sandbox.Sandbox) error {
	if k, ok := box.(sandbox.ServiceKeeper); ok {
		_, ended, err := k.KillOthers(ctx, sandbox.KeepNone)
		if err == nil { // else KillAll says what is wrong
			before := map[int]bool{}
			for _, p := range v.report.Kept {
				before[p.PID] = true
			}
			v.report.Left = append(v.report.Left, slices.DeleteFunc(ended, func(p sandbox.Service) bool { return before[p.PID] })...)
		}
	}
	return box.KillAll(ctx) // also what came up meanwhile
}

// score turns what the tests left into a score or a failure with a name.
func (v *verification) score(ctx context.Context, files verifierFiles, ran sandbox.Result) (env.Score, error) {
	if json.Valid(files.ctrf) {
		if redacted := v.part.redact(string(files.ctrf)); json.Valid([]byte(redacted)) {
			v.report.CTRF = json.RawMessage(redacted)
		}
	}
	result, problem := files.parse()
	setup, err := "", error(nil)
	if problem != nil || result.value == 0 {
		if setup, err = v.setupFailed(ctx, ran); err != nil {
			return env.Score{}, err
		}
	}
	// Processes that went on could have printed what looks like a failure to install.
	v.doubtIf(setup != "" && v.guarded(), kindSetup, testScript, "the tests could not install their tools")
	switch {
	case setup != "" && v.supervised != nil && v.supervised.Ran:
		return env.Score{}, failure(classSetup, "the tests seem to lack their own tools, but they ran code of the agent's, which can have printed that: %s (env.detect_setup_failures)", setup)
	case setup != "":
		return env.Score{}, &env.VerifierError{Class: classSetup, Infrastructure: true,
			Err: fmt.Errorf("the tests could not install their own tools, which says nothing of the agent's work: %s (env.detect_setup_failures)", setup)}
	case problem == nil:
		v.report.RewardFile = result.file
		return env.Score{Value: result.value, Parts: result.parts, Stop: v.part.stops(result)}, nil
	case v.e.own.ExitCodeFallback:
		v.report.FellBack = true
		value := 0.0
		if ran.ExitCode == 0 {
			value = 1
		}
		return env.Score{Value: value}, nil
	case ran.ExitCode == 126 || ran.ExitCode == 127:
		if v.report.Output != "" && !strings.Contains(v.report.Output, testScript) {
			break
		}
		return env.Score{}, failure(classNoShell, "the tests could not be started (exit code %d): %s%s", ran.ExitCode, textutil.Quote(v.report.Output, 60), v.part.notStarted())
	}
	var missing *rewardError
	errors.As(problem, &missing)
	return env.Score{}, failure(missing.class, "%w; test.sh ended with exit code %d", missing, ran.ExitCode)
}

// minSecret is the length of the shortest value that is taken out of what tests print.
const minSecret = 6

// redact takes the secrets of the tests' variables out of a text: programs of the agent's
// that the tests run can print them.
func (p part) redact(text string) string {
	for _, name := range p.secrets {
		if value := p.verifierEnv[name]; len(value) >= minSecret {
			text = strings.ReplaceAll(text, value, "[redacted "+name+"]")
		}
	}
	return text
}

// cutOutput keeps the beginning and the end of what the tests printed.
func cutOutput(o sandbox.Output) (text string, cut bool) {
	c := sandbox.NewCapture(outputBytes)
	_, _ = c.Write(o.Head) // never fails
	_, _ = c.Write(o.Tail)
	kept := c.Output()
	kept.Total = o.Total
	return strings.ToValidUTF8(kept.String(), "\uFFFD"), kept.Omitted() > 0
}

// failure is an error of the verifier with a name.
func failure(class, format string, args ...any) error {
	return &env.VerifierError{Class: class, Err: fmt.Errorf(format, args...)}
}

// infra marks an error as the sandbox's.
func infra(op string, err error) error {
	if toolcontext.IsInfrastructure(err) {
		return fmt.Errorf("%s: %w", op, err)
	}
	return &tools.InfrastructureError{Op: op, Err: err}
}

// seconds writes a length of time as people read it in a configuration.
func seconds(d time.Duration) string { return fmt.Sprintf("%g s", d.Seconds()) }

// testFolders are the folders that go to /tests, one over the other.
func (p part) testFolders() []string {
	return slices.DeleteFunc([]string{p.sharedTests, p.tests}, func(dir string) bool { return dir == "" })
}

// testCommand is how the tests are started: by their own first line where they have
// one, as a shell's otherwise.
func (p part) testCommand() ([]string, error) {
	first, err := p.firstLine()
	switch {
	case err != nil:
		return nil, err
	case strings.HasPrefix(first, "#!"):
		return []string{testScript}, nil
	}
	return []string{"/bin/sh", "-c", `if command -v bash >/dev/null 2>&1; then exec bash "$0"; fi; exec sh "$0"`, testScript}, nil
}

// firstLine returns the beginning of the first line of test.sh, without the line feed.
func (p part) firstLine() (string, error) {
	for _, dir := range []string{p.tests, p.sharedTests} {
		if dir == "" {
			continue
		}
		f, err := os.Open(filepath.Join(dir, "test.sh"))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", failure(classBadTask, "open the task's tests: %w", err)
		}
		first, err := io.ReadAll(io.LimitReader(f, 256))
		_ = f.Close() // only read from
		if err != nil {
			return "", failure(classBadTask, "read the task's tests: %w", err)
		}
		line, _, _ := strings.Cut(string(first), "\n")
		return line, nil
	}
	return "", failure(classBadTask, "the task has no tests/test.sh, so nothing can be scored")
}

// notStarted says why the tests' interpreter may be missing.
func (p part) notStarted() string {
	first, err := p.firstLine()
	if err == nil && strings.HasPrefix(first, "#!") && strings.HasSuffix(first, "\r") {
		return "; lines of test.sh end as on Windows, so the system looks for an interpreter with a carriage return in its name"
	}
	return ""
}
