package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func config(dir string) Config {
	return Config{Dir: dir, Snapshot: func() ([]byte, error) { return []byte("start"), nil }}
}

func openLog(t *testing.T, c Config) (*Log, *Recovered) {
	t.Helper()
	l, recovered, err := Open(c)
	require.NoError(t, err)
	return l, recovered
}

func metas(r *Recovered) string {
	var list []string
	for _, record := range r.Records {
		list = append(list, string(record.Meta))
	}
	return string(r.Snapshot) + ":" + strings.Join(list, ",")
}

// written makes a log with records a, b and c, each with data, and returns the path
// of its file.
func written(t *testing.T, dir string) string {
	t.Helper()
	l, _ := openLog(t, config(dir))
	for _, name := range []string{"a", "b", "c"} {
		number, _, _, err := l.Append([]byte(name), []byte("data of "+name))
		require.NoError(t, err)
		require.NoError(t, l.Wait(context.Background(), number))
	}
	require.NoError(t, l.Close())
	return filepath.Join(dir, fileName(1))
}

func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "state")
	l, recovered := openLog(t, config(dir))
	require.Equal(t, "start:", metas(recovered))
	number, file, at, err := l.Append([]byte("m"), []byte("one"), []byte("two"))
	require.NoError(t, err)
	require.NoError(t, l.Wait(context.Background(), number))
	reader, err := l.Open(file)
	require.NoError(t, err)
	data, err := reader.Read(at+3, 3, Checksum([]byte("two")))
	require.NoError(t, err)
	require.Equal(t, "two", string(data))
	_, err = reader.Read(at, 3, Checksum([]byte("two")))
	require.ErrorIs(t, err, ErrDamaged)
	require.NoError(t, l.Rotate([]byte("later"), []uint64{1}))
	number, _, _, err = l.Append([]byte("n"), nil)
	require.NoError(t, err)
	require.NoError(t, l.Wait(context.Background(), number))
	require.NoFileExists(t, filepath.Join(dir, fileName(1)))
	data, err = reader.Read(at, 3, Checksum([]byte("one")))
	require.NoError(t, err, "who reads from a file goes on when it is removed")
	require.Equal(t, "one", string(data))
	require.NoError(t, reader.Close())
	_, err = l.Open(file)
	require.Error(t, err)
	require.NoError(t, l.Close())
	_, _, _, err = l.Append(nil)
	require.ErrorIs(t, err, ErrClosed)

	_, recovered = openLog(t, config(dir))
	require.Equal(t, "later:n", metas(recovered))
	require.Equal(t, uint64(2), recovered.Records[0].File)
}

func TestADirectoryHasOneOwner(t *testing.T) {
	dir := t.TempDir()
	l, _ := openLog(t, config(dir))
	_, _, err := Open(config(dir))
	require.ErrorIs(t, err, ErrLocked)
	require.NoError(t, l.Close())
	l, _ = openLog(t, config(dir))
	require.NoError(t, l.Close())
}

func TestARecordThatWasBeingWrittenIsCutOff(t *testing.T) {
	dir := t.TempDir()
	whole, err := os.ReadFile(written(t, dir))
	require.NoError(t, err)
	third, err := parse(whole, 0)
	require.NoError(t, err)
	for range 2 {
		third, err = parse(whole, third.end)
		require.NoError(t, err)
	}
	for length := third.end; length < int64(len(whole)); length++ {
		torn := filepath.Join(t.TempDir(), "state")
		require.NoError(t, os.Mkdir(torn, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(torn, fileName(1)), whole[:length], 0o600))
		l, recovered := openLog(t, config(torn))
		require.Equal(t, "start:a,b", metas(recovered))
		require.Equal(t, length-third.end, recovered.Torn)
		number, _, _, err := l.Append([]byte("d"))
		require.NoError(t, err)
		require.NoError(t, l.Wait(context.Background(), number))
		require.NoError(t, l.Close())
		l, recovered = openLog(t, config(torn))
		require.Equal(t, "start:a,b,d", metas(recovered))
		require.NoError(t, l.Close())
	}
}

func TestAFlippedBitIsFoundAndRepairKeepsTheRest(t *testing.T) {
	dir := t.TempDir()
	path := written(t, dir)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	first, err := parse(whole, 0)
	require.NoError(t, err)
	second, err := parse(whole, first.end)
	require.NoError(t, err)
	for at := second.at; at < second.end; at++ {
		flipped := append([]byte(nil), whole...)
		flipped[at] ^= 4
		require.NoError(t, os.WriteFile(path, flipped, 0o600))
		_, _, err := Open(config(dir))
		var damaged *DamagedError
		require.ErrorAs(t, err, &damaged, "byte %d", at)
		require.Equal(t, second.at, damaged.Offset)
		require.ErrorContains(t, err, "--repair")
		repair := config(dir)
		repair.Repair = true
		l, recovered := openLog(t, repair)
		require.Equal(t, "start:b,c", metas(recovered), "byte %d", at)
		require.Len(t, recovered.Damaged, 1)
		require.NoError(t, l.Close())
	}
}

func TestADamagedSnapshotIsMadeUpForByTheFileBefore(t *testing.T) {
	dir := t.TempDir()
	l, _ := openLog(t, config(dir))
	_, _, _, err := l.Append([]byte("a"))
	require.NoError(t, err)
	require.NoError(t, l.Rotate([]byte("with a"), nil))
	_, _, _, err = l.Append([]byte("b"))
	require.NoError(t, err)
	require.NoError(t, l.Close())
	path := filepath.Join(dir, fileName(2))
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	content[headSize] ^= 1
	require.NoError(t, os.WriteFile(path, content, 0o600))
	_, _, err = Open(config(dir))
	var damaged *DamagedError
	require.ErrorAs(t, err, &damaged)
	repair := config(dir)
	repair.Repair = true
	l, recovered := openLog(t, repair)
	require.Equal(t, "start:a,b", metas(recovered))
	require.NoError(t, l.Close())
	require.NoError(t, os.Remove(filepath.Join(dir, fileName(1))))
	_, _, err = Open(repair)
	require.ErrorContains(t, err, "move the directory away")
}

func TestAFileThatWasBeingCreatedIsNotPartOfTheLog(t *testing.T) {
	dir := t.TempDir()
	written(t, dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, fileName(2)+".tmp"), []byte("half"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("mine"), 0o600))
	l, recovered := openLog(t, config(dir))
	require.Equal(t, "start:a,b,c", metas(recovered))
	require.NoError(t, l.Close())
	require.NoFileExists(t, filepath.Join(dir, fileName(2)+".tmp"))
	require.FileExists(t, filepath.Join(dir, "notes.txt"))
}

func TestManyWriteAtOnce(t *testing.T) {
	dir := t.TempDir()
	l, _ := openLog(t, config(dir))
	var order sync.Mutex
	var writers sync.WaitGroup
	for i := range 20 {
		writers.Go(func() {
			for k := range 10 {
				order.Lock()
				number, _, _, err := l.Append(fmt.Appendf(nil, "%d/%d", i, k), make([]byte, 1000*k))
				if err == nil && k == 5 {
					err = l.Rotate([]byte("start"), nil)
				}
				order.Unlock()
				if err == nil {
					err = l.Wait(context.Background(), number)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	require.NoError(t, l.Close())
	l, _ = openLog(t, config(dir))
	require.Len(t, l.Files(), 21)
	require.NoError(t, l.Close())
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	l, _ := openLog(t, config(t.TempDir()))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, l.Wait(ctx, 5), context.Canceled)
	require.NoError(t, l.Wait(ctx, -1), "there is nothing to wait for")
	require.NoError(t, l.Close())
}

func TestADiskThatFailsIsSaidOnceAndForAll(t *testing.T) {
	l, _ := openLog(t, config(t.TempDir()))
	require.NoError(t, l.tailFile().handle.Close())
	number, _, _, err := l.Append([]byte("x"))
	require.NoError(t, err)
	require.ErrorIs(t, l.Wait(context.Background(), number), ErrFailed)
	require.ErrorIs(t, l.Failed(), ErrFailed)
	_, _, _, err = l.Append([]byte("y"))
	require.ErrorIs(t, err, ErrFailed)
	require.ErrorIs(t, l.Close(), ErrFailed)
}

func FuzzOpen(f *testing.F) {
	dir := f.TempDir()
	l, _, err := Open(config(dir))
	require.NoError(f, err)
	for _, name := range []string{"a", "b"} {
		_, _, _, err := l.Append([]byte(name), []byte("data of "+name))
		require.NoError(f, err)
	}
	require.NoError(f, l.Close())
	whole, err := os.ReadFile(filepath.Join(dir, fileName(1)))
	require.NoError(f, err)
	f.Add(whole, false)
	f.Add(whole, true)
	f.Add(whole[:len(whole)-3], false)
	f.Add([]byte{}, true)
	f.Add([]byte(magic), false)
	f.Fuzz(func(t *testing.T, content []byte, repair bool) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, fileName(1)), content, 0o600))
		c := config(dir)
		c.Repair, c.NoSync = repair, true
		l, first, err := Open(c)
		if err != nil {
			return
		}
		require.NoError(t, l.Close())
		l, second, err := Open(c)
		require.NoError(t, err, "what was opened once can be opened again")
		require.Equal(t, metas(first), metas(second))
		require.Zero(t, second.Torn)
		require.NoError(t, errors.Join(l.Close()))
	})
}

func TestLog_ResumesAfterAFullDisk(t *testing.T) {
	for _, rotates := range []bool{false, true} {
		c := config(t.TempDir())
		var full atomic.Bool
		c.Write = func(f *os.File, p []byte) (int, error) {
			if !full.Load() {
				return f.Write(p)
			}
			n, err := f.Write(p[:len(p)/2]) // a full disk takes a part
			return n, errors.Join(err, syscall.ENOSPC)
		}
		l, _ := openLog(t, c)
		appendRecord := func(name string) error {
			number, _, _, err := l.Append([]byte(name), []byte("data of "+name))
			if err != nil {
				return err
			}
			return l.Wait(t.Context(), number)
		}
		require.NoError(t, appendRecord("a"))
		full.Store(true)
		if rotates {
			require.NoError(t, l.Rotate([]byte("later"), []uint64{1}))
		}
		require.ErrorIs(t, appendRecord("b"), syscall.ENOSPC)
		lost := l.Last()
		recovered, err := l.Reload()
		require.NoError(t, err)
		require.Equal(t, "start:a", metas(recovered))
		require.ErrorIs(t, l.Wait(t.Context(), lost), ErrFailed)
		require.ErrorIs(t, l.Resume(), syscall.ENOSPC)
		require.Error(t, l.Failed())
		full.Store(false)
		require.NoError(t, l.Resume())
		require.NoError(t, l.Failed())
		require.NoError(t, appendRecord("c"))
		require.ErrorIs(t, l.Wait(t.Context(), lost), ErrFailed)
		require.NoError(t, l.Close())
		l, recovered = openLog(t, config(c.Dir))
		require.Equal(t, "start:a,c", metas(recovered))
		require.NoError(t, l.Close())
	}
}
