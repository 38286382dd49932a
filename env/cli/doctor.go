package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/local"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/singularity"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/ssh"
)

type doctorCommand struct {
	Mode string `name:"for" enum:"evaluate,process,serve" default:"evaluate" help:"Command to check the configuration for: evaluate, process or serve."`
	JSON bool   `name:"json" help:"Print the findings as one JSON object."`
	configFlagSet
}

// Run looks for everything that could keep a run from working.
func (c *doctorCommand) Run(s *session) error {
	d := &doctor{session: s, space: diskSpace}
	findings := d.examine(s.ctx, c)
	report := newDoctorReport(findings)
	var err error
	if c.JSON {
		err = report.writeJSON(s.app.Stdout)
	} else {
		err = report.writeText(s.app.Stdout, doctorLook(s.app.Stdout, s.app.Getenv))
	}
	if err != nil {
		return err
	}
	if report.Problems > 0 {
		return fail(ExitProblems, fmt.Errorf("%s found", count(report.Problems, "problem")))
	}
	return nil
}

// level says how bad a finding is.
type level string

const (
	levelOK      level = "ok"
	levelWarning level = "warning" // works, but less well than it could
	levelProblem level = "problem" // does not work
)

// finding is the result of one check. Part and Check name it for programs and stay
// the same in every version.
type finding struct {
	Part  string `json:"part"`
	Check string `json:"check"`
	Level level  `json:"level"`
	Found string `json:"found"`
	Fix   string `json:"fix,omitempty"` // what a person can do, as far as possible to be typed
}

// Limits of the parts, which are examined at once.
const (
	partLimit   = 9 * time.Second
	inspectTime = 5 * time.Second // of partLimit, for questions to an engine
	modelTime   = 6 * time.Second
)

// doctor examines this machine and a configuration.
type doctor struct {
	*session
	space func(path string) (diskUse, error)
}

// part is a group of checks that is examined on its own.
type part struct {
	name    string
	lenient bool // nothing of it is needed: its problems are warnings
	examine func(ctx context.Context) []finding
}

// examine runs all checks, in at most partLimit beyond reading the configuration.
func (d *doctor) examine(ctx context.Context, c *doctorCommand) []finding {
	parts := []part{
		{name: "program", examine: func(context.Context) []finding { return d.program() }},
		{name: "machine", examine: func(context.Context) []finding { return machineLimits() }},
	}
	backend := local.Name
	asks := c.asks()
	var (
		job      *job
		problems []finding
	)
	if asks {
		job, problems = d.readConfig(c)
		if job != nil {
			backend = job.cfg.Env.TerminalBackend
		}
	}
	image := ""
	if job != nil && backend == docker.Name {
		image = job.cfg.Env.DockerImage
	}
	parts = append(parts,
		part{name: "local", lenient: backend != local.Name, examine: d.local},
		part{name: "docker", lenient: backend != docker.Name, examine: func(ctx context.Context) []finding { return d.docker(ctx, image) }},
	)
	switch {
	case job == nil:
	case backend == ssh.Name:
		parts = append(parts, part{name: backend, examine: func(ctx context.Context) []finding { return d.ssh(ctx, job) }})
	case backend == singularity.Name:
		parts = append(parts, part{name: backend, examine: func(ctx context.Context) []finding { return d.singularity(ctx, job) }})
	}
	if asks {
		parts = append(parts, part{name: "config", examine: func(ctx context.Context) []finding {
			if job == nil {
				return problems
			}
			return append(problems, d.environment(ctx, job)...)
		}})
	}
	if job != nil {
		parts = append(parts, part{name: "models", examine: func(ctx context.Context) []finding { return d.models(ctx, job) }})
	}
	return examineAll(ctx, parts, partLimit)
}

// asks reports whether there is a configuration to check.
func (c *doctorCommand) asks() bool {
	return c.File != "" || c.Environment != "" || c.Agent != "" || len(c.flags.given()) > 0
}

// examineAll examines the parts at once and returns their findings in order. A part
// that does not end in time, such as one that waits for a dead network file system in
// the kernel, is left behind: it has nothing to clean up and the process ends soon.
func examineAll(ctx context.Context, parts []part, limit time.Duration) []finding {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	const grace = 500 * time.Millisecond // for checks that say themselves what took too long
	found := make([][]finding, len(parts))
	var wg sync.WaitGroup
	for i, p := range parts {
		wg.Go(func() {
			done := make(chan []finding, 1)
			go func() { done <- p.examine(ctx) }()
			select {
			case found[i] = <-done:
				return
			case <-ctx.Done():
			}
			timer := time.NewTimer(grace)
			defer timer.Stop()
			select {
			case found[i] = <-done:
			case <-timer.C:
				found[i] = []finding{{
					Check: "time", Level: levelProblem, Found: fmt.Sprintf("not examined within %s", limit),
					Fix: "look for a file system or service that hangs, and try again",
				}}
			}
		})
	}
	wg.Wait()
	var all []finding
	for i, p := range parts {
		for _, f := range found[i] {
			f.Part = p.name
			if p.lenient && f.Level == levelProblem {
				f.Level = levelWarning
			}
			all = append(all, f)
		}
	}
	return all
}

// readConfig loads the configuration as a run would, and makes the job; nil when it
// can't be run, for the reasons found.
func (d *doctor) readConfig(c *doctorCommand) (*job, []finding) {
	name := c.File
	if name == "" {
		name = "the flags"
	}
	cfg, err := c.load(d.session, config.Mode(c.Mode), false)
	if err != nil {
		return nil, configProblems(err)
	}
	found := []finding{{Check: "valid", Level: levelOK, Found: fmt.Sprintf("%s: %s %s on %s sandboxes", name, cfg.Mode, cfg.Environment, cfg.Env.TerminalBackend)}}
	for _, w := range cfg.Warnings {
		found = append(found, finding{Check: "valid", Level: levelWarning, Found: w})
	}
	j := &job{session: d.session, flags: &runFlags{configFlagSet: c.configFlagSet}, mode: cfg.Mode, cfg: cfg, out: &jsonPrinter{out: io.Discard, now: time.Now}}
	if err := j.build(); err != nil {
		return nil, append(found, finding{Check: "tools", Level: levelProblem, Found: err.Error(), Fix: "see " + d.typed("envs "+cfg.Environment) + " and " + d.typed("tools")})
	}
	return j, found
}

func configProblems(err error) []finding {
	var list *config.Error
	if !errors.As(err, &list) {
		return []finding{{Check: "valid", Level: levelProblem, Found: err.Error()}}
	}
	found := make([]finding, len(list.Problems))
	for i, p := range list.Problems {
		found[i] = finding{Check: "valid", Level: levelProblem, Found: p.String()}
	}
	return found
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
