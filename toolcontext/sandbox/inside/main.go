package inside

import (
	"context"
	"fmt"
	"io"
	"os"
)

// Word is the hidden first argument that makes a program the server.
const Word = "sandbox-server"

// Main serves on standard input and output when the program's arguments, without
// its name, start with Word. Otherwise it does nothing and reports false. A program
// calls it before it looks at its arguments, reads files or starts goroutines.
func Main(args []string, version string, stderr io.Writer) (handled bool, code int) {
	if len(args) == 0 || args[0] != Word {
		return false, 0
	}
	if len(args) > 1 {
		fmt.Fprintf(stderr, "%s takes no arguments; it is started by a sandbox backend\n", Word)
		return true, 2
	}
	in, out, err := takeStream()
	if err == nil {
		harden()
		err = Serve(context.Background(), in, out, Config{Version: version})
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", Word, err)
	}
	return true, exitCode(err)
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
