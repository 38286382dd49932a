package terminalbench

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/toolcontext"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

var _ env.Forger = (*Environment)(nil)

// forgeryFiles hold one forgery each. Those in agent are run in place of an agent. Those
// in program are put in place of the programs that the reference solution made, so that
// the tests execute them.
//
//go:embed forgeries
var forgeryFiles embed.FS

const (
	forgeriesDir   = "forgeries"
	agentForgery   = "agent"
	programForgery = "program"
	controlForgery = "program/control"
)

// maxPrograms bounds the files of a solution that are looked at for programs.
const maxPrograms = 2000

// forgeryTime bounds the shell commands of a forgery.
const forgeryTime = 2 * time.Minute

// forgery is one of the embedded files.
type forgery struct {
	env.Forgery
	needs  []string // programs without which it can't be tried
	text   string
	python bool // it is Python code, only for Python programs
}

// forgeries are read once: first those of agents, then the control and the other programs.
var forgeries = sync.OnceValue(func() []forgery {
	var list []forgery
	for _, family := range []string{agentForgery, programForgery} {
		dir := path.Join(forgeriesDir, family)
		entries, err := fs.ReadDir(forgeryFiles, dir)
		if err != nil {
			panic(err) // they are part of the program
		}
		for _, entry := range entries {
			text, err := forgeryFiles.ReadFile(path.Join(dir, entry.Name()))
			if err != nil {
				panic(err)
			}
			list = append(list, parseForgery(family, entry.Name(), string(text)))
		}
	}
	return list
})

// parseForgery reads the comment at the beginning of a forgery.
func parseForgery(family, file, text string) forgery {
	f := forgery{text: text, python: path.Ext(file) == ".py"}
	f.Name = path.Join(family, strings.TrimSuffix(file, path.Ext(file)))
	if family == programForgery && f.Name != controlForgery {
		f.Control = controlForgery
	}
	var summary []string
	for line := range strings.Lines(text) {
		comment, ok := strings.CutPrefix(strings.TrimSpace(line), "# ")
		if !ok {
			break
		}
		if needs, ok := strings.CutPrefix(comment, "Needs: "); ok {
			f.needs = strings.Fields(needs)
			continue
		}
		summary = append(summary, comment)
	}
	f.Summary = strings.Join(summary, " ")
	return f
}

// Forgeries returns all that can be tried on a task.
func (e *Environment) Forgeries(item env.Item) []env.Forgery {
	var list []env.Forgery
	for _, f := range forgeries() {
		if f.family() == agentForgery || item.Value.(*task).solved {
			list = append(list, f.Forgery)
		}
	}
	return list
}

func (f forgery) family() string { return path.Dir(f.Name) }

// shell is the forgery as shell code.
func (f forgery) shell() string {
	prelude, err := forgeryFiles.ReadFile(path.Join(forgeriesDir, "prelude.sh"))
	if err != nil {
		panic(err) // it is part of the program
	}
	if f.python {
		return "exit 1\n"
	}
	return string(prelude) + "\n" + f.text
}

// Forge carries out a forgery on a task, or on a step of one.
func (e *Environment) Forge(ctx context.Context, item env.Item, stage int, wanted env.Forgery, tc *toolcontext.Context) error {
	list := forgeries()
	i := slices.IndexFunc(list, func(f forgery) bool { return f.Name == wanted.Name })
	if i < 0 {
		return fmt.Errorf("there is no forgery %q", wanted.Name)
	}
	t, f := item.Value.(*task), list[i]
	tc.Note(forgedNote, "")
	box, err := tc.Sandbox(ctx)
	if err != nil {
		return err
	}
	for _, tool := range f.needs {
		r, err := box.Exec(ctx, sandbox.Command{Args: []string{"/bin/sh", "-c", "command -v " + tool}, Timeout: forgeryTime, MaxOutput: 4000})
		switch {
		case err != nil:
			return infra("look for "+tool, err)
		case r.ExitCode != 0:
			return fmt.Errorf("it needs %s, which the sandbox lacks", tool)
		}
	}
	if f.family() == agentForgery {
		_, err := e.runForgery(ctx, t, box, f.shell())
		return err
	}
	if err := e.solve(ctx, t, stage, box); err != nil {
		return err
	}
	return e.replacePrograms(ctx, t, box, f)
}

// runForgery runs shell code of a forgery. How it ends does not matter.
func (e *Environment) runForgery(ctx context.Context, t *task, box sandbox.Sandbox, code string, args ...string) (string, error) {
	r, err := box.Exec(ctx, sandbox.Command{
		Args: append([]string{"/bin/sh", "-c", code, "forgery"}, args...),
		Dir:  t.workdir(), Timeout: forgeryTime, Merge: true, MaxOutput: outputBytes,
	})
	if err != nil {
		return "", infra("run the forgery", err)
	}
	if r.Cancelled {
		return "", context.Cause(ctx)
	}
	return r.Stdout.String(), nil
}

// replacePrograms puts a forgery in place of the programs that the solution made.
func (e *Environment) replacePrograms(ctx context.Context, t *task, box sandbox.Sandbox, f forgery) error {
	changer, ok := box.(sandbox.Changer)
	if !ok {
		return fmt.Errorf("the %s backend can't list what the solution made", box.Info().Backend)
	}
	changes, err := changer.Changes(ctx)
	if errors.Is(err, sandbox.ErrUnsupported) {
		return fmt.Errorf("the %s backend can't list what the solution made", box.Info().Backend)
	}
	if err != nil {
		return infra("list what the solution made", err)
	}
	var names []string
	for _, c := range changes {
		own := isWork(c, t, t.config.Metadata.WorkDirectories) || c.Kind == sandbox.Added && slices.Contains(localDirs, path.Dir(c.Path))
		if c.Kind != sandbox.Deleted && own && !strings.Contains(c.Path, "\n") && len(names) < maxPrograms {
			names = append(names, c.Path)
		}
	}
	const dir = "/tmp/.forgery"
	files := map[string]string{"list": strings.Join(names, "\n") + "\n"}
	for kind, text := range f.variants() {
		files[kind] = text
	}
	if _, err := e.runForgery(ctx, t, box, `rm -rf "$1"; mkdir -p "$1"`, dir); err != nil {
		return err
	}
	for name, text := range files {
		if err := writeFile(ctx, box, path.Join(dir, name), []byte(text)); err != nil {
			return infra("put the forgery into the sandbox", err)
		}
	}
	replace, err := forgeryFiles.ReadFile(path.Join(forgeriesDir, "replace.sh"))
	if err != nil {
		panic(err) // it is part of the program
	}
	replaced, err := e.runForgery(ctx, t, box, string(replace)+"\nrm -rf \"$1\"", dir)
	if err != nil {
		return err
	}
	if strings.TrimSpace(replaced) == "" {
		return errors.New("the solution leaves no program that it could replace")
	}
	return nil
}

// variants are programs in several languages that carry out a forgery, by the kinds of
// replace.sh.
func (f forgery) variants() map[string]string {
	shell := f.shell()
	quoted := strconv.QuoteToASCII(shell)
	python := "#!/usr/bin/env python3\nimport subprocess\nsubprocess.call([\"/bin/sh\", \"-c\", " + quoted + "])\n"
	if f.python {
		python = "#!/usr/bin/env python3\n" + f.text
	}
	return map[string]string{
		"sh":  "#!/bin/sh\n" + shell,
		"py":  python,
		"js":  "#!/usr/bin/env node\nrequire(\"child_process\").spawnSync(\"/bin/sh\", [\"-c\", " + quoted + "], {stdio: \"inherit\"});\n",
		"mjs": "import {spawnSync} from \"node:child_process\";\nspawnSync(\"/bin/sh\", [\"-c\", " + quoted + "], {stdio: \"inherit\"});\n",
		"c":   "#include <unistd.h>\nint main(void) { return execl(\"/bin/sh\", \"sh\", \"-c\", " + quoted + ", (char *)0); }\n",
	}
}
