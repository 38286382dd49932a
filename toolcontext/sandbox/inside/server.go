package inside

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/local"
)

// Config says how a server runs commands. The zero value is usable.
type Config struct {
	// Version is told to the client. Default: "".
	Version string
	// Home is the home directory of commands. Default: $HOME of Environ, else the
	// working directory.
	Home string
	// Dir is the working directory sessions start in where the client names none.
	// Default: the process's own.
	Dir string
	// TempDir is for scratch files. Default: $TMPDIR of Environ, else /tmp.
	TempDir string
	// Environ is what commands get, as "name=value". Default: the process's own.
	Environ []string
	// Grace is how long a command that timed out has between SIGTERM and SIGKILL.
	// Default: 200 ms. Negative: none.
	Grace time.Duration
	// KillWait bounds the wait for killed processes to be gone. Default: 10 s.
	KillWait time.Duration
	// HandshakeWait bounds the wait for the client's greeting. Default: 5 min, because
	// a container may be attached to late. Negative: none.
	HandshakeWait time.Duration

	inMemory    bool   // files that pass between server and shells are in memory
	guard       *guard // of the server's place; nil guards nothing
	noSubreaper bool   // for tests: adopting orphans would hold for their whole process
}

func (c Config) withDefaults() (Config, error) {
	if c.Environ == nil {
		c.Environ = os.Environ()
	}
	if c.Dir == "" {
		dir, err := os.Getwd()
		if err != nil {
			dir = "/"
		}
		c.Dir = dir
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return c, fmt.Errorf("find the working directory %s: %w", c.Dir, err)
	}
	c.Dir = dir
	if c.Home == "" {
		c.Home = variable(c.Environ, "HOME")
	}
	if !filepath.IsAbs(c.Home) {
		c.Home = c.Dir
	}
	if c.TempDir == "" {
		c.TempDir = variable(c.Environ, "TMPDIR")
	}
	if !filepath.IsAbs(c.TempDir) {
		c.TempDir = "/tmp"
	}
	if c.HandshakeWait == 0 {
		c.HandshakeWait = 5 * time.Minute
	}
	if c.KillWait <= 0 {
		c.KillWait = 10 * time.Second
	}
	return c, nil
}

// variable returns a variable's last value in a list of "name=value".
func variable(environ []string, name string) string {
	value := ""
	for _, entry := range environ {
		if len(entry) > len(name) && entry[len(name)] == '=' && entry[:len(name)] == name {
			value = entry[len(name)+1:]
		}
	}
	return value
}

// Serve carries out what a client asks for over in and out, until the stream or
// ctx ends. Then it ends every process it has started, and returns nil when the
// client has left or hung up between two frames. in and out are closed where they
// can be; an in that can't must end by itself for Serve to return.
func Serve(ctx context.Context, in io.Reader, out io.Writer, c Config) error {
	c, err := c.withDefaults()
	if err != nil {
		return err
	}
	m := newMux(in, out, func() {
		for _, end := range []any{in, out} {
			if closer, ok := end.(io.Closer); ok {
				_ = closer.Close() // nothing is lost that anybody waits for
			}
		}
	})
	stop := context.AfterFunc(ctx, func() { _ = m.fail(context.Cause(ctx)) })
	defer stop()
	s, err := greet(ctx, m, c)
	if err != nil {
		_ = m.fail(err)
		return fmt.Errorf("greet the client: %w", err)
	}
	s.bulkIn, s.bulkOut = newBulk(in), newBulk(out)
	err = s.serve(ctx)
	if errors.Is(err, errHungUp) || errors.Is(err, errLeft) {
		err = nil
	}
	return errors.Join(err, s.close())
}

// errLeft is why a stream ends whose client has said goodbye.
var errLeft = errors.New("the client has left")

// server is one Serve under way.
type server struct {
	m         *mux
	config    Config
	provider  *local.Provider
	box       sandbox.Sandbox
	stateDir  string
	requests  sync.WaitGroup
	processes processTable
	idle      time.Duration // how long the client may be silent; 0 is for ever
	relay     *relay        // nil where the sandbox has no proxy
	disk      *diskWatch    // nil where nothing bounds what is written
	watched   pathWatch
	volatile  volatileMounts
	looking   atomic.Bool // somebody reads the status

	bulkIn, bulkOut *bulk // the stream's ends
}

// greet exchanges greetings and makes the sandbox that the client's asks for.
func greet(ctx context.Context, m *mux, c Config) (*server, error) {
	if c.HandshakeWait > 0 {
		timer := time.AfterFunc(c.HandshakeWait, func() {
			_ = m.fail(fmt.Errorf("no client within %v", c.HandshakeWait))
		})
		defer timer.Stop()
	}
	if err := m.greet(); err != nil {
		return nil, err
	}
	payload, err := m.greeted()
	if cause := m.cause(); cause != nil {
		return nil, cause
	}
	if err != nil {
		return nil, err
	}
	set, err := decodeSettings(payload)
	if err != nil {
		return nil, err
	}
	s := &server{m: m, config: c, volatile: newVolatileMounts()}
	if err := s.open(ctx, set); err != nil {
		_ = m.send(frameFail, 0, encodeFailure(err)) // the cause matters more than a broken stream
		return nil, errors.Join(err, s.close())
	}
	since := s.watchDisk(set)
	info := s.box.Info()
	return s, m.hello(Server{
		DiskSince: since, RootBytes: rootBytes(),
		Version: c.Version, OS: runtime.GOOS, Arch: runtime.GOARCH,
		PID: os.Getpid(), UID: os.Getuid(),
		Home: info.Home, Dir: info.Dir, Tmp: info.TempDir,
	}.encode())
}

// open makes the sandbox: the directories of this machine as they are.
func (s *server) open(ctx context.Context, set settings) error {
	s.stateDir = makeStateDir(s.config.TempDir, s.config.inMemory)
	s.idle = set.idle
	environ := s.config.Environ
	if set.proxy {
		r, err := listenRelay()
		if err != nil {
			return err
		}
		s.relay = r
		environ = append(environ[:len(environ):len(environ)], r.environ()...)
	}
	provider, err := local.New(local.Config{
		BaseDir:   s.stateDir,
		Environ:   environ,
		Grace:     s.config.Grace,
		KillWait:  s.config.KillWait,
		Subreaper: !s.config.noSubreaper,
		NoCgroups: true,
		Place: &local.Place{
			Home: s.config.Home, Dir: s.config.Dir, TempDir: s.config.TempDir,
			Everything: os.Getpid() == 1, Starting: s.config.guard.starting, Spare: spareDir(s.stateDir, s.config.TempDir), Ambient: passedOn(),
		},
	})
	if err != nil {
		return err
	}
	s.provider = provider
	s.box, err = provider.Create(ctx, sandbox.Spec{Dir: set.dir, Env: set.env})
	if err != nil && set.anywhere {
		s.box, err = provider.Create(ctx, sandbox.Spec{Dir: "/", Env: set.env})
	}
	return err
}

// watchDisk makes the watch over what the sandbox writes, where the client wants one,
// and returns when that began.
func (s *server) watchDisk(set settings) int64 {
	if set.disk <= 0 {
		return 0
	}
	meter, since := newDiskMeter(set.diskSince, s.stateDir)
	if meter == nil {
		return 0
	}
	s.disk = &diskWatch{
		limit: set.disk, meter: meter, killAll: s.box.KillAll, woken: make(chan struct{}, 1),
		stop:    s.freeze,
		restart: set.diskSince != 0,
	}
	return since
}

// freeze stops the sandbox's processes until the function returned is called.
func (s *server) freeze() (goOn func()) {
	if f, ok := s.box.(interface{ Freeze() func() }); ok {
		return f.Freeze()
	}
	return func() {}
}

// memoryDir is a file system in memory.
const memoryDir = "/dev/shm"

// spareDir is where scripts are put when the file system of stateDir is full.
func spareDir(stateDir, temp string) string {
	if filepath.Dir(stateDir) == memoryDir {
		return temp
	}
	return memoryDir
}

// stateDirPattern is how the directories of makeStateDir are named.
const stateDirPattern = ".hermes-env-*"

// makeStateDir makes a private directory for what passes between server and shells.
// In memory a file costs a fraction of what it does in a container's layer. Where nothing can be written it names one that is not there: only scripts need it.
func makeStateDir(temp string, inMemory bool) string {
	places := []string{temp, "/tmp", "/var/tmp", memoryDir, "/run", "/"}
	if os.Getpid() == 1 { // what a server left that was here before and died
		old, _ := filepath.Glob(filepath.Join(temp, stateDirPattern))
		for _, dir := range old {
			_ = os.RemoveAll(dir)
		}
	}
	if inMemory {
		places = append([]string{memoryDir}, places...)
	}
	if _, err := os.Stat(temp); errors.Is(err, fs.ErrNotExist) && os.MkdirAll(temp, 0o755) == nil {
		_ = os.Chmod(temp, 0o777|os.ModeSticky) // without, only other users miss something
	}
	for _, dir := range places {
		if made, err := os.MkdirTemp(dir, stateDirPattern); err == nil {
			return made
		}
	}
	if made := filepath.Join(temp, ".hermes-env"); os.MkdirAll(made, 0o700) == nil {
		return made
	}
	return "/tmp/.hermes-env"
}

// serve handles requests until the stream ends, and returns why it did.
func (s *server) serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var watching sync.WaitGroup
	watching.Go(func() { reapOrphans(ctx, s.provider) })
	if s.config.guard != nil {
		watching.Go(func() { s.watchPlace(ctx) })
	}
	if s.idle > 0 {
		watching.Go(func() { s.watchClient(ctx, s.idle) })
	}
	if s.disk != nil {
		watching.Go(func() { s.disk.watch(ctx) })
	}
	err := s.m.receive(func(ch *channel) {
		s.requests.Go(func() { s.handle(ctx, ch) })
	})
	cancel()
	watching.Wait()
	return err
}

// close ends what runs and waits for the requests under way.
func (s *server) close() error {
	if s.relay != nil {
		_ = s.relay.listener.Close() // nobody waits for it
	}
	s.watched.end()
	if s.provider == nil {
		return os.RemoveAll(s.stateDir)
	}
	err := s.provider.Close(context.Background())
	s.requests.Wait()
	return errors.Join(err, os.RemoveAll(s.stateDir))
}

// handle carries out one request.
func (s *server) handle(ctx context.Context, ch *channel) {
	defer ch.release()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ch.whenCancelled(cancel)
	request, err := ch.message(maxRequest)
	if err == nil {
		d := &decoder{b: request}
		err = s.answer(ctx, ch, requestKind(d.uint()), d)
	}
	if err != nil {
		// Fails only with the stream, which ends everything.
		_ = s.m.send(frameFail, ch.id, encodeFailure(err))
	}
}

// answer carries out a request and sends its answer. An error is the answer then.
func (s *server) answer(ctx context.Context, ch *channel, kind requestKind, d *decoder) error {
	reply := newMessage()
	switch kind {
	case requestExec:
		c, stdin := decodeCommand(d)
		if err := d.end(); err != nil {
			return err
		}
		if stdin {
			c.Stdin = ch
		}
		seen := s.disk.seen()
		if r, refused := s.disk.refused(c.Merge); refused {
			encodeResult(reply, fit(r, outputLimit(c)))
			break
		}
		defer s.disk.begin()()
		r, err := s.box.Exec(ctx, c)
		if err != nil {
			return err
		}
		s.disk.explain(&r, c.Merge, seen)
		encodeResult(reply, fit(r, outputLimit(c)))
	case requestSupervised:
		if err := s.execSupervised(ctx, d, reply); err != nil {
			return err
		}
	case requestUpload:
		dir := d.string()
		if err := d.end(); err != nil {
			return err
		}
		defer s.bulkIn.begin()()
		defer s.disk.begin()()
		// A client that waits for its own source sends nothing more.
		defer context.AfterFunc(ctx, func() { ch.abortInput(context.Cause(ctx)) })()
		if err := s.box.Upload(ctx, ch, dir); err != nil {
			return err
		}
	case requestDownload:
		path := d.string()
		if err := d.end(); err != nil {
			return err
		}
		return s.download(ctx, ch, path)
	case requestStat:
		path := d.string()
		if err := d.end(); err != nil {
			return err
		}
		info, err := s.stat(path)
		if err != nil {
			return err
		}
		info.encode(reply)
	case requestKillAll:
		if err := d.end(); err != nil {
			return err
		}
		if err := s.box.KillAll(ctx); err != nil {
			return err
		}
		s.config.guard.check()
		s.disk.reopen()
	case requestKillOthers, requestWatch, requestWatched:
		if err := s.answerServices(ctx, kind, d, reply); err != nil {
			return err
		}
	case requestClean, requestRemove:
		if err := answerClean(kind, d); err != nil {
			return err
		}
	case requestPing:
		if err := d.end(); err != nil {
			return err
		}
		s.readStatus().encode(reply)
	case requestConnection:
		if err := d.end(); err != nil {
			return err
		}
		return s.answerConnection(ctx, ch)
	case requestClose:
		s.m.abortInputs(sandbox.ErrClosed)
		if err := errors.Join(d.end(), s.box.Close(ctx)); err != nil {
			return err
		}
		err := ch.finish(reply.message())
		_ = s.m.fail(errLeft)
		return err
	default:
		return s.answerProcess(ctx, ch, kind, d)
	}
	return ch.finish(reply.message())
}

func (s *server) download(ctx context.Context, ch *channel, path string) (err error) {
	r, err := s.box.Download(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if _, err := ch.Write(newMessage().message()); err != nil {
		return err
	}
	defer s.bulkOut.begin()()
	if err := errors.Join(ch.copyFrom(r)); err != nil {
		return err
	}
	return ch.finish(nil)
}

func (s *server) stat(path string) (FileInfo, error) {
	info := s.box.Info()
	switch {
	case path == "~":
		path = info.Home
	case len(path) > 1 && path[:2] == "~/":
		path = filepath.Join(info.Home, path[2:])
	case !filepath.IsAbs(path):
		path = filepath.Join(info.Dir, path)
	}
	st, err := os.Lstat(path)
	if err != nil {
		return FileInfo{}, err
	}
	f := FileInfo{Mode: uint32(st.Mode()), Size: st.Size(), ModTime: st.ModTime()}
	if st.Mode()&os.ModeSymlink != 0 {
		f.Target, err = os.Readlink(path)
	}
	return f, err
}
