package inside

import (
	"context"
	"fmt"
	"io"
	"os"

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
	user, keepHome, ok := parseUser(args[1:])
	if !ok {
		fmt.Fprintf(stderr, "%s takes no arguments but %s; it is started by a sandbox backend\n", Word, As)
		return true, 2
	}
	in, out, err := takeStream()
	if err == nil && user != "" {
		if err = becomeUser(user, keepHome); err != nil {
			err = fmt.Errorf("serve as the user %q: %w", user, err)
		}
	}
	if err == nil {
		harden()
		err = Serve(context.Background(), in, out, Config{Version: version})
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", Word, err)
	}
	return true, exitCode(err)
}

// As and KeepHome may follow Word: the server, started as root, then serves as the
// user named after As. A backend starts it so where root has to be able to enter the
// sandbox later. KeepHome leaves HOME as the sandbox was made with it.
const (
	As       = "--as"
	KeepHome = "--keep-home"
)

func parseUser(args []string) (user string, keepHome, ok bool) {
	if len(args) > 0 && args[len(args)-1] == KeepHome {
		args, keepHome = args[:len(args)-1], true
	}
	switch {
	case len(args) == 0:
		return "", false, !keepHome
	case len(args) == 2 && args[0] == As && args[1] != "":
		return args[1], keepHome, true
	}
	return "", false, false
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
