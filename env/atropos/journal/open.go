package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/hermes-env/hermes-env/internal/atomicfile"
	"github.com/hermes-env/hermes-env/trajectories/filelock"
)

// Recovered is what a log held when it was opened.
type Recovered struct {
	Snapshot []byte
	Records  []Record // after the snapshot
	// Torn is how many bytes at the end were cut off: records that were being written
	// when the process died, and that nobody had been told of.
	Torn int64
	// Damaged says what was passed over, when Repair was asked for.
	Damaged []string
}

// Record is a record of a log.
type Record struct {
	Meta   []byte
	File   uint64
	DataAt int64 // where its data begins
}

// DamagedError is a log that is not what was written, although it was durable.
type DamagedError struct {
	Path   string
	Offset int64
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s is damaged at byte %d (check the disk; --repair passes over what is damaged and keeps the rest)", e.Path, e.Offset)
}

// Open opens a log, or creates it. It holds the directory's lock until Close.
func Open(config Config) (*Log, *Recovered, error) {
	if err := atomicfile.MakeDirs(config.Dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("open state directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(config.Dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("open state directory: %w", err)
	}
	if err := filelock.Try(lock); err != nil {
		err = errors.Join(err, lock.Close())
		if errors.Is(err, filelock.ErrHeld) {
			err = ErrLocked
		}
		if errors.Is(err, filelock.ErrUnsupported) {
			err = fmt.Errorf("%w (choose a state directory on a local disk)", err)
		}
		return nil, nil, fmt.Errorf("open state directory %s: %w", config.Dir, err)
	}
	l := &Log{dir: config.Dir, sync: !config.NoSync, output: config.Write, lock: lock, files: map[uint64]*file{}, ended: make(chan struct{})}
	if l.output == nil {
		l.output = (*os.File).Write
	}
	l.wake.L, l.done.L = &l.mu, &l.mu
	recovered, err := l.recover(config)
	if err != nil {
		for _, f := range l.files {
			err = errors.Join(err, f.handle.Close())
		}
		return nil, nil, fmt.Errorf("open state directory %s: %w", config.Dir, errors.Join(err, lock.Close()))
	}
	go l.write()
	return l, recovered, nil
}

// Abandoned says whether a directory holds a log that no process has open.
func Abandoned(dir string) bool {
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0)
	if err != nil {
		return false
	}
	locked := filelock.Try(lock)
	return errors.Join(locked, lock.Close()) == nil
}

// recover opens the files and reads what the newest one holds.
func (l *Log) recover(config Config) (*Recovered, error) {
	numbers, err := l.openFiles()
	if err != nil {
		return nil, err
	}
	if len(numbers) == 0 {
		return l.begin(config)
	}
	var recovered Recovered
	var first int
	for first = len(numbers) - 1; ; first-- {
		if first < 0 {
			return nil, fmt.Errorf("%s: no file begins with a whole snapshot: the state is lost (move the directory away to start anew)", config.Dir)
		}
		snapshot, ok, err := readSnapshot(l.files[numbers[first]])
		if err != nil {
			return nil, err
		}
		if ok {
			recovered.Snapshot = snapshot
			break
		}
		if !config.Repair {
			return nil, &DamagedError{l.files[numbers[first]].path, 0}
		}
		recovered.Damaged = append(recovered.Damaged, l.files[numbers[first]].path+": the snapshot at its start")
	}
	for _, number := range numbers[first:] {
		last := number == numbers[len(numbers)-1]
		if err := l.replay(l.files[number], last, config.Repair, &recovered); err != nil {
			return nil, err
		}
	}
	l.tail = numbers[len(numbers)-1]
	return &recovered, nil
}

// begin creates the first file.
func (l *Log) begin(config Config) (*Recovered, error) {
	snapshot, err := config.Snapshot()
	if err != nil {
		return nil, err
	}
	r := &record{kind: kindSnapshot, meta: snapshot}
	f, err := l.createFile(1, r)
	if err != nil {
		return nil, err
	}
	l.files[1] = f
	l.tail, l.offset, l.fileSynced = 1, r.size(), r.size()
	return &Recovered{Snapshot: snapshot}, nil
}

// openFiles opens all files of the log and returns their numbers, ascending. What
// a dead process began to create is removed.
func (l *Log) openFiles() ([]uint64, error) {
	names, err := os.ReadDir(l.dir)
	if err != nil {
		return nil, err
	}
	var numbers []uint64
	for _, entry := range names {
		path := filepath.Join(l.dir, entry.Name())
		if filepath.Ext(path) == ".tmp" {
			if _, ok := fileNumber(entry.Name()[:len(entry.Name())-len(".tmp")]); ok {
				if err := os.Remove(path); err != nil {
					return nil, err
				}
			}
			continue
		}
		number, ok := fileNumber(entry.Name())
		if !ok {
			continue
		}
		handle, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
		if err != nil {
			return nil, err
		}
		l.files[number] = &file{number: number, path: path, handle: handle}
		numbers = append(numbers, number)
	}
	slices.Sort(numbers)
	return numbers, nil
}

// readSnapshot reads the first record of a file; not ok when it isn't a snapshot.
func readSnapshot(f *file) (snapshot []byte, ok bool, err error) {
	content, err := os.ReadFile(f.path)
	if err != nil {
		return nil, false, err
	}
	r, err := parse(content, 0)
	if err != nil || r.kind != kindSnapshot {
		return nil, false, nil
	}
	return slices.Clone(r.meta), true, nil
}

// replay reads the records of a file after its snapshot. In the last file, what
// follows the last whole record is cut off.
func (l *Log) replay(f *file, last, repair bool, recovered *Recovered) error {
	content, err := os.ReadFile(f.path)
	if err != nil {
		return err
	}
	var at int64
	for at < int64(len(content)) {
		r, err := parse(content, at)
		if err == nil {
			if r.kind == kindEvent {
				recovered.Records = append(recovered.Records, Record{Meta: slices.Clone(r.meta), File: f.number, DataAt: r.dataAt})
			}
			at = r.end
			continue
		}
		next, found := findRecord(content, at+1)
		if last && (!found || next.synced <= at) && at > 0 {
			break // nothing from here on was durable when the process died
		}
		if !repair {
			return &DamagedError{f.path, at}
		}
		end := int64(len(content))
		if found {
			end = next.at
		}
		recovered.Damaged = append(recovered.Damaged, fmt.Sprintf("%s: bytes %d to %d", f.path, at, end))
		at = end
	}
	if !last {
		return nil
	}
	if torn := int64(len(content)) - at; torn > 0 {
		recovered.Torn = torn
		if err := errors.Join(f.handle.Truncate(at), f.handle.Sync()); err != nil {
			return err
		}
	}
	l.offset, l.fileSynced = at, at
	return nil
}

// findRecord looks for the first whole record at or behind an offset.
func findRecord(content []byte, at int64) (parsed, bool) {
	for ; at+headSize <= int64(len(content)); at++ {
		if content[at] != magic[0] {
			continue
		}
		if r, err := parse(content, at); err == nil {
			return r, true
		}
	}
	return parsed{}, false
}
