package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/internal/gcpace"
	"github.com/hermes-env/hermes-env/internal/procguard"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/inside"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/local"
)

// App is a program made of environments.
type App struct {
	Name         string // of the program; "" means hermes-env
	Command      string // how a user starts it, for hints; "" means Name
	Environments []env.Definition

	Stdin          io.Reader // nil: empty
	Stdout, Stderr io.Writer
	Getenv         func(string) (string, bool)
	Signals        <-chan os.Signal // asks to stop, gently and then at once; nil: none
	Now            clock            // nil: the system's

	// exposed says why other processes of the user can read the keys of this one; nil if
	// they can't.
	exposed error
}

// Main runs the program with the process's arguments and never returns.
func Main(environments ...env.Definition) {
	if served, code := inside.Main(os.Args[1:], Version(), os.Stderr); served {
		os.Exit(code)
	}
	var exposed error
	// A program that an agent has started holds no keys but the agent's, and its sandbox
	// has to recognize it.
	if os.Getenv(local.MarkerVariable) == "" {
		exposed = procguard.Protect(isKeyFlag)
	}
	gcpace.Relax()
	signals, stop := notifySignals()
	app := App{
		Name: programName(os.Args[0]), Command: startedAs(os.Args[0]), Environments: environments, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.LookupEnv, Signals: signals, exposed: exposed,
	}
	code := app.Run(context.Background(), os.Args[1:])
	stop()
	os.Exit(code)
}

// isKeyFlag reports whether the value of a flag is a key: --openai.api_key, --api-key.
func isKeyFlag(name string) bool {
	return strings.HasSuffix(strings.ReplaceAll(name, "-", "_"), "api_key")
}

// programName is how the program calls itself: by the name of its file.
func programName(path string) string {
	return strings.TrimSuffix(filepath.Base(path), ".exe")
}

// startedAs returns what a user typed to start the program, so that hints can be
// typed the same way. "go run" leaves a path in its cache, which is no use.
func startedAs(path string) string {
	if strings.Contains(filepath.ToSlash(path), "/go-build") {
		if info, ok := debug.ReadBuildInfo(); ok && info.Path != "" {
			return "go run " + info.Path
		}
	}
	return path
}

// commands is the grammar of the command line.
type commands struct {
	Evaluate evaluateCommand `cmd:"" help:"Run a benchmark: score a model (or --agent oracle, nop) on an environment's held-out items."`
	Process  processCommand  `cmd:"" help:"Generate data: run groups of rollouts on training items and save scored trajectories."`
	Serve    serveCommand    `cmd:"" help:"Work for a trainer: send groups of rollouts to its API server as fast as it trains on them."`
	Batch    batchCommand    `cmd:"" help:"Run the prompts of a JSONL file, with the flags and files of hermes-agent's batch runner."`
	Rescore  rescoreCommand  `cmd:"" help:"Score what the agents of a run left once more, in fresh sandboxes and with the verifiers as they are now."`
	Validate validateCommand `cmd:"" help:"Check a benchmark's items: reference solutions must pass, and doing nothing must not."`
	Config   configCommand   `cmd:"" help:"Print the resolved configuration and where each value comes from."`
	Envs     envsCommand     `cmd:"" help:"List the environments and their configuration fields."`
	Parsers  parsersCommand  `cmd:"" help:"List the tool-call formats that can be read and written."`
	Parse    parseCommand    `cmd:"" help:"Read a model's raw text on standard input and print its content and tool calls as JSON."`
	Tools    toolsCommand    `cmd:"" help:"List the tools and toolsets, or print their definitions."`
	Cleanup  cleanupCommand  `cmd:"" help:"Remove sandboxes left behind by processes that no longer live."`
	Report   reportCommand   `cmd:"" help:"Write the report of a run as one HTML file: scores, the matrix of items and attempts, transcripts."`
	Export   exportCommand   `cmd:"" help:"Write a run in the formats of other programs: Harbor jobs, ATIF trajectories."`
	Convert  convertCommand  `cmd:"" help:"Turn runs and data sets into training files: ShareGPT, chat messages, Parquet, preference pairs, text, ATIF; with filters and a report of what is lost."`
	Compare  compareCommand  `cmd:"" help:"Compare two runs over the same items: paired difference, interval, exact tests, items that flipped."`
	Stats    statsCommand    `cmd:"" help:"Describe a run or a file of trajectories: outcomes, scores, turns, tokens, tools, duplicates, cost."`
	Compress compressCommand `cmd:"" help:"Shorten trajectories to a token budget: turns in the middle are replaced by a summary."`
	Doctor   doctorCommand   `cmd:"" help:"Check this machine, its container engine and a configuration, and say how to fix what is wrong."`
	API      apiCommand      `cmd:"" name:"api" help:"Run the trajectory API server, which workers post groups to and a trainer takes batches from, or show a running one."`
	Complete completeCommand `cmd:"" name:"completion" help:"Print a completion script for bash, zsh or fish."`
	Version  versionCommand  `cmd:"" help:"Print version and build."`
}

// session is what a command runs with.
type session struct {
	app    *App
	ctx    context.Context
	parser *kong.Kong
	name   string
}

// typed is how a user starts a command of this program.
func (s *session) typed(arguments string) string {
	program := s.app.Command
	if program == "" {
		program = s.name
	}
	return program + " " + arguments
}

// Run parses the arguments, runs one command and returns the exit code.
func (a *App) Run(ctx context.Context, args []string) int {
	code, err := a.run(ctx, args)
	if err != nil {
		a.printError(err)
	}
	return code
}

func (a *App) run(ctx context.Context, args []string) (code int, err error) {
	args, allFields := rewriteArgs(args)
	grammar, err := a.grammar(args)
	if err != nil {
		return ExitUsage, err
	}
	name := a.Name
	if name == "" {
		name = "hermes-env"
	}
	exited := -1
	parser, err := kong.New(grammar,
		kong.Name(name),
		kong.Description("Run tool-using language-model agents in sandboxes and turn the rollouts into benchmark scores and training data.\n\nConfigurations are YAML files; every field is also a flag: the field max_agent_turns of the section env is --env.max_agent_turns. Flags win over the file, the file over the environment's defaults. Keys come from the process environment or a .env file."),
		kong.Writers(a.Stdout, a.Stderr),
		kong.Exit(func(code int) { exited = code; panic(exitPanic{}) }),
		kong.WithHyphenPrefixedParameters(true),
		kong.Help(a.helpPrinter(allFields)),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 120}),
		kong.Vars{"convertFormats": convertFormatNames()},
		kong.ExplicitGroups([]kong.Group{
			{Key: "env", Title: "Fields of the env section"},
			{Key: "openai", Title: "Fields of the openai section (the model server)"},
		}),
	)
	if err != nil {
		return ExitUsage, err
	}
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(exitPanic); !ok {
				panic(p)
			}
			code, err = exited, nil
		}
	}()
	parsed, err := parser.Parse(args)
	if err != nil {
		return ExitUsage, fmt.Errorf("%w%s\nrun %q for the commands and flags", err, a.parseHint(args, err), helpCommand(parser, name, args))
	}
	if err := checkFlags(parsed, args); err != nil {
		return ExitUsage, fmt.Errorf("%w\nrun %q for the commands and flags", err, helpCommand(parser, name, args))
	}
	s := &session{app: a, ctx: ctx, parser: parser, name: name}
	if address := profileAddress(parsed); address != "" {
		listens, end, failed := serveProfiles(ctx, address)
		if failed != nil {
			return ExitUsage, failed
		}
		defer func() {
			if failed := end(); failed != nil {
				a.printError(failed)
			}
		}()
		fmt.Fprintln(a.Stderr, "profiles: http://"+listens+"/debug/pprof/")
	}
	err = parsed.Run(s)
	return exitCode(err), err
}

// exitPanic unwinds out of kong when it wants to end the process after --help.
type exitPanic struct{}

func helpCommand(parser *kong.Kong, name string, args []string) string {
	if len(args) > 0 && slices.ContainsFunc(parser.Model.Children, func(n *kong.Node) bool { return n.Name == args[0] }) {
		return name + " " + args[0] + " --help"
	}
	return name + " --help"
}

// grammar builds the commands. Those with a configuration have hundreds of flags, one
// per field, which take most of the program's start: a command gets them only if args
// names it, or if they name no command at the start.
func (a *App) grammar(args []string) (*commands, error) {
	if len(a.Environments) == 0 {
		return nil, errors.New("the program brings no environments")
	}
	all := len(args) == 0 || strings.HasPrefix(args[0], "-") || args[0] == "completion"
	var c commands
	for name, target := range map[string]*configFlagSet{
		"evaluate": &c.Evaluate.configFlagSet, "process": &c.Process.configFlagSet, "serve": &c.Serve.configFlagSet, "validate": &c.Validate.configFlagSet,
		"rescore": &c.Rescore.configFlagSet, "config": &c.Config.configFlagSet, "doctor": &c.Doctor.configFlagSet,
	} {
		if !all && args[0] != name {
			continue
		}
		flags, err := newConfigFlags(a.configEnvironments())
		if err != nil {
			return nil, err
		}
		target.flags = flags
		target.Plugins = flags.plugin()
	}
	if all || args[0] == "batch" {
		flags, err := newConfigFlags(nil)
		if err != nil {
			return nil, err
		}
		c.Batch.flags, c.Batch.Plugins = flags, flags.plugin()
	}
	return &c, nil
}

// configEnvironments describes the environments to the configuration loader.
func (a *App) configEnvironments() []config.Environment {
	list := make([]config.Environment, len(a.Environments))
	for i, d := range a.Environments {
		list[i] = config.Environment{
			Name:     d.Name,
			Aliases:  d.Aliases,
			Own:      d.NewOwn,
			Defaults: func(c *config.Config) { d.SetDefaults(&c.Env, c.Own) },
		}
	}
	return list
}

func (a *App) definition(name string) (env.Definition, error) {
	for _, d := range a.Environments {
		if d.Name == name {
			return d, nil
		}
	}
	return env.Definition{}, fmt.Errorf("no environment named %q; %s", name, config.MeantEnvironment(name, a.configEnvironments()))
}

func (a *App) printError(err error) {
	text := err.Error()
	if err == env.ErrInterrupted {
		text = "stopped before the end; everything that was finished is saved"
	}
	var problems *config.Error
	if errors.As(err, &problems) && len(problems.Problems) > 1 {
		text = fmt.Sprintf("%d problems in the configuration:\n  %s", len(problems.Problems), strings.ReplaceAll(text, "\n", "\n  "))
	}
	fmt.Fprintf(a.Stderr, "error: %s\n", text)
}
