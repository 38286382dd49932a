package trajectories

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/internal/atomicfile"
)

// Run is a run directory owned by this process. Its methods may be called from
// several goroutines. It must be closed; until then the directory is locked.
type Run struct {
	dir      string
	settings settings
	lock     *lock
	convert  *ShareGPT
	tools    *chat.Toolset
	repairs  []string
	// allowMissing is Info.AllowMissing.
	allowMissing bool
	// lastRecord is when the last rollout of earlier sessions finished, in milliseconds
	// since 1970; 0 without any.
	lastRecord int64

	queue  chan request
	memory *semaphore.Weighted // bytes of encoded lines that wait for the disk
	done   chan struct{}       // closed when the writer has ended

	mu       sync.Mutex
	manifest Manifest
	index    index
	spent    Spent          // by everything ever recorded, rollouts taken out of the index included
	waiting  waiting        // conversations without a score
	inflight sync.WaitGroup // appends between being accepted and being queued
	failed   error
	closed   bool
	closeErr error
	closeOne sync.Once

	// Owned by the writer goroutine once it runs.
	rollouts appendFile
	file     fs.FileInfo // which file rollouts is
	view     appendFile
	indexed  appendFile    // rollouts.index; nil when it could not be written
	moving   sync.RWMutex  // held for writing while rollouts move into the archive
	segments []segment     // of the archive; written under mu
	archive  ArchiveConfig // owned by the writer goroutine
	pruned   time.Time     // likewise
	known    known         // of rollouts.index, when the run was opened
	// trusted is how many entries rollouts.index may be believed for.
	trusted atomic.Int64
	// unindexed are the last entries while a run is opened, until rollouts.index has them.
	unindexed []Entry
	// interim yields the entries while rollouts.index is of an earlier state.
	interim func(from int, visit func(Entry) error) error
	size    int64 // acknowledged bytes of rollouts.jsonl; written under mu
}

// settings are what tests replace.
type settings struct {
	now    func() time.Time
	who    identity
	open   func(path string) (appendFile, error)
	memory int64 // bound on encoded lines that wait for the disk, bytes
}

func defaults() settings {
	return settings{now: time.Now, who: thisProcess(), open: openAppend, memory: 32 << 20}
}

// Create makes dir a new run and takes ownership of it. dir is created when
// missing, along with the directories above it. The error is ErrExists when dir
// holds a run already, ErrNotRun when it holds anything else, ErrLocked when
// another process is just creating it.
func Create(dir string, info Info) (*Run, error) { return create(dir, info, defaults()) }

// Resume takes ownership of an existing run and repairs what a killed process
// left behind. The error is ErrNotRun when dir holds no run, ErrLocked when
// another process owns it, ErrConfigChanged when it was started with another
// command or environment, or, unless info allows that, with other tools or other
// settings that can affect results, and ErrCorrupt when a file holds what no crash
// can explain.
func Resume(dir string, info Info) (*Run, error) { return resume(dir, info, defaults()) }

func create(dir string, info Info, s settings) (_ *Run, err error) {
	if err := info.check(); err != nil {
		return nil, fmt.Errorf("create run %s: %w", dir, err)
	}
	// Looked at before the lock file is put there, so that a directory that is not
	// ours stays untouched, and again under the lock.
	if err := checkFree(dir); err != nil {
		return nil, err
	}
	if err := makeDirs(dir); err != nil {
		return nil, fmt.Errorf("create run %s: %w (choose a place you may write to with --run-dir)", dir, err)
	}
	l, err := acquireLock(dir, s.who, s.now())
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = firstOf(err, l.release())
		}
	}()
	if err := checkFree(dir); err != nil {
		return nil, err
	}
	r := &Run{dir: dir, settings: s, lock: l, manifest: newManifest(&info, s.now()), index: newIndex()}
	if err := r.openWaiting(); err != nil {
		return nil, fmt.Errorf("create run %s: %w", dir, err)
	}
	if err := r.open(&info); err != nil {
		return nil, err
	}
	return r, nil
}

func resume(dir string, info Info, s settings) (_ *Run, err error) {
	if err := info.check(); err != nil {
		return nil, fmt.Errorf("resume run %s: %w", dir, err)
	}
	if _, err := readManifest(dir); err != nil {
		return nil, noRun("resume", dir, err)
	}
	l, err := acquireLock(dir, s.who, s.now())
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = firstOf(err, l.release())
		}
	}()
	manifest, err := readManifest(dir)
	if err != nil {
		return nil, noRun("resume", dir, err)
	}
	changed, fixed := manifest.reconcile(&info)
	if len(fixed) > 0 || len(changed) > 0 && !info.AllowConfigChange {
		return nil, &ConfigChangedError{Dir: dir, Differences: append(fixed, changed...), Fixed: len(fixed) > 0}
	}
	r := &Run{dir: dir, settings: s, lock: l, manifest: manifest, index: newIndex(), allowMissing: info.AllowMissing}
	if err := r.recover(); err != nil {
		return nil, err
	}
	if err := r.manifest.adopt(&info, changed, r.index.n, s.now()); err != nil {
		return nil, fmt.Errorf("resume run %s: %w", dir, err)
	}
	if err := r.open(&info); err != nil {
		return nil, err
	}
	return r, nil
}

func noRun(verb, dir string, err error) error {
	if isMissing(err) {
		return fmt.Errorf("%s run %s: %w: it has no %s: start the run without --resume, or check --run-dir", verb, dir, ErrNotRun, manifestFile)
	}
	return fmt.Errorf("%s run %s: %w", verb, dir, err)
}

// checkFree says why a new run can not be put into dir.
func checkFree(dir string) error {
	if m, err := readManifest(dir); err == nil {
		return fmt.Errorf("create run %s: %w (%s of %s, started %s, %s): add --resume to go on with it, or choose another directory with --run-dir",
			dir, ErrExists, m.Command, m.Environment, m.StartedAt, m.Status)
	} else if !isMissing(err) {
		if errors.Is(err, ErrCorrupt) {
			return fmt.Errorf("create run %s: %w: %w: choose another directory with --run-dir", dir, ErrExists, err)
		}
		return fmt.Errorf("create run %s: %w", dir, err)
	}
	names, err := os.ReadDir(dir)
	if isMissing(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("create run %s: %w", dir, err)
	}
	for _, name := range names {
		if !leftover(name) {
			return fmt.Errorf("create run %s: %w and not empty (it holds %s): choose another directory with --run-dir", dir, ErrNotRun, name.Name())
		}
	}
	return nil
}

// Unbegun reports whether a directory is there and holds nothing but what a process leaves
// that was killed before it had begun a run. Create takes such a directory.
func Unbegun(dir string) bool {
	names, err := os.ReadDir(dir)
	return err == nil && !slices.ContainsFunc(names, func(name fs.DirEntry) bool { return !leftover(name) })
}

// leftover says whether a directory entry can come from a process that was
// killed before it had written run.json, and so holds nothing.
func leftover(entry fs.DirEntry) bool {
	switch entry.Name() {
	case lockFile, manifestFile + temporarySuffix:
		return true
	case rolloutsFile, trajectoriesFile, indexFile:
		info, err := entry.Info()
		return err == nil && info.Size() == 0
	}
	return false
}

// open opens the files for appending, writes run.json and starts the writer.
// The lock is held and the files on disk agree with the index.
func (r *Run) open(info *Info) (err error) {
	var undo []func() error
	defer func() {
		if err == nil {
			return
		}
		for _, f := range undo {
			err = firstOf(err, f())
		}
	}()
	if r.tools, err = r.manifest.toolset(); err != nil {
		return fmt.Errorf("read %s: %w: %w", filepath.Join(r.dir, manifestFile), ErrCorrupt, err)
	}
	if r.rollouts, err = r.settings.open(r.path(rolloutsFile)); err != nil {
		return fmt.Errorf("open run %s: %w", r.dir, err)
	}
	undo = append(undo, r.rollouts.Close)
	r.noteFile()
	if err := atomicfile.SyncDir(r.dir); err != nil {
		return fmt.Errorf("open run %s: %w", r.dir, err)
	}
	// A view made with another option is made again from the first line.
	rebuild := r.manifest.OmitEmptyThink != info.OmitEmptyThink
	r.manifest.OmitEmptyThink = info.OmitEmptyThink
	r.convert = NewShareGPT(ShareGPTConfig{Tools: r.tools, OmitEmptyThink: info.OmitEmptyThink})
	repair, err := r.syncView(rebuild)
	if err != nil {
		return err
	}
	if repair != "" {
		r.repaired("%s", repair)
	}
	if r.view, err = r.settings.open(r.path(trajectoriesFile)); err != nil {
		return fmt.Errorf("open run %s: %w", r.dir, err)
	}
	undo = append(undo, r.view.Close)
	if err := r.beginSession(info); err != nil {
		return err
	}
	if err := r.openIndex(); err != nil {
		r.indexed = nil // derived: the next resume parses instead
	}
	r.unindexed = nil
	r.memory = semaphore.NewWeighted(r.settings.memory)
	r.queue = make(chan request, 1024)
	r.done = make(chan struct{})
	go r.write()
	return nil
}

// beginSession records this start in run.json, which also makes the directory a run.
func (r *Run) beginSession(info *Info) error {
	m := &r.manifest
	if n := len(m.Sessions); n > 0 && m.Sessions[n-1].Status == StatusRunning {
		m.Sessions[n-1].Status = statusKilled
		if r.lastRecord > 0 {
			m.Sessions[n-1].LastRecordAt = time.UnixMilli(r.lastRecord).UTC().Format(timeLayout)
		}
	}
	session := Session{
		StartedAt: r.settings.now().UTC().Format(timeLayout),
		Status:    StatusRunning,
		PID:       r.settings.who.pid,
		Host:      r.settings.who.host,
		Versions:  info.versions(),
		Rollouts:  r.index.n,
		Repairs:   r.repairs,
	}
	if len(m.Sessions) > 0 {
		session.ConfigChanges = DiffConfigs(m.Config, info.Config)
	}
	m.Sessions = append(m.Sessions, session)
	m.judge(info)
	m.Status = StatusRunning
	m.Error = ""
	m.EndedAt = ""
	return m.write(r.dir)
}

func (r *Run) path(name string) string { return filepath.Join(r.dir, name) }

// Dir returns the run directory.
func (r *Run) Dir() string { return r.dir }

// Manifest returns the content of run.json as it stands; Config, Tools and Seeds
// are shared and not to be modified.
func (r *Run) Manifest() Manifest {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.manifest
	m.Sessions = append([]Session(nil), m.Sessions...)
	return m
}

// Tools returns the definitions of the run's registry.
func (r *Run) Tools() *chat.Toolset { return r.tools }

// Repairs says, in sentences for people, what a killed process had left
// unfinished and was put right when the run was opened.
func (r *Run) Repairs() []string { return r.repairs }

// Close waits for everything appended, makes trajectories.jsonl durable, records
// how the run ended and gives up the ownership. A run whose recording failed is
// recorded as failed whatever status says. Only the first call has an effect;
// later ones return its error.
func (r *Run) Close(status Status) error {
	r.closeOne.Do(func() { r.closeErr = r.close(status) })
	return r.closeErr
}

func (r *Run) close(status Status) error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.inflight.Wait()
	close(r.queue)
	<-r.done
	waitingErr := r.closeWaiting()

	r.mu.Lock()
	defer r.mu.Unlock()
	var problems []error
	if err := r.view.Sync(); err != nil && r.failed == nil {
		r.failed = diskFailure("write "+r.path(trajectoriesFile), err)
	}
	problems = append(problems, r.rollouts.Close(), r.view.Close(), waitingErr)
	r.closeIndex()
	m := &r.manifest
	m.Status = status
	if r.failed != nil {
		m.Status = StatusFailed
		m.Error = r.failed.Error()
		problems = append(problems, r.failed)
	}
	m.EndedAt = r.settings.now().UTC().Format(timeLayout)
	session := &m.Sessions[len(m.Sessions)-1]
	session.EndedAt = m.EndedAt
	session.Status = m.Status
	problems = append(problems, m.write(r.dir), r.lock.release())
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("close run %s: %w", r.dir, err)
	}
	return nil
}

func (r *Run) repaired(format string, args ...any) {
	r.repairs = append(r.repairs, strings.TrimSpace(fmt.Sprintf(format, args...)))
}
