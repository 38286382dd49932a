package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/hermes-env/hermes-env/internal/atomicfile"
)

// Config says how a log is kept.
type Config struct {
	Dir string // created when missing
	// NoSync leaves it to the operating system when records reach the disk: they then
	// survive the death of the process but not of the machine.
	NoSync bool
	// Repair passes over damaged records, which Open otherwise refuses.
	Repair bool
	// Snapshot returns the first snapshot of a log that is new.
	Snapshot func() ([]byte, error)
	// Write writes to a file; nil means (*os.File).Write. Tests fail here.
	Write func(*os.File, []byte) (int, error)
}

// Errors of a log.
var (
	ErrClosed = errors.New("the log is closed")
	ErrFailed = errors.New("the log can't be written")
	ErrLocked = errors.New("another process uses the state directory")
)

// Log is an open log. Append and Rotate must be called by one goroutine at a time;
// the other methods by any.
type Log struct {
	dir    string
	sync   bool
	output func(*os.File, []byte) (int, error)
	lock   *os.File
	mu     sync.Mutex
	wake   sync.Cond // the writer's: there is work
	done   sync.Cond // the waiters': something became durable, or failed
	files  map[uint64]*file
	queue  []step
	next   int64 // number of the next record
	synced int64 // number up to which records are durable
	tail   uint64
	offset int64 // where the next record goes in the tail file
	closed bool
	failed error
	busy   bool      // the writer writes
	lost   []numbers // records that never became durable
	ended  chan struct{}

	fileSynced int64 // the writer's while it is busy: what of the tail file is durable
}

// numbers are those of consecutive records, the last one excluded.
type numbers struct{ from, to int64 }

// step is one thing for the writer to do, in order.
type step struct {
	record *record
	number int64
	rotate uint64   // number of the file to begin, with record as its snapshot
	remove []uint64 // files to remove after that
}

// file is one file of the log.
type file struct {
	number  uint64
	path    string
	handle  *os.File
	pins    int
	removed bool
}

// Append hands a record to the writer and returns its number, for Wait, and where
// its data will lie. The slices must not change until the record is durable.
func (l *Log) Append(meta []byte, data ...[]byte) (number int64, fileNumber uint64, dataAt int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return 0, 0, 0, err
	}
	r := &record{kind: kindEvent, meta: meta, data: data}
	dataAt = l.offset + headSize + int64(len(meta))
	l.offset += r.size()
	return l.enqueue(step{record: r}), l.tail, dataAt, nil
}

// enqueue gives the writer work and returns its number. mu is held.
func (l *Log) enqueue(s step) int64 {
	s.number = l.next
	l.next++
	l.queue = append(l.queue, s)
	l.wake.Signal()
	return s.number
}

func (l *Log) usable() error {
	if l.failed != nil {
		return l.failed
	}
	if l.closed {
		return ErrClosed
	}
	return nil
}

// TailSize returns how many bytes the newest file has, or will have.
func (l *Log) TailSize() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.offset
}

// Tail returns the number of the newest file.
func (l *Log) Tail() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tail
}

// Rotate begins a new file with a snapshot of what all records so far amount to.
// When that is durable, the files named in remove go.
func (l *Log) Rotate(snapshot []byte, remove []uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	l.tail++
	r := &record{kind: kindSnapshot, meta: snapshot}
	l.offset = r.size()
	l.enqueue(step{record: r, rotate: l.tail, remove: remove})
	return nil
}

// Wait returns when the record of a number is durable. The error is the context's,
// or says why it will never be.
func (l *Log) Wait(ctx context.Context, number int64) error {
	stop := context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.done.Broadcast()
	})
	defer stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.synced <= number {
		if l.failed != nil {
			return l.failed
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		l.done.Wait()
	}
	if l.isLost(number) {
		return fmt.Errorf("%w: the record was given up when the disk failed", ErrFailed)
	}
	return nil
}

// isLost says whether a record was given up. mu is held.
func (l *Log) isLost(number int64) bool {
	return slices.ContainsFunc(l.lost, func(n numbers) bool { return n.from <= number && number < n.to })
}

// Last returns the number of the newest record, for Wait; -1 when there is none
// since the log was opened or reloaded.
func (l *Log) Last() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isLost(l.next - 1) {
		return -1
	}
	return l.next - 1
}

// Failed returns why nothing can be written until Resume, or nil.
func (l *Log) Failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// Close writes what was appended and closes the files.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		<-l.ended
		return nil
	}
	l.closed = true
	l.wake.Signal()
	l.mu.Unlock()
	<-l.ended
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	for number, f := range l.files {
		err = errors.Join(err, f.handle.Close())
		delete(l.files, number)
	}
	if l.failed != nil {
		err = errors.Join(l.failed, err)
	}
	return errors.Join(err, l.lock.Close())
}

// write is the writer's goroutine, the only one that writes to files.
func (l *Log) write() {
	defer close(l.ended)
	for {
		l.mu.Lock()
		for len(l.queue) == 0 && !l.closed {
			l.wake.Wait()
		}
		steps := l.queue
		l.queue = nil
		failed := l.failed
		l.busy = true
		l.mu.Unlock()
		if len(steps) == 0 {
			return
		}
		if failed == nil {
			failed = l.commit(steps)
		}
		l.mu.Lock()
		if failed != nil && l.failed == nil {
			l.failed = fmt.Errorf("%w: %w (free space or repair the disk)", ErrFailed, failed)
		}
		l.busy = false
		l.done.Broadcast()
		l.mu.Unlock()
	}
}

// durable notes that the records up to a number are.
func (l *Log) durable(number int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.synced = number + 1
	l.done.Broadcast()
}

// gather is how many bytes are put together for one write.
const gather = 256 << 10

// commit writes records and makes them durable.
func (l *Log) commit(steps []step) error {
	for len(steps) > 0 {
		n := 0
		for n < len(steps) && steps[n].rotate == 0 {
			n++
		}
		if err := l.commitRecords(steps[:n]); err != nil {
			return err
		}
		steps = steps[n:]
		if len(steps) > 0 {
			if err := l.commitRotation(steps[0]); err != nil {
				return err
			}
			steps = steps[1:]
		}
	}
	return nil
}

func (l *Log) commitRecords(steps []step) error {
	if len(steps) == 0 {
		return nil
	}
	l.mu.Lock()
	f := l.tailFile()
	l.mu.Unlock()
	var buf []byte
	flush := func() error {
		if len(buf) == 0 {
			return nil
		}
		_, err := l.output(f.handle, buf)
		buf = buf[:0]
		return err
	}
	written := int64(0)
	for _, s := range steps {
		buf = append(buf, s.record.head(l.fileSynced)...)
		buf = append(buf, s.record.meta...)
		for _, d := range s.record.data {
			if len(buf)+len(d) <= gather {
				buf = append(buf, d...)
				continue
			}
			if err := flush(); err != nil {
				return err
			}
			if _, err := l.output(f.handle, d); err != nil {
				return err
			}
		}
		written += s.record.size()
	}
	if err := flush(); err != nil {
		return err
	}
	if l.sync {
		if err := f.handle.Sync(); err != nil {
			return err
		}
	}
	l.fileSynced += written
	l.durable(steps[len(steps)-1].number)
	return nil
}

// tailFile returns the file that is written to: the newest that exists. mu is held.
func (l *Log) tailFile() *file {
	var newest *file
	for _, f := range l.files {
		if newest == nil || f.number > newest.number {
			newest = f
		}
	}
	return newest
}

func (l *Log) commitRotation(s step) error {
	f, err := l.createFile(s.rotate, s.record)
	if err != nil {
		return err
	}
	l.fileSynced = s.record.size()
	l.mu.Lock()
	l.files[f.number] = f
	l.mu.Unlock()
	l.durable(s.number)
	for _, number := range s.remove {
		if err := l.removeFile(number); err != nil {
			return err
		}
	}
	return nil
}

// createFile writes a new file of the log; it has its name only when it is whole.
func (l *Log) createFile(number uint64, snapshot *record) (f *file, err error) {
	path := filepath.Join(l.dir, fileName(number))
	handle, err := os.OpenFile(path+".tmp", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, handle.Close())
		}
	}()
	if _, err := l.output(handle, append(snapshot.head(0), snapshot.meta...)); err != nil {
		return nil, err
	}
	if l.sync {
		if err := handle.Sync(); err != nil {
			return nil, err
		}
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return nil, err
	}
	if l.sync {
		if err := atomicfile.SyncDir(l.dir); err != nil {
			return nil, err
		}
	}
	return &file{number: number, path: path, handle: handle}, nil
}

// removeFile removes a file, and closes it when nobody reads from it.
func (l *Log) removeFile(number uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.files[number]
	if f == nil {
		return nil
	}
	delete(l.files, number)
	f.removed = true
	if f.pins == 0 {
		if err := f.handle.Close(); err != nil {
			return err
		}
	}
	return os.Remove(f.path)
}

// Reader reads from one file, which stays readable until the reader is closed.
type Reader struct {
	log  *Log
	file *file
}

// Open returns a reader of a file.
func (l *Log) Open(number uint64) (*Reader, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.files[number]
	if f == nil {
		return nil, fmt.Errorf("read from the log: there is no file %s", filepath.Join(l.dir, fileName(number)))
	}
	f.pins++
	return &Reader{l, f}, nil
}

// Read returns data and checks it against its CRC-32C. There is room for a few more
// bytes behind it.
func (r *Reader) Read(at, length int64, check uint32) ([]byte, error) {
	data := make([]byte, length, length+8)
	if _, err := r.file.handle.ReadAt(data, at); err != nil {
		return nil, fmt.Errorf("read %d bytes at %d of %s: %w", length, at, r.file.path, err)
	}
	if Checksum(data) != check {
		return nil, fmt.Errorf("read %d bytes at %d of %s: %w", length, at, r.file.path, ErrDamaged)
	}
	return data, nil
}

// ErrDamaged is returned for data that is not what was written.
var ErrDamaged = errors.New("the bytes are not those that were written")

// Close ends the use of the file.
func (r *Reader) Close() error {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	r.file.pins--
	if r.file.removed && r.file.pins == 0 {
		return r.file.handle.Close()
	}
	return nil
}

// Files returns the numbers of the files there are.
func (l *Log) Files() []uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var numbers []uint64
	for n := range l.files {
		numbers = append(numbers, n)
	}
	return numbers
}

// FileSize returns how many bytes a file has.
func (l *Log) FileSize(number uint64) (int64, error) {
	reader, err := l.Open(number)
	if err != nil {
		return 0, err
	}
	info, err := reader.file.handle.Stat()
	if err = errors.Join(err, reader.Close()); err != nil {
		return 0, err
	}
	return info.Size(), nil
}

const fileSuffix = ".journal"

func fileName(number uint64) string { return fmt.Sprintf("%08d%s", number, fileSuffix) }

func fileNumber(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, fileSuffix)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil && n > 0 && fileName(n) == name
}
