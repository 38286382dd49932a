package inside_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/inside"
)

func TestAServerThatIsKilledIsLost(t *testing.T) {
	each(t, func(t *testing.T, c *child) {
		// Nobody ends what a server leaves that is killed itself; a container's engine does.
		sleep := sandbox.Command{Script: "while [ -e ../work ]; do sleep 0.05; done"}
		p, err := c.Start(t.Context(), sleep)
		require.NoError(t, err)
		c.script(t, "head -c 3000000 /dev/zero > big; mkfifo never")
		d, err := c.Download(t.Context(), "big")
		require.NoError(t, err)
		var wg sync.WaitGroup
		for _, call := range []func() error{
			func() error {
				_, err := c.Exec(t.Context(), sleep)
				return err
			},
			func() error { _, err := p.Wait(t.Context()); return err },
			func() error {
				_, err := c.Exec(t.Context(), sandbox.Command{Args: []string{"cat"}, Stdin: zeros{}})
				return err
			},
			func() error { _, err := p.Write(t.Context(), make([]byte, 8<<20)); return err },
		} {
			wg.Go(func() {
				if err := call(); !errors.Is(err, sandbox.ErrLost) {
					t.Errorf("a call under way ended with %v", err)
				}
			})
		}
		require.NoError(t, c.Ping(t.Context()))
		c.lost = true
		require.NoError(t, c.cmd.Process.Kill())
		wg.Wait()
		<-c.Done()
		_, err = io.Copy(io.Discard, d)
		require.ErrorIs(t, err, sandbox.ErrLost)
		require.NoError(t, d.Close())
		_, err = c.Exec(t.Context(), sandbox.Command{Args: []string{"true"}})
		require.ErrorIs(t, err, sandbox.ErrLost)
		require.ErrorIs(t, c.KillAll(t.Context()), sandbox.ErrLost)
		_, _, err = p.Poll(t.Context())
		require.ErrorIs(t, err, sandbox.ErrLost)
	})
}

// zeros never ends.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestStatTellsOfAPathWithoutFollowingLinks(t *testing.T) {
	c := create(t, kind{})
	c.script(t, "printf 12345 > file; chmod 640 file; touch -d @1700000000 file; mkdir dir; ln -s nowhere link; echo x > ~/homely")
	f, err := c.Stat(t.Context(), "file")
	require.NoError(t, err)
	require.Equal(t, inside.FileInfo{Mode: 0o640, Size: 5, ModTime: time.Unix(1_700_000_000, 0)}, f)
	d, err := c.Stat(t.Context(), c.Info().Dir+"/dir")
	require.NoError(t, err)
	require.True(t, fs.FileMode(d.Mode).IsDir())
	l, err := c.Stat(t.Context(), "link")
	require.NoError(t, err)
	require.Equal(t, "nowhere", l.Target)
	h, err := c.Stat(t.Context(), "~/homely")
	require.NoError(t, err)
	require.EqualValues(t, 2, h.Size)
	_, err = c.Stat(t.Context(), "nothing")
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = c.Stat(t.Context(), "file/below")
	require.Error(t, err)
}

func TestAnUploadWhoseSourceFailsSaysSo(t *testing.T) {
	c := create(t, kind{})
	cause := errors.New("the disk of the harness is broken")
	err := c.Upload(t.Context(), io.MultiReader(bytes.NewReader(make([]byte, 100)), failing{cause}), "d")
	require.ErrorIs(t, err, cause)
	require.NoError(t, c.Ping(t.Context()))
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestMoreRequestsThanSlotsWaitAndEndWithTheirContext(t *testing.T) {
	c := create(t, kind{})
	ctx, cancel := context.WithCancel(t.Context())
	started := make(chan struct{}, 2000)
	var wg sync.WaitGroup
	for range 1100 {
		wg.Go(func() {
			r, err := c.Exec(ctx, sandbox.Command{Script: ":", Session: true, Stdin: signalReader{started}, Timeout: time.Minute})
			if err != nil || !r.Cancelled && r.ExitCode != 0 && r.ExitCode != 128+9 {
				t.Errorf("%v %+v", err, r)
			}
		})
	}
	<-started
	require.NoError(t, c.Ping(t.Context()), "needs no slot")
	require.NoError(t, c.KillAll(t.Context()))
	cancel()
	wg.Wait()
	require.Equal(t, "well\n", c.script(t, "echo well"))
}

// signalReader is an empty input that tells when it is read.
type signalReader struct{ read chan struct{} }

func (s signalReader) Read([]byte) (int, error) { s.read <- struct{}{}; return 0, io.EOF }

func TestNamesOfAnyLengthAreNoFaultOfTheSandbox(t *testing.T) {
	c := create(t, kind{})
	long := strings.Repeat("x", 300_000)
	for _, cmd := range []sandbox.Command{{Args: []string{long}}, {Args: []string{"true"}, Dir: long}, {Script: "true", Dir: "/" + long, Merge: true}} {
		r, err := c.Exec(t.Context(), cmd)
		require.NoError(t, err)
		require.Contains(t, []int{126, 127}, r.ExitCode)
		p, err := c.Start(t.Context(), cmd)
		require.NoError(t, err)
		r, err = p.Wait(t.Context())
		require.NoError(t, err)
		require.Contains(t, []int{126, 127}, r.ExitCode)
	}
}

func TestAWorkingDirectoryThatIsGoneIsReplacedUpToTheRoot(t *testing.T) {
	dir := t.TempDir() + "/a"
	made, err := newProvider(t, kind{}).Create(t.Context(), sandbox.Spec{Dir: dir + "/b"})
	require.NoError(t, err)
	c := made.(*child)
	require.Equal(t, dir+"/b\n", c.script(t, "pwd"))
	require.NoError(t, os.RemoveAll(dir))
	r, err := c.Exec(t.Context(), sandbox.Command{Script: "pwd", Session: true})
	require.NoError(t, err)
	require.Equal(t, filepath.Dir(dir)+"\n", r.Stdout.String())
	require.Contains(t, r.Stderr.String(), "is gone")
}

func TestTheServerKeepsNoFilesOpen(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // /proc is Linux's
	}
	c := create(t, kind{})
	count := func() int {
		open, err := os.ReadDir("/proc/" + strconv.Itoa(c.cmd.Process.Pid) + "/fd")
		require.NoError(t, err)
		return len(open)
	}
	use := func() {
		c.script(t, "echo x >&2; head -c 500000 /dev/zero > big")
		_, err := c.Exec(t.Context(), sandbox.Command{Args: []string{"cat"}, Stdin: strings.NewReader("x")})
		require.NoError(t, err)
		for _, terminal := range []*sandbox.Terminal{nil, {}} {
			p, err := c.Start(t.Context(), sandbox.Command{Args: []string{"cat"}, Terminal: terminal})
			require.NoError(t, err)
			_, err = p.Write(t.Context(), []byte("x\n"))
			require.NoError(t, err)
			require.NoError(t, p.Kill(t.Context()))
		}
		d, err := c.Download(t.Context(), "big")
		require.NoError(t, err)
		require.NoError(t, d.Close())
	}
	use()
	before := count()
	for range 20 {
		use()
	}
	require.Eventually(t, func() bool { return count() <= before }, time.Minute, 20*time.Millisecond, "%d open at first, %d now", before, count())
}

func TestASourceThatBlocksHoldsNoCloseUp(t *testing.T) {
	c := create(t, kind{})
	source, feed := io.Pipe()
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := c.Upload(t.Context(), source, "d"); !errors.Is(err, sandbox.ErrClosed) {
			t.Errorf("the upload ended with %v", err)
		}
	})
	_, err := feed.Write(make([]byte, 512)) // under way
	require.NoError(t, err)
	require.NoError(t, c.Close(t.Context()))
	require.NoError(t, feed.Close())
	wg.Wait()
}

func TestManyStreamsAtOnceArriveWholeAndApart(t *testing.T) {
	c := create(t, kind{})
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			want := bytes.Repeat([]byte{byte(i), 'x', '\n'}, 1<<20) // many windows
			r, err := c.Exec(t.Context(), sandbox.Command{Args: []string{"cat"}, Stdin: bytes.NewReader(want), MaxOutput: 16 << 20})
			if err != nil || !bytes.Equal(want, r.Stdout.Bytes()) {
				t.Errorf("stream %d: %v, %d of %d bytes", i, err, r.Stdout.Total, len(want))
			}
		})
	}
	wg.Wait()
}

func TestMainIsForItsWordOnly(t *testing.T) {
	for _, args := range [][]string{nil, {}, {"evaluate"}, {"evaluate", inside.Word}, {"--help"}} {
		handled, _ := inside.Main(args, "", io.Discard)
		require.False(t, handled, "%q", args)
	}
	var stderr strings.Builder
	handled, code := inside.Main([]string{inside.Word, "--help"}, "", &stderr)
	require.True(t, handled)
	require.Equal(t, 2, code)
	require.Contains(t, stderr.String(), "takes no arguments")
}

func TestAServerInATemporaryDirectoryLeavesNothing(t *testing.T) {
	c := create(t, kind{})
	require.Equal(t, "test", c.Server().Version)
	c.said(t)
	state, err := os.ReadDir(c.root + "/tmp")
	require.NoError(t, err)
	require.Len(t, state, 1, "what passes between server and shells")
	require.NoError(t, c.Client.Close(t.Context()))
	require.NoError(t, c.cmd.Wait())
	state, err = os.ReadDir(c.root + "/tmp")
	require.NoError(t, err)
	require.Empty(t, state)
}

func (c *child) said(tb testing.TB) {
	tb.Helper()
	_, err := c.Exec(tb.Context(), sandbox.Command{Script: "export V=1", Session: true})
	require.NoError(tb, err)
}
