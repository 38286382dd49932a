package ssh

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/inside"
)

// stream is the standard input and output of a server on the machine.
type stream struct {
	session *session
	in      io.WriteCloser
	out     *bufio.Reader
	said    *sandbox.Capture // its standard error
	life    context.Context  // ends with the session
	err     error            // how it ended; to be read after life
	closing sync.Once
}

// serveScript makes a tree and becomes the server in it, with nothing of the
// account's environment but where programs are and what language it speaks. The
// tree's name is in the environment of all that runs in it; the server's own can't
// be read by its account, so its process is noted.
const serveScript = `t=$2/` + boxes + `/$4; (umask 077 && cd -- "$2" && mkdir "$t" "$t/home" "$t/work" "$t/tmp") && cd -- "$t/work" && echo $$ >"$t/server.pid" && umask 022 && echo "$1" && ` +
	`exec env -i PATH="${PATH:-/usr/local/bin:/usr/bin:/bin}" HOME="$t/home" TMPDIR="$t/tmp" SHELL=/bin/sh TERM=dumb ` +
	`USER="${USER:-$5}" LOGNAME="${LOGNAME:-$5}" ${LANG:+"LANG=$LANG"} ${TZ:+"TZ=$TZ"} "$2/$3" ` + inside.Word

// serve starts the server in a new tree.
func (p *Provider) serve(ctx context.Context, m machine, name string) (*stream, error) {
	s, err := p.pool.session(ctx)
	if err != nil {
		return nil, err
	}
	life, end := context.WithCancel(context.Background())
	st := &stream{session: s, said: sandbox.NewCapture(4000), life: life}
	s.Stderr = st.said
	mark := newMark()
	out, err := s.StdoutPipe()
	if err == nil {
		st.in, err = s.StdinPipe()
	}
	if err == nil {
		err = s.Start(commandLine(serveScript, mark, m.cache, m.server, name, p.config.User))
	}
	if err != nil {
		end()
		_ = s.Close() // nothing runs in it
		s.release()
		return nil, fmt.Errorf("start the server on %s: %w", p.config.target(), err)
	}
	p.pool.work.Add(1)
	go func() {
		defer p.pool.work.Done()
		st.err = s.Wait()
		s.release()
		end()
	}()
	st.out = bufio.NewReaderSize(out, 64<<10)
	stop := context.AfterFunc(ctx, st.hangUp)
	err = skipTo(st.out, mark)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		return st, nil
	}
	st.hangUp()
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	return nil, fmt.Errorf("start the server on %s: %w: %s", p.config.target(), err, st.fate())
}

// maxPreface bounds what a login shell's start-up files may print.
const maxPreface = 1 << 20

// skipTo reads up to the line that is a mark.
func skipTo(r *bufio.Reader, mark string) error {
	for n := 0; n < maxPreface; {
		line, err := r.ReadSlice('\n')
		n += len(line)
		if strings.HasSuffix(string(line), mark+"\n") {
			return nil
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			if errors.Is(err, io.EOF) {
				return errors.New("it did not start")
			}
			return err
		}
	}
	return fmt.Errorf("the login shell printed more than %d bytes before it", maxPreface)
}

func (s *stream) Read(b []byte) (int, error)  { return s.out.Read(b) }
func (s *stream) Write(b []byte) (int, error) { return s.in.Write(b) }

// hangUpLimit is how long a server that was left may take to end what it runs.
const hangUpLimit = 3 * time.Second

// Close leaves the server, which then ends what it runs and itself; it is hung up on
// when that takes too long. Reads end when it has ended.
func (s *stream) Close() error {
	s.closing.Do(func() {
		_ = s.in.Close() // fails only where the session has ended
		timer := time.AfterFunc(hangUpLimit, s.hangUp)
		context.AfterFunc(s.life, func() { timer.Stop() })
	})
	return nil
}

// hangUp ends the session, whatever the server does.
func (s *stream) hangUp() { _ = s.session.Close() } // the other side may have been first

// awaitEnd reports whether the session has ended before long.
func (s *stream) awaitEnd() bool {
	timer := time.NewTimer(hangUpLimit)
	defer timer.Stop()
	select {
	case <-s.life.Done():
		return true
	case <-timer.C:
		return false
	}
}

// fateLimit bounds the wait for the server's exit code.
const fateLimit = 3 * time.Second

// fate says in words how the server or the connection ended.
func (s *stream) fate() string {
	timer := time.NewTimer(fateLimit)
	defer timer.Stop()
	select {
	case <-s.session.at.gone:
		return fmt.Sprintf("the connection broke: %v", s.session.at.cause)
	case <-s.life.Done():
	case <-timer.C:
		return "the machine does not say how its server ended"
	}
	var (
		exit    *ssh.ExitError
		missing *ssh.ExitMissingError
		how     = "its server has left"
	)
	switch {
	case errors.As(s.err, &exit) && exit.Signal() != "":
		how = fmt.Sprintf("its server was killed (signal %s), by a user or because the machine ran out of memory", exit.Signal())
	case errors.As(s.err, &exit):
		how = fmt.Sprintf("its server ended with exit code %d", exit.ExitStatus())
	case errors.As(s.err, &missing):
		// A connection that breaks ends its sessions a moment before itself.
		select {
		case <-s.session.at.gone:
			return fmt.Sprintf("the connection broke: %v", s.session.at.cause)
		case <-timer.C:
			how = "the SSH server closed its session"
		}
	}
	if said := strings.TrimSpace(s.said.Output().String()); said != "" {
		how += "; it said: " + said
	}
	return how
}
