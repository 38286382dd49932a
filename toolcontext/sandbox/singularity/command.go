package singularity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// passed are the variables of the harness that the command gets. Instances get none
// of them.
var passed = [...]string{
	"PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS",
	"http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR",
}

// refused are the settings of the command that would put files or variables of this
// machine into instances, by their names without the program's.
var refused = [...]string{"BIND", "BINDPATH", "MOUNT", "ENV", "ENV_FILE", "HOME", "WORKDIR", "OVERLAY", "OVERLAYIMAGE", "CWD", "PWD"}

// environment picks from environ what the command gets.
func environment(environ []string) []string {
	var list []string
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		setting, ok := strings.CutPrefix(name, "APPTAINER_")
		if !ok {
			setting, ok = strings.CutPrefix(name, "SINGULARITY_")
		}
		if ok && !slices.Contains(refused[:], setting) || slices.Contains(passed[:], name) {
			list = append(list, entry)
		}
	}
	return list
}

// command makes a process of the program, in a group of its own: a Ctrl-C for the
// harness is not for instances.
func (p *Provider) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.config.Command, args...)
	cmd.Env = environment(p.config.Environ)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second // an instance may have inherited the output
	return cmd
}

// maxListing bounds what the program may print.
const maxListing = 16 << 20

// run runs the program and returns its standard output.
func (p *Provider) run(ctx context.Context, args ...string) (string, error) {
	cmd := p.command(ctx, args...)
	out, said := sandbox.NewCapture(maxListing), sandbox.NewCapture(4000)
	cmd.Stdout, cmd.Stderr = out, said
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // it has succeeded itself
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return "", explain(err, said)
	}
	listing := out.Output()
	if listing.Total > int64(len(listing.Head)+len(listing.Tail)) {
		return "", fmt.Errorf("it printed more than %d bytes", maxListing)
	}
	return listing.String(), nil
}

// explain adds what the program said to its error.
func explain(err error, said *sandbox.Capture) error {
	text := strings.TrimSpace(said.Output().String())
	if text == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, text)
}

// instances returns the names of the instances that run.
func (p *Provider) instances(ctx context.Context) ([]string, error) {
	out, err := p.run(ctx, "instance", "list", "--json")
	if err != nil {
		return nil, fmt.Errorf("list the instances: %w", err)
	}
	return parseInstances(out)
}

func parseInstances(out string) ([]string, error) {
	var list struct {
		Instances []struct {
			Instance string `json:"instance"`
		} `json:"instances"`
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return nil, fmt.Errorf("read the list of instances: %w", err)
	}
	names := make([]string, 0, len(list.Instances))
	for _, i := range list.Instances {
		names = append(names, i.Instance)
	}
	return names, nil
}

// attached is the standard input and output of the server in an instance.
type attached struct {
	in, out *os.File
	cmd     *exec.Cmd
	said    *sandbox.Capture
	ended   chan struct{} // closed when the process has ended
	err     error         // how; to be read after ended
}

var _ io.ReadWriteCloser = (*attached)(nil)

// attach starts a process of the program and keeps its streams.
func (p *Provider) attach(args ...string) (*attached, error) {
	a := &attached{cmd: p.command(context.Background(), args...), said: sandbox.NewCapture(4000), ended: make(chan struct{})}
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close(), theirIn.Close())
	}
	a.in, a.out = in, out
	a.cmd.Stdin, a.cmd.Stdout, a.cmd.Stderr = theirIn, theirOut, a.said
	err = a.cmd.Start()
	_, _ = theirIn.Close(), theirOut.Close() // the process has them
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	go func() {
		defer close(a.ended)
		a.err = a.cmd.Wait()
	}()
	return a, nil
}

func (a *attached) Read(b []byte) (int, error)  { return a.out.Read(b) }
func (a *attached) Write(b []byte) (int, error) { return a.in.Write(b) }

// Close hangs up on the server.
func (a *attached) Close() error { return errors.Join(a.in.Close(), a.out.Close()) }

// end waits for the process, which is killed when that takes longer than a limit.
func (a *attached) end(limit time.Duration) {
	timer := time.AfterFunc(limit, func() { _ = a.cmd.Process.Kill() }) // may have ended meanwhile
	defer timer.Stop()
	<-a.ended
}

// fate says in words how the server ended.
func (a *attached) fate() string {
	timer := time.NewTimer(3 * time.Second)
	defer timer.Stop()
	select {
	case <-a.ended:
	case <-timer.C:
		return "its server's process still runs"
	}
	how := "its server has left"
	if a.err != nil {
		how = fmt.Sprintf("its server ended: %v", a.err)
	}
	if text := strings.TrimSpace(a.said.Output().String()); text != "" {
		how += "; it said: " + text
	}
	return how
}
