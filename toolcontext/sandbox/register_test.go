package sandbox_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// closer is a sandbox as far as a Register needs one.
type closer struct {
	closed atomic.Int32
	err    error
}

func (c *closer) Close(context.Context) error {
	c.closed.Add(1)
	time.Sleep(time.Second)
	return c.err
}

func TestARegisterClosesWhatIsOpenAndWaitsForWhatIsBeingMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r sandbox.Register[*closer]
		kept, gone, late := &closer{err: errors.New("it is stuck")}, &closer{}, &closer{}
		leave, err := r.Enter()
		require.NoError(t, err)
		require.NoError(t, r.Keep(t.Context(), kept))
		require.NoError(t, r.Keep(t.Context(), gone))
		r.Forget(gone)
		r.Forget(late) // never was there
		closed := make(chan error)
		go func() {
			_, err := r.Close(t.Context(), 2)
			closed <- err
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		select {
		case <-closed:
			require.Fail(t, "Close did not wait")
		default:
		}
		require.ErrorIs(t, r.Keep(t.Context(), late), sandbox.ErrClosed)
		leave()
		require.ErrorContains(t, <-closed, "stuck")
		require.EqualValues(t, 1, kept.closed.Load())
		require.EqualValues(t, 0, gone.closed.Load())
		require.EqualValues(t, 1, late.closed.Load(), "made too late")
		_, err = r.Enter()
		require.ErrorIs(t, err, sandbox.ErrClosed)
		first, err := r.Close(t.Context(), 2)
		require.NoError(t, err)
		require.False(t, first)
	})
}

func TestARegisterClosesOnlySoManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r sandbox.Register[*closer]
		for range 6 {
			require.NoError(t, r.Keep(t.Context(), &closer{}))
		}
		began := time.Now()
		first, err := r.Close(t.Context(), 2)
		require.NoError(t, err)
		require.True(t, first)
		require.Equal(t, 3*time.Second, time.Since(began))
	})
}
