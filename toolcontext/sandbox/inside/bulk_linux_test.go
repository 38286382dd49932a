package inside

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestAPipeHoldsMoreOnlyWhileTransfersUseIt(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	size := func() int {
		n, err := unix.FcntlInt(r.Fd(), unix.F_GETPIPE_SZ, 0)
		require.NoError(t, err)
		return n
	}
	usual := size()
	b := newBulk(w)
	first, second := b.begin(), b.begin()
	require.Equal(t, bulkPipe, size())
	first()
	require.Equal(t, bulkPipe, size())
	full := make([]byte, usual+1)
	_, err = w.Write(full)
	require.NoError(t, err)
	second()
	require.Equal(t, bulkPipe, size(), "it holds too much")
	_, err = io.ReadFull(r, full)
	require.NoError(t, err)
	b.begin()()
	require.Equal(t, usual, size())
	newBulk(&bytes.Buffer{}).begin()() // no pipe, no file
	newBulk(os.Stderr).begin()()
}

// gate is a stream that takes a write only when the test does.
type gate chan []byte

func (g gate) Write(p []byte) (int, error) {
	g <- bytes.Clone(p)
	return len(p), nil
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestATransferDoesNotHoldUpOtherRequests(t *testing.T) {
	stream := make(gate)
	m := newMux(strings.NewReader(""), stream, func() {})
	m.client = true
	opened := make(chan *channel, 2)
	open := func() {
		ch, err := m.open([]byte("request"))
		require.NoError(t, err)
		opened <- ch
	}
	go open()
	<-stream
	bulk := <-opened
	require.NoError(t, bulk.granted(1<<30))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = bulk.copyFrom(zeros{}) // ends when it is aborted
	}()
	<-stream
	<-stream
	go open()
	for n := 0; ; n++ {
		require.Less(t, n, 10, "frames of the transfer that went before the request")
		for m.writers.Load() < 1 { // until somebody waits for the stream
			time.Sleep(time.Millisecond)
		}
		time.Sleep(2 * time.Millisecond) // who has waited a millisecond is next but one
		if sent := <-stream; frameType(sent[4]) == frameOpen {
			break
		}
	}
	bulk.abort(io.ErrClosedPipe)
	for ended := false; !ended; {
		select {
		case <-stream:
		case <-done:
			ended = true
		}
	}
	<-opened
}
