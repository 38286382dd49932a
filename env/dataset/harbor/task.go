package harbor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxText bounds a task.toml and an instruction.
const maxText = 16 << 20

// Task is one task folder that is in order.
type Task struct {
	// Name is the folder's name, or its path below the collection where names would repeat.
	Name string
	// Dir is the folder's absolute path.
	Dir    string
	Config Config
	// Instruction is instruction.md as it is; empty for a task of several steps.
	Instruction string
	// Steps are the steps of a multi-step task; empty for others.
	Steps []Step
	// Digest covers the content of the task's files, see Digest.
	Digest string
	// HasSolution is true when there is solution/solve.sh (in every step that has tests of
	// its own, for multi-step tasks).
	HasSolution bool
	// HasDockerfile and HasCompose tell what environment/ can be built or started from.
	HasDockerfile, HasCompose bool
	// Notes are what is ignored, out of date or unusual.
	Notes []Problem
}

// Step is one step of a multi-step task.
type Step struct {
	StepConfig
	// Dir is steps/NAME.
	Dir         string
	Instruction string
	// HasTests is true when the step has tests, which are laid over the task's;
	// HasSolution when it has solution/solve.sh; HasWorkdir when files are merged into the working
	// directory before it, HasSetup when workdir/setup.sh is run then.
	HasTests, HasSolution, HasWorkdir, HasSetup bool
}

// EnvironmentDir returns the folder that the image is built from.
func (t *Task) EnvironmentDir() string { return filepath.Join(t.Dir, "environment") }

// TestsDir returns the folder that goes to /tests for the verifier.
func (t *Task) TestsDir() string { return filepath.Join(t.Dir, "tests") }

// SolutionDir returns the folder that goes to /solution for the oracle.
func (t *Task) SolutionDir() string { return filepath.Join(t.Dir, "solution") }

// EnvironmentDigest returns the digest of the environment folder alone, for naming images
// by what they are built from.
func (t *Task) EnvironmentDigest(ctx context.Context) (string, error) {
	return FolderDigest(ctx, t.EnvironmentDir())
}

// Load reads the task in a folder. Its error is an *Error with every problem, unless the folder
// itself can't be read.
func Load(ctx context.Context, dir string) (*Task, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("load the task %s: %w", dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("load the task %s: %w", filepath.Base(dir), err)
	}
	defer root.Close()
	l := loader{root: root, dir: dir, task: &Task{Name: filepath.Base(dir), Dir: dir}}
	l.all()
	if len(l.problems) == 0 {
		digest, notes, err := digestTask(ctx, root)
		if err != nil {
			return nil, fmt.Errorf("load the task %s: %w", l.task.Name, err)
		}
		l.task.Digest = digest
		for _, n := range notes {
			n.File = filepath.Join(dir, n.File)
			l.task.Notes = append(l.task.Notes, n)
		}
	}
	if len(l.problems) > 0 {
		return nil, &Error{l.problems}
	}
	return l.task, nil
}

// loader reads one folder. Everything is opened below root, so no link leads out.
type loader struct {
	root     *os.Root
	dir      string
	task     *Task
	problems []Problem
}

func (l *loader) wrong(name, format string, args ...any) {
	l.problems = append(l.problems, Problem{File: filepath.Join(l.dir, filepath.FromSlash(name)), Text: fmt.Sprintf(format, args...)})
}

func (l *loader) all() {
	t := l.task
	if data, ok := l.read("task.toml"); ok {
		config, notes, err := Parse(filepath.Join(l.dir, "task.toml"), []byte(data))
		t.Notes = notes
		var e *Error
		switch {
		case errors.As(err, &e):
			l.problems = append(l.problems, e.Problems...)
		case err != nil:
			l.wrong("task.toml", "%s", err)
		default:
			t.Config = *config
		}
	} else if l.isFile("task.yaml") {
		l.wrong("task.yaml", "is a task of the older Terminal-Bench 1 format, which has to be converted to Harbor's (harbor has a command for it)")
	}
	l.environment()
	hasTests := l.isFile("tests/test.sh")
	switch {
	case len(t.Config.Steps) > 0:
		l.steps(hasTests)
	case l.isDir("steps") && !l.isFile("instruction.md"):
		l.wrong("task.toml", "has no [[steps]] for the folder steps/")
	default:
		t.Instruction = l.instruction("instruction.md")
		t.HasSolution = l.isFile("solution/solve.sh")
		if !hasTests {
			l.wrong("tests/test.sh", "is missing: it is what the verifier runs")
		}
	}
}

func (l *loader) environment() {
	t := l.task
	t.HasDockerfile, t.HasCompose = l.isFile("environment/Dockerfile"), l.isFile("environment/docker-compose.yaml")
	switch {
	case t.HasDockerfile || t.HasCompose:
	case t.Config.Environment.DockerImage != "":
		t.Notes = append(t.Notes, Problem{File: filepath.Join(l.dir, "environment"), Text: "has neither Dockerfile nor docker-compose.yaml, which Harbor wants besides docker_image"})
	case !l.isFile("task.toml"):
		// That is problem enough.
	default:
		l.wrong("environment", "needs a Dockerfile or a docker-compose.yaml, or task.toml a docker_image in [environment]")
	}
}

func (l *loader) steps(taskHasTests bool) {
	t := l.task
	t.HasSolution = true
	for _, c := range t.Config.Steps {
		dir := "steps/" + c.Name
		s := Step{StepConfig: c, Dir: filepath.Join(l.dir, "steps", c.Name)}
		if !l.isDir(dir) {
			l.wrong(dir, "is missing: task.toml names the step")
			continue
		}
		s.Instruction = l.instruction(dir + "/instruction.md")
		s.HasTests = l.isDir(dir + "/tests")
		s.HasSolution = l.isFile(dir + "/solution/solve.sh")
		s.HasWorkdir = l.isDir(dir + "/workdir")
		s.HasSetup = l.isFile(dir + "/workdir/setup.sh")
		if !taskHasTests && !l.isFile(dir+"/tests/test.sh") {
			l.wrong(dir+"/tests/test.sh", "is missing, and there is no tests/test.sh for all steps")
		}
		t.HasSolution = t.HasSolution && s.HasSolution
		t.Steps = append(t.Steps, s)
	}
}

// instruction reads the prompt of a task or step.
func (l *loader) instruction(name string) string {
	text, ok := l.read(name)
	if ok && strings.TrimSpace(text) == "" {
		l.wrong(name, "is empty")
	}
	return text
}

// read returns a text file that has to be there.
func (l *loader) read(name string) (string, bool) {
	f, err := l.root.Open(filepath.FromSlash(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if name != "task.toml" || !l.isFile("task.yaml") {
			l.wrong(name, "is missing")
		}
		return "", false
	case err != nil:
		l.wrong(name, "%s", withoutPath(err))
		return "", false
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		l.wrong(name, "%s", withoutPath(err))
		return "", false
	case !info.Mode().IsRegular():
		l.wrong(name, "is no file")
		return "", false
	case info.Size() > maxText:
		l.wrong(name, "has %d bytes, more than the %d allowed", info.Size(), maxText)
		return "", false
	}
	data, err := io.ReadAll(io.LimitReader(f, maxText))
	if err != nil {
		l.wrong(name, "%s", withoutPath(err))
		return "", false
	}
	if clean := strings.ToValidUTF8(string(data), "\ufffd"); clean != string(data) {
		l.task.Notes = append(l.task.Notes, Problem{File: filepath.Join(l.dir, filepath.FromSlash(name)), Text: "is not all UTF-8; what is not has been replaced"})
		return clean, true
	}
	return string(data), true
}

func (l *loader) isFile(name string) bool {
	info, err := l.root.Stat(filepath.FromSlash(name))
	return err == nil && info.Mode().IsRegular()
}

func (l *loader) isDir(name string) bool {
	info, err := l.root.Stat(filepath.FromSlash(name))
	return err == nil && info.IsDir()
}

// withoutPath leaves out of an error the path that the problem names already.
func withoutPath(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
