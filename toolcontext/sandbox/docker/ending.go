package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox/inside"
)

const (
	// endingLimit bounds asking the engine why a container ended.
	endingLimit = 10 * time.Second
	// deathLimit bounds the wait for a container to end whose server's stream has.
	deathLimit = 5 * time.Second
	// memorySlack is how far apart the end of a container and the engine's note that its
	// memory ran out may be.
	memorySlack = 3 * time.Second
)

// exitKilled is the exit code of what SIGKILL has ended.
const exitKilled = 128 + 9

// ending is why the server of a sandbox has ended.
type ending struct {
	words  string
	inside bool // what ran in the sandbox is the cause
	again  bool // the server can be started again
}

// lastState is how a container is after its server's stream has ended, and what else is known.
type lastState struct {
	state
	err    error     // why the engine does not know the state
	memory time.Time // when the engine last noted that memory ran out; zero for never
	heard  bool      // the engine said whether it did
	said   string    // what the server wrote to stderr
	// beside says that the server was not the container's first process, but one that
	// ended with this exit code.
	beside  bool
	code    int
	stopped string // why the harness itself ended the container
	used    string // what a container that still runs has used up
}

// faultWords are what Go's runtime says of signals that stand for a fault of the program.
// The server has none: a process that owns a descriptor can send them (F_SETSIG).
var faultWords = []string{"SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP", "SIGSYS", "SIGABRT", "SIGQUIT"}

// threadWords are what Go's runtime says when it can't start a thread.
const threadWords = "failed to create new OS thread"

// explain says why a server has ended. A container that was killed without having run
// out of memory was killed from outside: its processes can't end the first one.
func (e lastState) explain() ending {
	x := ending{words: describe(e.state, e.err)}
	switch {
	case e.stopped != "":
		x = ending{words: e.stopped, inside: true, again: true}
	case e.err != nil:
	case e.Running && e.beside && e.code != 0:
		x = ending{words: fmt.Sprintf("the server beside the first process of its container ended with exit code %d", e.code), inside: true, again: true}
	case e.Running && e.used != "":
		x = ending{words: "its server did not answer: " + e.used, inside: true}
	case e.Running, e.Status == "created", e.Status == "removing", e.Status == "paused", e.Status == "dead":
	case e.ExitCode == inside.ExitForsaken:
	case e.outOfMemory():
		x = ending{words: "it ran out of memory: what ran in it had used up its limit", inside: true, again: true}
	case slices.ContainsFunc(faultWords, func(signal string) bool { return strings.Contains(e.said, signal) }):
		x = ending{words: "what ran in it sent its server a signal: " + firstLine(e.said), inside: true, again: true}
	case strings.Contains(e.said, threadWords):
		x = ending{words: "what ran in it had used up its limit on processes", inside: true, again: true}
	default:
		x.again = true
	}
	if said := strings.TrimSpace(e.said); said != "" && !x.inside {
		x.words += "; its server said: " + said
	}
	return x
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// outOfMemory reports whether the container ended because its memory ran out. The engine
// says that memory ran out also of one where only a command was ended for it before.
func (e lastState) outOfMemory() bool {
	if !e.OOMKilled || e.ExitCode != exitKilled {
		return false
	}
	if !e.heard || e.memory.IsZero() || e.Finished.IsZero() {
		return true // nothing tells the two apart
	}
	return e.Finished.Sub(e.memory).Abs() <= memorySlack
}

// ending asks the engine, once, why the server at the other end of a stream has ended.
// stopped says whether the harness has ended the container itself, and why.
func (p *Provider) ending(container string, at *stream, stopped func() string) ending {
	at.asked.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), endingLimit)
		defer cancel()
		e := p.look(ctx, container, at)
		if stopped != nil {
			e.stopped = stopped()
		}
		at.ending = e.explain()
	})
	return at.ending
}

func (p *Provider) look(ctx context.Context, container string, at *stream) lastState {
	e := lastState{beside: at.exec != ""}
	// The stream ends a moment before the engine notes the end of the process.
	for deadline := time.Now().Add(deathLimit); ; {
		e.state, e.err = p.engine.inspect(ctx, container)
		if e.err != nil || !e.Running || time.Now().After(deadline) {
			break
		}
		if e.beside {
			running, code, err := p.engine.execEnd(ctx, at.exec)
			if err == nil && !running {
				e.code = code
				break
			}
		}
		if sleep(ctx, 20*time.Millisecond) != nil {
			break
		}
	}
	e.said = at.said.Output().String()
	if e.err == nil && e.Running && e.Status != "paused" {
		if used, err := p.engine.use(ctx, container); err == nil {
			e.used = used.exhausted()
		}
	}
	if e.err == nil && e.OOMKilled {
		var err error
		e.memory, err = p.engine.outOfMemory(ctx, container)
		e.heard = err == nil
	}
	return e
}

// describe says in words how a container is.
func describe(st state, err error) string {
	switch {
	case errors.Is(err, errNoContainer):
		return "its container is gone: something outside the harness removed it"
	case err != nil:
		return fmt.Sprintf("the engine can't say why: %v", err)
	case st.Running:
		return "its container still runs"
	case st.Error != "":
		return fmt.Sprintf("its container ended with exit code %d: %s", st.ExitCode, st.Error)
	case st.ExitCode == exitKilled:
		return "its container was killed from outside, or because the machine ran out of memory (exit code 137)"
	}
	return fmt.Sprintf("its container ended with exit code %d", st.ExitCode)
}
