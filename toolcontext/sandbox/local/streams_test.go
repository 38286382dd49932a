package local

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// heldPipe returns the streams of a command that has written text and ended, and whose
// pipe a background process holds open.
func heldPipe(t *testing.T, text string) *streams {
	t.Helper()
	p, w, err := newOutputPipe(0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	_, err = w.WriteString(text)
	require.NoError(t, err)
	return &streams{out: p, err: p}
}

// A busy machine may stop the pump between the read and the capture for longer than
// settle waits for a quiet pipe.
func TestSettle_WaitsForBytesThatWereReadAndNotYetCaptured(t *testing.T) {
	st := heldPipe(t, "all of it\n")
	taken, settled, pumped := make(chan struct{}), make(chan struct{}), make(chan struct{})
	st.out.read = func(fd int, buf []byte) (int, error) {
		n, err := readDescriptor(fd, buf)
		if n > 0 {
			close(taken)
			select {
			case <-settled: // too early: the bytes are in neither place
			case <-time.After(5 * drainQuiet):
			}
		}
		return n, err
	}
	go func() {
		st.out.pump(make([]byte, 1<<10))
		close(pumped)
	}()
	<-taken
	st.settle(make([]byte, 1<<10))
	close(settled)
	out, _ := st.close(true)
	require.Equal(t, "all of it\n", out.String())
	st.out.close()
	<-pumped
}

// A pump that never gets to run loses nothing: settle reads what the pipe holds.
func TestSettle_ReadsWhatThePumpDidNot(t *testing.T) {
	st := heldPipe(t, "all of it\n")
	st.settle(make([]byte, 4)) // in several reads
	out, _ := st.close(true)
	require.Equal(t, "all of it\n", out.String())
	st.out.close()
}

// The end of a pipe that has no writers left is no more than its last bytes.
func TestSettle_ReadsAPipeWithoutWriters(t *testing.T) {
	p, w, err := newOutputPipe(0)
	require.NoError(t, err)
	_, err = w.WriteString("text")
	require.NoError(t, err)
	require.NoError(t, w.Close())
	st := &streams{out: p, err: p}
	st.settle(make([]byte, 1<<10))
	p.pump(make([]byte, 1<<10))
	out, _ := st.close(true)
	require.Equal(t, "text", out.String())
	_, err = p.file.Stat()
	require.ErrorIs(t, err, os.ErrClosed)
}
