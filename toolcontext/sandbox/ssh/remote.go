package ssh

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/hermes-env/hermes-env/internal/textutil"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// maxAnswer bounds what a script on the machine may print.
const maxAnswer = 4 << 20

// commandLine is what a login shell of whatever kind takes for: run a script with
// sh. The script is one line without single quotes and exclamation marks.
func commandLine(script string, args ...string) string {
	var b strings.Builder
	b.WriteString("exec /bin/sh -c ")
	b.WriteString(textutil.ShellQuote(script))
	b.WriteString(" sh")
	for _, a := range args {
		b.WriteByte(' ')
		b.WriteString(textutil.ShellQuote(a))
	}
	return b.String()
}

// newMark returns a line that scripts print before what counts: start-up files of
// the login shell may have printed something of their own.
func newMark() string { return "hermes-env-" + rand.Text() }

// limited is a buffer that fails beyond maxAnswer.
type limited struct{ bytes.Buffer }

func (l *limited) Write(b []byte) (int, error) {
	if l.Len()+len(b) > maxAnswer {
		return 0, fmt.Errorf("it printed more than %d bytes", maxAnswer)
	}
	return l.Buffer.Write(b)
}

// scriptError is a script that ended with an exit code.
type scriptError struct {
	code int
	said string
}

func (e *scriptError) Error() string {
	if e.said == "" {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return fmt.Sprintf("exit code %d: %s", e.code, e.said)
}

// script runs a script on the machine and returns what it printed. $1 is a mark,
// which the script has to print first; args follow.
func (p *Provider) script(ctx context.Context, stdin io.Reader, text string, args ...string) (string, error) {
	s, err := p.pool.session(ctx)
	if err != nil {
		return "", err
	}
	var (
		out  limited
		said = sandbox.NewCapture(4000)
		mark = newMark()
	)
	s.Stdout, s.Stderr, s.Stdin = &out, said, stdin
	done := make(chan error, 1)
	p.pool.work.Add(1)
	go func() {
		defer p.pool.work.Done()
		defer s.release()
		done <- s.Run(commandLine(text, append([]string{mark}, args...)...))
		_ = s.Close() // has ended
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		_ = s.Close() // ends Run, sooner or later; the pool waits for it
		return "", context.Cause(ctx)
	}
	var (
		exit    *ssh.ExitError
		missing *ssh.ExitMissingError
	)
	switch {
	case errors.As(err, &missing):
		return "", fmt.Errorf("the connection broke in the middle: %w", err)
	case errors.As(err, &exit) && exit.Signal() == "":
		return "", &scriptError{exit.ExitStatus(), strings.TrimSpace(said.Output().String())}
	case err != nil:
		return "", err
	}
	_, answer, ok := strings.Cut(out.String(), mark+"\n")
	if !ok {
		return "", fmt.Errorf("the machine ran something else than what was asked for; it printed %.200q", out.String())
	}
	return answer, nil
}
