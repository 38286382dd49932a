package inside

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox/supervise"
)

// Word is the hidden first argument that makes a program the server.
const Word = "sandbox-server"

// Main serves on standard input and output when the program's arguments, without
// its name, start with Word, and launches a supervised command when they start with
// supervise.Word. Otherwise it does nothing and reports false. A program
// calls it before it looks at its arguments, reads files or starts goroutines.
func Main(args []string, version string, stderr io.Writer) (handled bool, code int) {
	if len(args) > 0 && args[0] == supervise.Word {
		return true, supervise.Launch(args[1:], stderr)
	}
	if len(args) == 0 || args[0] != Word {
		return false, 0
	}
	start, ok := parseStart(args[1:])
	if !ok {
		fmt.Fprintf(stderr, "%s takes no arguments but %s, %s, %s and %s; it is started by a sandbox backend\n", Word, Reserve, As, KeepHome, InMemory)
		return true, 2
	}
	// One processor is enough for a server that mostly waits. With more, each event wakes
	// another thread, which takes a tenth of the processor time of a short command.
	runtime.GOMAXPROCS(1)
	in, out, err := takeStream()
	if err == nil {
		err = start.prepare()
	}
	if err == nil {
		err = Serve(context.Background(), in, out, Config{Version: version, guard: harden(), inMemory: start.inMemory})
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", Word, err)
	}
	return true, exitCode(err)
}

// What may follow Word, in this order.
const (
	// Reserve and names of capabilities with commas between: the server has them for
	// itself, and no command gets them.
	Reserve = "--reserve"
	// As and a user: the server, started as root, serves as that user. A backend starts
	// it so where root has to be able to enter the sandbox later.
	As = "--as"
	// KeepHome leaves HOME as the sandbox was made with it.
	KeepHome = "--keep-home"
	// InMemory has scripts and the state of shells pass through /dev/shm. It is for a
	// first process whose /dev/shm goes with it; others leave files there when killed.
	InMemory = "--in-memory"
)

// Untraceable is a capability that does no harm and that a server started without it in
// Reserve gives its commands. A process can only trace processes all of whose capabilities
// it has itself (ptrace(2)), so commands of servers that keep it in Reserve can't trace
// these, or read and write their memory, whatever their user is.
const Untraceable = "WAKE_ALARM"

// start is how a server is started.
type start struct {
	reserve  []string
	user     string
	keepHome bool
	inMemory bool
}

// Arguments returns the arguments of a server, without the program's name.
func Arguments(reserve []string, user string, keepHome bool) []string {
	args := []string{Word}
	if len(reserve) > 0 {
		args = append(args, Reserve, strings.Join(reserve, ","))
	}
	if user != "" {
		args = append(args, As, user)
		if keepHome {
			args = append(args, KeepHome)
		}
	}
	return args
}

func parseStart(args []string) (s start, ok bool) {
	if len(args) > 1 && args[0] == Reserve {
		s.reserve, args = strings.Split(args[1], ","), args[2:]
	}
	if len(args) > 1 && args[0] == As && args[1] != "" {
		s.user, args = args[1], args[2:]
		if len(args) > 0 && args[0] == KeepHome {
			s.keepHome, args = true, args[1:]
		}
	}
	if len(args) > 0 && args[0] == InMemory {
		s.inMemory, args = true, args[1:]
	}
	return s, len(args) == 0
}

// prepare gives the process its user and capabilities.
func (s start) prepare() error {
	if err := reserve(s.reserve); err != nil {
		return err
	}
	if s.user == "" {
		return nil
	}
	if err := becomeUser(s.user, s.keepHome); err != nil {
		return fmt.Errorf("serve as the user %q: %w", s.user, err)
	}
	return nil
}

// takeStream moves the stream away from standard input and output, where a command
// could inherit it by a mistake, and leaves the null device there.
func takeStream() (in, out *os.File, err error) {
	if in, err = moveAway(os.Stdin); err != nil {
		return nil, nil, fmt.Errorf("take standard input: %w", err)
	}
	if out, err = moveAway(os.Stdout); err != nil {
		return nil, nil, fmt.Errorf("take standard output: %w", err)
	}
	return in, out, nil
}
