package sandbox

import "context"

// Policy says what the processes of a supervised command may do. The command's own
// program, and what it starts, are trusted until a process runs code from Foreign. Such
// a process, and all it starts, may not touch Results, Sealed and Code, and may not
// signal, trace or limit trusted processes. Paths are absolute and clean.
type Policy struct {
	Results []string // files that only trusted processes write
	// Sealed are files and directories. What they hold at the start stays as it is; new
	// files may be added by any process.
	Sealed []string
	Code   []string // directories of programs and libraries whose present files stay as they are
	Free   []string // directories whose files any process may change, also within Code
	// Foreign are files that hold untrusted code; a name that ends in / stands for all
	// below it. Files written by untrusted processes are added while the command runs.
	Foreign []string
	// TestFiles are names of files that a test runner reads from the directories of Sealed
	// and those above.
	TestFiles []string
	// HideSealed keeps processes that run the agent's code from reading files of Sealed:
	// those that execute or interpret a file of Foreign, or a file that such a process made,
	// and all that they start. What other processes hand to them may be read: files, and
	// directories below those of Sealed, that are named in the arguments or the environment
	// of a program, links that they made, and open descriptors. The supervisor then sees
	// every opening of a file.
	HideSealed bool
	// Packages says that packages of the distribution were installed, so that HideSealed
	// does not take new programs of the system for the agent's.
	Packages bool
	// Loads has the supervisor note code from Foreign that trusted processes load. It then
	// sees every opening of a file, which slows programs that open many.
	Loads bool
}

// Kinds of acts of untrusted processes.
const (
	ActResult  = "reward_write"  // opened, replaced or removed one of Results
	ActSealed  = "test_change"   // changed something Sealed
	ActRead    = "test_read"     // opened or executed a file of Sealed that was not handed to it
	ActCode    = "tool_change"   // changed a program or library under Code
	ActOutput  = "output_change" // changed a file in which the command keeps its results
	ActStartup = "startup"       // added a file that a trusted program loaded at its start
	ActTrace   = "trace"         // traced a trusted process or wrote to its memory
	ActSignal  = "signal"        // sent a signal to a trusted process
	ActLimit   = "limit"         // lowered a limit of a trusted process
)

// Act is something an untrusted process tried. All but ActStartup was refused.
type Act struct {
	Kind    string `json:"kind"`
	Target  string `json:"target"`  // a path, or the program of a process
	Process string `json:"process"` // the command line that tried it, cut to 200 bytes
	Count   int    `json:"count"`
}

// Supervision is what was seen of a supervised command.
type Supervision struct {
	Acts         []Act
	ResultWrites int  // how often trusted processes opened, replaced or removed one of Results
	SealedWrites int  // the same for files that are Sealed
	Ran          bool // untrusted code was started, so the output need not be the tests'
	Moved        bool // trusted processes moved or removed a directory above Results or Sealed
	// Loaded are files from Foreign that trusted processes loaded as code. That code
	// can't be told apart from the process that loaded it. Without Policy.Loads only
	// Python modules are found, and only if Python may keep their compiled form.
	Loaded []string
	// Changed are files that processes wrote which don't run the agent's code, and that the
	// agent's code then changed or removed: copies of files of the tests, or fixtures. Only
	// with Policy.HideSealed.
	Changed []string
	// Added are new files below Sealed that processes of the command made, and directories
	// instead of files where there are many.
	Added []string
	// Replaced are files under Code that trusted processes wrote. Installed says that they
	// are too many to be listed.
	Replaced  []string
	Installed bool
	Lost      bool // more happened than could be kept
}

// Supervisor runs a command under a supervisor of its system calls.
type Supervisor interface {
	// ExecSupervised is Exec under a policy. It fails with ErrUnsupported, before the
	// command has started, if the kernel has no such supervisors. Set-user-ID programs
	// have no effect in a supervised command.
	ExecSupervised(ctx context.Context, c Command, p Policy) (Result, Supervision, error)
}
