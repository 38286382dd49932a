package inside

import (
	"fmt"
	"math"
	"time"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// requestKind says what a request asks for.
type requestKind uint64

const (
	requestExec requestKind = iota + 1
	requestStart
	requestUpload
	requestDownload
	requestStat
	requestKillAll
	requestPing
	requestPoll
	requestWrite
	requestCloseInput
	requestKill
	requestWait
	requestClose
	requestClean
	requestRemove
	requestKillOthers
	requestWatch
	requestWatched
	requestSupervised
)

// newRequest starts the message of a request.
func newRequest(kind requestKind) *encoder {
	e := newMessage()
	e.uint(uint64(kind))
	return e
}

// encodeCommand writes all of a command but its input, which follows as a stream.
func encodeCommand(e *encoder, c sandbox.Command) {
	e.bool(c.Args != nil)
	e.strings(c.Args)
	e.string(c.Script)
	e.bool(c.Session)
	e.string(c.Dir)
	e.env(c.Env)
	e.bool(c.Stdin != nil)
	e.uint(uint64(c.Timeout))
	e.uint(uint64(c.MaxOutput))
	e.bool(c.Merge)
	e.bool(c.Terminal != nil)
	if c.Terminal != nil {
		e.uint(uint64(c.Terminal.Rows))
		e.uint(uint64(c.Terminal.Cols))
	}
}

// decodeCommand reads a command, and whether input follows.
func decodeCommand(d *decoder) (c sandbox.Command, stdin bool) {
	args := d.bool()
	if list := d.strings(); args {
		c.Args = list
	}
	c.Script = d.string()
	c.Session = d.bool()
	c.Dir = d.string()
	c.Env = d.env()
	stdin = d.bool()
	c.Timeout = time.Duration(d.bounded(math.MaxInt64))
	c.MaxOutput = int(d.bounded(math.MaxInt32))
	c.Merge = d.bool()
	if d.bool() {
		c.Terminal = &sandbox.Terminal{Rows: uint16(d.bounded(math.MaxUint16)), Cols: uint16(d.bounded(math.MaxUint16))}
	}
	return c, stdin
}

// bounded reads a number that must not be above limit.
func (d *decoder) bounded(limit uint64) uint64 {
	v := d.uint()
	if v > limit {
		d.fail()
		return 0
	}
	return v
}

func encodeResult(e *encoder, r sandbox.Result) {
	e.int(int64(r.ExitCode))
	e.bool(r.TimedOut)
	e.bool(r.Cancelled)
	e.uint(uint64(r.Duration))
	encodeOutput(e, r.Stdout)
	encodeOutput(e, r.Stderr)
}

// fit cuts what a client that asked for limit bytes would not believe: the words of a
// command that could not be started name programs and directories of any length.
func fit(r sandbox.Result, limit int) sandbox.Result {
	for _, o := range []*sandbox.Output{&r.Stdout, &r.Stderr} {
		if len(o.Head)+len(o.Tail) > limit {
			o.Head, o.Tail = o.Head[:min(len(o.Head), limit)], nil
		}
	}
	return r
}

func encodeOutput(e *encoder, o sandbox.Output) {
	e.uint(uint64(o.Total))
	e.bytes(o.Head)
	e.bytes(o.Tail)
}

// decodeResult reads a result whose outputs may have kept limit bytes each.
func decodeResult(d *decoder, limit int) sandbox.Result {
	var r sandbox.Result
	r.ExitCode = int(d.int())
	if r.ExitCode < 0 || r.ExitCode > 255 {
		d.fail()
	}
	r.TimedOut = d.bool()
	r.Cancelled = d.bool()
	r.Duration = time.Duration(d.bounded(math.MaxInt64))
	r.Stdout = decodeOutput(d, limit)
	r.Stderr = decodeOutput(d, limit)
	return r
}

// decodeOutput reads an output and checks that it is one: more bytes kept than
// asked for, or than were written, would deceive whoever counts them.
func decodeOutput(d *decoder, limit int) sandbox.Output {
	var o sandbox.Output
	o.Total = int64(d.bounded(math.MaxInt64))
	if head := d.raw(); len(head) > 0 {
		o.Head = head
	}
	if tail := d.raw(); len(tail) > 0 {
		o.Tail = tail
	}
	if kept := len(o.Head) + len(o.Tail); kept > limit || int64(kept) > o.Total {
		d.fail()
		return sandbox.Output{}
	}
	return o
}

// resultLimit bounds the message of a result whose outputs may keep limit bytes.
func resultLimit(limit int) int { return 2*limit + 4096 }

func outputLimit(c sandbox.Command) int {
	if c.MaxOutput > 0 {
		return c.MaxOutput + noticeRoom
	}
	return sandbox.DefaultMaxOutput + noticeRoom
}

// noticeRoom is what the words of a command that could not be started may have
// beyond MaxOutput.
const noticeRoom = 16 << 10

// settings is what the client's greeting carries.
type settings struct {
	id  string
	dir string
	env map[string]string
	// idle is how long the server lives without hearing from the client; 0 is for ever.
	idle time.Duration
	// disk is how many bytes the sandbox may write; 0 is any number. diskSince is when it
	// began, in the server's words; 0 is now.
	disk, diskSince int64
	proxy           bool // connections are to be accepted
	anywhere        bool // the root directory will do as well
}

func (s settings) encode() []byte {
	var e encoder
	e.string(s.id)
	e.string(s.dir)
	e.env(s.env)
	e.uint(uint64(s.idle))
	e.uint(uint64(s.disk))
	e.int(s.diskSince)
	e.bool(s.proxy)
	e.bool(s.anywhere)
	return e.b
}

func decodeSettings(payload []byte) (settings, error) {
	d := decoder{b: payload}
	s := settings{
		id: d.string(), dir: d.string(), env: d.env(),
		idle: time.Duration(d.bounded(math.MaxInt64)), disk: int64(d.bounded(math.MaxInt64)), diskSince: d.int(), proxy: d.bool(), anywhere: d.bool(),
	}
	if err := d.end(); err != nil {
		return settings{}, fmt.Errorf("read the greeting: %w", err)
	}
	return s, nil
}

// Server describes the server's side.
type Server struct {
	Version        string // of the server's build
	OS, Arch       string
	PID, UID       int
	Home, Dir, Tmp string
	Shell          string // what runs scripts; "" where there is none yet
	RootBytes      int64  // size of the root's file system
	DiskSince      int64  // when the sandbox began, for a server that is started again; 0 where disk is not watched
}

func (s Server) encode() []byte {
	var e encoder
	e.string(s.Version)
	e.string(s.OS)
	e.string(s.Arch)
	e.uint(uint64(s.PID))
	e.uint(uint64(s.UID))
	e.string(s.Home)
	e.string(s.Dir)
	e.string(s.Tmp)
	e.string(s.Shell)
	e.int(s.DiskSince)
	e.uint(uint64(s.RootBytes))
	return e.b
}

func decodeServer(payload []byte) (Server, error) {
	d := decoder{b: payload}
	s := Server{
		Version: d.string(), OS: d.string(), Arch: d.string(),
		PID: int(d.bounded(math.MaxInt32)), UID: int(d.bounded(math.MaxUint32)),
		Home: d.string(), Dir: d.string(), Tmp: d.string(), Shell: d.string(), DiskSince: d.int(),
		RootBytes: int64(d.bounded(math.MaxInt64)),
	}
	if err := d.end(); err != nil {
		return Server{}, fmt.Errorf("read the server's greeting: %w", err)
	}
	return s, nil
}

// FileInfo is what Stat says of a path; links are not followed.
type FileInfo struct {
	Mode    uint32 // of the file system: type and permissions as fs.FileMode
	Size    int64  // in bytes
	ModTime time.Time
	Target  string // of a symbolic link
}

func (f FileInfo) encode(e *encoder) {
	e.uint(uint64(f.Mode))
	e.uint(uint64(f.Size))
	e.int(f.ModTime.UnixNano())
	e.string(f.Target)
}

func decodeFileInfo(d *decoder) FileInfo {
	return FileInfo{
		Mode:    uint32(d.bounded(math.MaxUint32)),
		Size:    int64(d.bounded(math.MaxInt64)),
		ModTime: time.Unix(0, d.int()),
		Target:  d.string(),
	}
}
