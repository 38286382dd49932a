package trajectories

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/hermes-env/hermes-env/internal/atomicfile"
	"github.com/tidwall/gjson"
)

// GroupConfig says where a run writes its groups.
type GroupConfig struct {
	// Path is the file asked for. A file that exists is never touched: the run then
	// takes the first free name with _1, _2, … behind the stem, and keeps it on resume.
	Path string
	// IncludeMessages writes the conversations next to the tokens.
	IncludeMessages bool
}

// GroupWriter appends groups to a file outside the run directory, each exactly
// once however often the run is killed and resumed. Its methods may be called
// from several goroutines.
//
// Before a group is written, its step, place, length and digest go to
// groups.journal in the run directory, so that a resumed run knows whether the
// last line is whole. Groups that come in while the disk is busy are announced
// and written together.
type GroupWriter struct {
	config  GroupConfig
	path    string
	mu      sync.Mutex
	settled sync.Cond // a commit has ended
	steps   map[int]bool
	waiting []*waitingGroup
	batch   []*waitingGroup // being committed by one of their callers; empty when nobody writes
	file    appendFile
	journal appendFile
	size    int64
	failed  error
}

// waitingGroup is a group on its way to the disk.
type waitingGroup struct {
	intent groupIntent
	line   []byte
	done   bool
	err    error
}

// groupIntent is one line of the journal: what is about to be written.
type groupIntent struct {
	step        int
	start, size int64
	ahead       int64 // bytes before it of groups that were announced along with it
	digest      string
}

// OpenGroups opens the run's group file: a new one, or, after Resume, the one the
// run began. Close it before the run.
func (r *Run) OpenGroups(config GroupConfig) (*GroupWriter, error) {
	requested, err := filepath.Abs(config.Path)
	if err != nil || config.Path == "" {
		return nil, firstOf(fmt.Errorf("open group file %q: not a path", config.Path), err)
	}
	w := &GroupWriter{config: config, steps: map[int]bool{}}
	w.settled.L = &w.mu
	journal := r.path(groupsFile)
	if err := w.restore(journal, requested); err != nil {
		return nil, fmt.Errorf("open group file %s: %w", config.Path, err)
	}
	if w.path == "" {
		if err := w.choose(journal, requested); err != nil {
			return nil, fmt.Errorf("open group file %s: %w", config.Path, err)
		}
	}
	if w.file, err = r.settings.open(w.path); err != nil {
		return nil, fmt.Errorf("open group file %s: %w", w.path, err)
	}
	if w.journal, err = r.settings.open(journal); err != nil {
		return nil, firstOf(fmt.Errorf("open %s: %w", journal, err), w.file.Close())
	}
	return w, nil
}

// choose creates the group file under a free name. The name is remembered before
// the file exists, so that a kill in between leaves no file that nobody owns.
func (w *GroupWriter) choose(journal, requested string) error {
	if err := makeDirs(filepath.Dir(requested)); err != nil {
		return err
	}
	extension := filepath.Ext(requested)
	stem := strings.TrimSuffix(requested, extension)
	for i := 0; ; i++ {
		path := requested
		if i > 0 {
			path = stem + "_" + strconv.Itoa(i) + extension
		}
		if _, err := os.Lstat(path); err == nil {
			continue
		} else if !isMissing(err) {
			return err
		}
		if err := writeJournal(journal, requested, path, nil); err != nil {
			return err
		}
		err := createNew(path)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		w.path = path
		return err
	}
}

func createNew(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return atomicfile.SyncDir(filepath.Dir(path))
}

// restore reads the journal of a run that already has a group file and makes the
// file end with the last group that is whole. It leaves path empty when a file
// must be chosen.
func (w *GroupWriter) restore(journal, requested string) (err error) {
	before, path, intents, err := readJournal(journal)
	if isMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if before != requested {
		return fmt.Errorf("%w: the run writes its groups to %s, asked for as %s", ErrConfigChanged, path, before)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if isMissing(err) && len(intents) == 0 {
		if err := createNew(path); err != nil {
			return err
		}
		w.path = path
		return nil
	}
	if isMissing(err) {
		return fmt.Errorf("%s with %d groups of this run is gone: put it back, or start a new run", path, len(intents))
	}
	if err != nil {
		return err
	}
	defer closeInto(&err, f)
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if len(intents) == 0 {
		if info.Size() > 0 {
			return nil // made by someone else before this run got to it: choose another name
		}
		w.path = path
		return writeJournal(journal, requested, path, nil)
	}
	whole, err := countWhole(f, info.Size(), path, intents)
	if err != nil {
		return err
	}
	if whole < len(intents) {
		if err := errors.Join(f.Truncate(intents[whole].start), f.Sync()); err != nil {
			return fmt.Errorf("remove the torn last line of %s: %w", path, err)
		}
		intents = intents[:whole]
	}
	// Written again whole, without a torn last line or the intent of a torn group.
	if err := writeJournal(journal, requested, path, intents); err != nil {
		return err
	}
	w.path = path
	for _, intent := range intents {
		w.steps[intent.step] = true
		w.size = intent.start + intent.size
	}
	return nil
}

// countWhole returns how many of the announced groups are in the file: all but some of
// those that were announced together at last.
func countWhole(f io.ReaderAt, size int64, path string, intents []groupIntent) (int, error) {
	last := intents[len(intents)-1]
	durable := last.start - last.ahead
	switch {
	case size < durable:
		return 0, fmt.Errorf("%w: %s has %d bytes, this run had written %d: put the file back, or start a new run", ErrCorrupt, path, size, durable)
	case size > last.start+last.size:
		return 0, fmt.Errorf("%w: %s was added to by someone else after byte %d: nothing was changed; move it away and start a new run", ErrCorrupt, path, last.start+last.size)
	}
	whole := len(intents)
	for whole > 0 && intents[whole-1].start >= durable {
		whole--
	}
	for ; whole < len(intents); whole++ {
		i := intents[whole]
		if i.start+i.size > size {
			break
		}
		hash := sha256.New()
		if _, err := io.Copy(hash, io.NewSectionReader(f, i.start, i.size)); err != nil {
			return 0, fmt.Errorf("read %s: %w", path, err)
		}
		if hex.EncodeToString(hash.Sum(nil)) != i.digest {
			break
		}
	}
	return whole, nil
}

// Path returns the file the groups go to, absolute.
func (w *GroupWriter) Path() string { return w.path }

// Has says whether the group of a step has been written, in this process or before.
func (w *GroupWriter) Has(step int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.steps[step]
}

// Len returns how many groups have been written, in this process or before.
func (w *GroupWriter) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.steps)
}

// Write appends a group and returns once it is durable. The error is ErrDuplicate
// when the group of that step has been written, ErrFailed when the disk refused
// now or earlier; the group is then not in the file.
func (w *GroupWriter) Write(g Group) error {
	line, err := AppendGroup(nil, g, w.config.IncludeMessages)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	sum := sha256.Sum256(line)
	q := &waitingGroup{intent: groupIntent{step: g.Step, size: int64(len(line)), digest: hex.EncodeToString(sum[:])}, line: line}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed != nil {
		return w.failed
	}
	known := w.steps[g.Step]
	for _, other := range slices.Concat(w.batch, w.waiting) {
		known = known || other.intent.step == g.Step
	}
	if known {
		return fmt.Errorf("write group to %s: %w: step %d", w.path, ErrDuplicate, g.Step)
	}
	w.waiting = append(w.waiting, q)
	// Who finds nobody writing writes what all are waiting for.
	for !q.done {
		if len(w.batch) > 0 {
			w.settled.Wait()
		} else {
			w.commit()
		}
	}
	return q.err
}

// commit writes the groups that wait. mu is held, and given up while the disk is busy.
func (w *GroupWriter) commit() {
	var announced, content []byte
	n := 0
	for ; n < len(w.waiting) && (n == 0 || len(content)+len(w.waiting[n].line) <= commitBytes); n++ {
		q := w.waiting[n]
		q.intent.ahead = int64(len(content))
		q.intent.start = w.size + q.intent.ahead
		announced = append(q.intent.append(announced), '\n')
		content = append(content, q.line...)
	}
	w.batch, w.waiting = w.waiting[:n:n], slices.Clone(w.waiting[n:])
	err := w.failed
	w.mu.Unlock()
	if err == nil {
		err = w.persist(announced, content)
	}
	w.mu.Lock()
	for _, q := range w.batch {
		q.done, q.err = true, err
		if err == nil {
			w.steps[q.intent.step] = true
		}
	}
	w.batch = nil
	if err == nil {
		w.size += int64(len(content))
	} else if w.failed == nil {
		w.failed = err
	}
	w.settled.Broadcast()
}

// persist announces groups and writes them, both durably.
func (w *GroupWriter) persist(announced, content []byte) error {
	if err := writeSync(w.journal, announced); err != nil {
		return diskFailure("announce a group in "+groupsFile, err)
	}
	if err := writeSync(w.file, content); err != nil {
		if undo := errors.Join(w.file.Truncate(w.size), w.file.Sync()); undo != nil {
			err = fmt.Errorf("%w (and taking back the part already written: %w)", err, undo)
		}
		return diskFailure("write group to "+w.path, err)
	}
	return nil
}

// Close waits for the groups being written and closes the files; every group written is
// durable already.
func (w *GroupWriter) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.batch) > 0 || len(w.waiting) > 0 {
		w.settled.Wait()
	}
	if errors.Is(w.failed, ErrClosed) {
		return nil
	}
	w.failed = fmt.Errorf("write group to %s: %w", w.path, ErrClosed)
	return errors.Join(w.file.Close(), w.journal.Close())
}

func writeSync(f appendFile, content []byte) error {
	if _, err := f.Write(content); err != nil {
		return err
	}
	return f.Sync()
}

func (i groupIntent) append(dst []byte) []byte {
	e := encoder{buf: append(dst, '{')}
	e.integer("step", int64(i.step))
	e.integer("start", i.start)
	e.integer("size", i.size)
	if i.ahead > 0 {
		e.integer("ahead", i.ahead)
	}
	e.text("sha256", i.digest)
	return append(e.buf, '}')
}

func writeJournal(journal, requested, path string, intents []groupIntent) error {
	e := encoder{buf: []byte{'{'}}
	e.text("requested", requested)
	e.text("path", path)
	content := append(e.buf, "}\n"...)
	for _, intent := range intents {
		content = append(intent.append(content), '\n')
	}
	return writeAtomic(journal, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// readJournal reads the whole lines of the journal; a torn last one announces a
// group of which nothing was written yet.
func readJournal(journal string) (requested, path string, intents []groupIntent, err error) {
	err = eachLineOf(journal, func(l *lineReader, line []byte) error {
		v := gjson.ParseBytes(line)
		if !validJSON(line) || !v.IsObject() {
			return fmt.Errorf("%w: %s line %d: not a JSON object", ErrCorrupt, journal, l.number)
		}
		if l.number == 1 {
			requested, path = strings.Clone(v.Get("requested").String()), strings.Clone(v.Get("path").String())
			return nil
		}
		intents = append(intents, groupIntent{
			step:   int(v.Get("step").Int()),
			start:  v.Get("start").Int(),
			size:   v.Get("size").Int(),
			ahead:  v.Get("ahead").Int(),
			digest: strings.Clone(v.Get("sha256").String()),
		})
		return nil
	})
	if err == nil && path == "" {
		err = fmt.Errorf("%w: %s names no group file", ErrCorrupt, journal)
	}
	return requested, path, intents, err
}
