package harbor

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// maxTaskName is how much of a task's name a trial's name begins with.
const maxTaskName = 32

// letters are those of the short ids Harbor ends trial names with.
const letters = "23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

// TrialName is the name of a rollout's trial and directory: at most 32 characters
// of the task's name, "__" and 7 characters made from the rollout's id, so that the
// same run gets the same names again.
func TrialName(task, rolloutID string) string {
	name := []rune(fileName(task))
	if len(name) > maxTaskName {
		name = name[:maxTaskName]
	}
	sum := sha256.Sum256([]byte(rolloutID))
	n := binary.BigEndian.Uint64(sum[:8])
	id := make([]byte, 7)
	for i := range id {
		id[i] = letters[n%uint64(len(letters))]
		n /= uint64(len(letters))
	}
	short := strings.TrimRight(string(name), "_-")
	if short == "" {
		short = "task"
	}
	return short + "__" + string(id)
}

// fileName is the last part of a task's name, reduced to what is safe in a path.
func fileName(task string) string {
	task = task[strings.LastIndexByte(task, '/')+1:]
	var b strings.Builder
	for _, r := range task {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-', r == '.':
			b.WriteRune(r)
		default:
			b.WriteByte('-')
		}
	}
	return strings.TrimLeft(b.String(), ".-")
}

// uuid returns the same UUID for the same text (version 8: of our own making).
func uuid(text string) string {
	sum := sha256.Sum256([]byte("hermes-env " + text))
	b := sum[:16]
	b[6] = b[6]&0x0f | 0x80
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// jobName is Harbor's default name of a job that started at a time.
func jobName(started time.Time) string { return started.UTC().Format("2006-01-02__15-04-05") }

// checkJobName refuses names that are no plain directory name.
func checkJobName(name string) error {
	if !regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`).MatchString(name) {
		return fmt.Errorf("%q is no name for a job: want letters, digits, '.', '_' and '-'", name)
	}
	return nil
}
