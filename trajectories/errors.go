package trajectories

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"
)

// Conditions a caller decides upon; test with errors.Is.
var (
	// ErrExists: the directory already holds a run.
	ErrExists = errors.New("the run directory already holds a run")
	// ErrNotRun: the directory is missing or holds something other than a run.
	ErrNotRun = errors.New("not a run directory")
	// ErrLocked: another process owns the run; the error is a *LockedError.
	ErrLocked = errors.New("the run is in use")
	// ErrConfigChanged: the run was started with other settings; the error is a *ConfigChangedError.
	ErrConfigChanged = errors.New("the configuration differs from the one the run was started with")
	// ErrDuplicate: a rollout of the same key or id is already recorded.
	ErrDuplicate = errors.New("the rollout is already recorded")
	// ErrCorrupt: a file of the run holds something that no crash can have left; nothing was changed.
	ErrCorrupt = errors.New("the file is damaged")
	// ErrFailed: a write failed earlier; nothing more is recorded in this process.
	ErrFailed = errors.New("the run can no longer be recorded")
	// ErrClosed: the run was closed.
	ErrClosed = errors.New("the run is closed")
)

// LockedError names the process that owns a run.
type LockedError struct {
	Dir     string
	PID     int    // 0 when the owner has not written its name yet
	Host    string // "" when the owner has not written its name yet
	Started time.Time
}

func (e *LockedError) Error() string {
	owner := "another process"
	if e.PID != 0 {
		owner = fmt.Sprintf("process %d on host %s (since %s)", e.PID, e.Host, e.Started.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("open run %s: %s is writing it: wait for it to end, or choose another directory with --run-dir", e.Dir, owner)
}

// Is makes errors.Is(err, ErrLocked) true.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// ConfigChangedError says in which settings a resume differs from the run.
type ConfigChangedError struct {
	Dir         string
	Differences []string // "path: old -> new", never empty
	Fixed       bool     // Info.AllowConfigChange does not help: it would be another run altogether
}

func (e *ConfigChangedError) Error() string {
	advice := "run again with the old settings, start a new run with another --run-dir, or add --allow-config-change: the run is then marked as mixed from both"
	if e.Fixed {
		advice = "run again with the old ones, or start a new run with another --run-dir"
	}
	return fmt.Sprintf("resume run %s: it was started with other settings:\n  %s\n%s", e.Dir, strings.Join(e.Differences, "\n  "), advice)
}

// Is makes errors.Is(err, ErrConfigChanged) true.
func (e *ConfigChangedError) Is(target error) bool { return target == ErrConfigChanged }

// DiskAdvice says what the user can do about an error of the disk: "free space", "make
// the directory writable" or "check the disk".
func DiskAdvice(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "free space"
	case errors.Is(err, syscall.EROFS), errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return "make the directory writable"
	}
	return "check the disk"
}

// diskFailure turns an error of the disk into what the user is told.
func diskFailure(attempt string, err error) error {
	if errors.Is(err, errGone) {
		return fmt.Errorf("%w: %s: %w: nothing more is put into a file that nobody could find; put the directory back if you can, and run again with --resume", ErrFailed, attempt, err)
	}
	return fmt.Errorf("%w: %s: %w: every rollout acknowledged before is safe; %s and run again with --resume", ErrFailed, attempt, err, DiskAdvice(err))
}

// errGone: a file of the run was taken away or replaced while the run wrote it.
var errGone = errors.New("the file was removed, moved or replaced by someone else while the run wrote it")

// derivedFailure is a file that could not be written, though the rollouts it is made of
// are safe.
func derivedFailure(path string, err error) error {
	return fmt.Errorf("write %s: %w: the rollouts it is made of are safe; %s and run again with --resume", path, err, DiskAdvice(err))
}

// firstOf returns err along with what went wrong while cleaning up after it, and
// either of them alone as it is.
func firstOf(err, cleanup error) error {
	switch {
	case cleanup == nil:
		return err
	case err == nil:
		return cleanup
	}
	return errors.Join(err, cleanup)
}
