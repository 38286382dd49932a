package docker

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/client"
)

// clientOptions are how the client library reaches an endpoint.
func (e endpoint) clientOptions() ([]client.Opt, error) {
	options := []client.Opt{client.WithHost(e.host), client.WithAPIVersionNegotiation()}
	if strings.HasPrefix(e.host, "ssh://") {
		args, err := sshArgs(e.host)
		if err != nil {
			return nil, err
		}
		// The name is never looked up: the connection is the command's streams.
		return []client.Opt{client.WithHost("http://engine.behind.ssh"), client.WithAPIVersionNegotiation(), client.WithDialContext(
			func(ctx context.Context, _, _ string) (net.Conn, error) { return dialCommand(ctx, "ssh", args) },
		)}, nil
	}
	if !e.tls {
		return options, nil
	}
	c, err := e.tlsConfig()
	if err != nil {
		return nil, err
	}
	// WithHost changes the transport it finds, so it comes after.
	return append([]client.Opt{client.WithHTTPClient(&http.Client{Transport: &http.Transport{TLSClientConfig: c}, CheckRedirect: client.CheckRedirect})}, options...), nil
}

func (e endpoint) tlsConfig() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: e.skipVerify}
	if e.ca != "" && !e.skipVerify {
		pem, err := os.ReadFile(e.ca)
		if err != nil {
			return nil, fmt.Errorf("read the certificate authority: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate in PEM form", e.ca)
		}
	}
	if e.cert != "" || e.key != "" {
		pair, err := tls.LoadX509KeyPair(e.cert, e.key)
		if err != nil {
			return nil, fmt.Errorf("read the client's certificate %s and key %s: %w", e.cert, e.key, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// sshArgs is what ssh is given to speak with the engine that ssh://user@host:port
// names: the docker command over there passes the stream on.
func sshArgs(host string) ([]string, error) {
	u, err := url.Parse(host)
	switch {
	case err != nil:
		return nil, errors.New("it is no URL")
	case u.Hostname() == "" || strings.HasPrefix(u.Hostname(), "-"):
		return nil, errors.New("it names no host")
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("only ssh://user@host:port is known; the engine's socket over there is the one its docker command uses")
	}
	args := []string{"-o", "BatchMode=yes", "-o", "ConnectTimeout=15", "-o", "ServerAliveInterval=30", "-T"}
	if u.User != nil {
		if _, ok := u.User.Password(); ok {
			return nil, errors.New("it holds a password; use a key")
		}
		if name := u.User.Username(); name == "" || strings.HasPrefix(name, "-") {
			return nil, errors.New("its user has no name that ssh takes")
		}
		args = append(args, "-l", u.User.Username())
	}
	if port := u.Port(); port != "" {
		args = append(args, "-p", port)
	}
	return append(args, "--", u.Hostname(), "docker", "system", "dial-stdio"), nil
}

// commandConn is a connection over the standard streams of a program.
type commandConn struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     io.ReadCloser
	said    *lastWords
	silent  chan struct{} // closed when it can't say any more
	close   func() error
}

// lastWords keeps the beginning of what a program complains of.
type lastWords struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *lastWords) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(p[:min(len(p), max(0, 1000-w.text.Len()))])
	return len(p), nil
}

func (w *lastWords) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.TrimSpace(w.text.String())
}

// commandWait is how long a program may go on once its connection is closed.
const commandWait = 2 * time.Second

// dialCommand starts a program as a connection. The program outlives ctx, which is
// that of the first request; closing the connection ends it.
func dialCommand(ctx context.Context, name string, args []string) (net.Conn, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	c := &commandConn{command: exec.Command(name, args...), said: &lastWords{}, silent: make(chan struct{})}
	complaints, err := c.command.StderrPipe()
	if err != nil {
		return nil, err
	}
	if c.in, err = c.command.StdinPipe(); err != nil {
		return nil, err
	}
	if c.out, err = c.command.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := c.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() { // until the program has ended, or Wait closes the pipe
		defer close(c.silent)
		_, _ = io.Copy(c.said, complaints)
	}()
	c.close = sync.OnceValue(c.end)
	return c, nil
}

// end closes the streams, gives the program a moment to leave, and waits for it.
func (c *commandConn) end() error {
	_ = c.in.Close()  // the program is ended anyway
	_ = c.out.Close() // likewise
	timer := time.AfterFunc(commandWait, func() { _ = c.command.Process.Kill() })
	defer timer.Stop()
	select {
	case <-c.silent:
	case <-time.After(2 * commandWait): // something it started lives on
	}
	_ = c.command.Wait() // how it ended does not matter any more
	<-c.silent
	return nil
}

// explain adds what the program said to an error, which may come before its last words.
func (c *commandConn) explain(err error) error {
	select {
	case <-c.silent:
	case <-time.After(time.Second):
	}
	if said := c.said.String(); said != "" {
		return fmt.Errorf("%w (%s said: %s)", err, c.command.Args[0], said)
	}
	return err
}

func (c *commandConn) Read(p []byte) (int, error) {
	n, err := c.out.Read(p)
	if err != nil {
		err = c.explain(err)
	}
	return n, err
}

func (c *commandConn) Write(p []byte) (int, error) {
	n, err := c.in.Write(p)
	if err != nil {
		err = c.explain(err)
	}
	return n, err
}

// CloseWrite ends what is sent, while answers go on.
func (c *commandConn) CloseWrite() error { return c.in.Close() }

func (c *commandConn) Close() error { return c.close() }

func (c *commandConn) LocalAddr() net.Addr  { return commandAddr{} }
func (c *commandConn) RemoteAddr() net.Addr { return commandAddr{} }

// SetDeadline does nothing: pipes of a program have none, and waits have contexts.
func (c *commandConn) SetDeadline(time.Time) error      { return nil }
func (c *commandConn) SetReadDeadline(time.Time) error  { return nil }
func (c *commandConn) SetWriteDeadline(time.Time) error { return nil }

// commandAddr is the address of a program's streams.
type commandAddr struct{}

func (commandAddr) Network() string { return "command" }
func (commandAddr) String() string  { return "command" }
