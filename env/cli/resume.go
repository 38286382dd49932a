package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/trajectories"
)

// resumeFlag is --resume, alone or with the directory of the run to go on with.
type resumeFlag struct {
	set bool
	dir string
}

// IsBool tells kong that the value may be left out.
func (f *resumeFlag) IsBool() bool { return true }

// Decode takes a directory if one follows.
func (f *resumeFlag) Decode(ctx *kong.DecodeContext) error {
	f.set = true
	next := ctx.Scan.Peek()
	if next.Type != kong.FlagValueToken && (next.Type != kong.UntypedToken || strings.HasPrefix(next.String(), "-")) {
		return nil
	}
	switch value := ctx.Scan.Pop().String(); strings.ToLower(value) {
	case "true", "yes", "on", "1":
	case "false", "no", "off", "0":
		f.set = false
	default:
		f.dir = value
	}
	return nil
}

// runDir returns the directory of the run that --resume and --run-dir mean together.
func (f resumeFlag) runDir(given string) (string, error) {
	switch {
	case f.dir == "" || f.dir == given:
		return given, nil
	case given != "":
		return "", fmt.Errorf("--resume %s and --run-dir %s name two directories: give one of them", f.dir, given)
	}
	return f.dir, nil
}

// settle makes one directory of --resume and --run-dir, and has a run that is resumed
// without --config and --environment go on with the configuration it recorded.
func (f *runFlags) settle(command config.Mode) error {
	dir, err := f.ResumeDir.runDir(f.RunDir)
	if err != nil {
		return err
	}
	f.RunDir, f.Resume = dir, f.ResumeDir.set
	if !f.Resume {
		return nil
	}
	if dir == "" {
		return errors.New("--resume needs the run to go on with: --resume DIR, or add --run-dir DIR" + newestRun("*"))
	}
	if command != config.Serve && !hasRun(dir) { // a worker's first start and later ones have one command
		switch {
		case !trajectories.Unbegun(dir):
			return fmt.Errorf("%s holds no run to go on with%s", dir, newestRun("*"))
		case f.File == "" && f.Environment == "":
			return fmt.Errorf("%s holds no run to go on with: the process that was to begin it was killed before; add --config or --environment to begin it", dir)
		}
		f.begin = true
	}
	return f.takeRecorded(dir, string(command))
}

// takeRecorded makes the configuration that a run recorded the one that flags build on,
// unless they name one themselves. command is the one that resumes; "" accepts any.
func (f *configFlagSet) takeRecorded(dir, command string) error {
	if f.File != "" || f.Environment != "" || !hasRun(dir) {
		return nil // a directory without a run is answered when the run is opened
	}
	reader, err := trajectories.OpenReadOnly(dir)
	if err != nil {
		return err
	}
	if m := reader.Manifest(); command != "" && m.Command != command {
		return fmt.Errorf("%s is a run of %s: go on with it by that command, %s --resume %s", dir, m.Command, m.Command, shellWord(dir))
	}
	text, err := recordedConfig(reader, "mode")
	if err != nil {
		return err
	}
	f.File, f.recorded, f.recordedFlags = filepath.Join(dir, "run.json"), text, reader.Manifest().Flags
	return nil
}

// recordedConfig returns the configuration of a run as the text of a configuration file,
// without some of its top-level keys.
func recordedConfig(reader *trajectories.Reader, without ...string) ([]byte, error) {
	text := []byte(reader.Manifest().Config)
	for _, key := range without {
		var err error
		if text, err = sjson.DeleteBytes(text, key); err != nil {
			return nil, fmt.Errorf("read the configuration of run %s: %w", reader.Dir(), err)
		}
	}
	if servers := gjson.GetBytes(text, "openai"); servers.IsArray() && len(servers.Array()) == 0 {
		var err error
		if text, err = sjson.DeleteBytes(text, "openai"); err != nil {
			return nil, fmt.Errorf("read the configuration of run %s: %w", reader.Dir(), err)
		}
	}
	return text, nil
}

// newestRun names the latest run directory of an environment, for a hint.
func newestRun(environment string) string {
	found, err := filepath.Glob(filepath.Join("runs", environment+"-*", "run.json"))
	if err != nil || len(found) == 0 {
		return ""
	}
	newest := slices.MaxFunc(found, func(a, b string) int { return modified(a).Compare(modified(b)) })
	return " (the newest here is " + filepath.Dir(newest) + ")"
}

func modified(path string) time.Time {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// hasRun reports whether a directory holds a run.
func hasRun(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "run.json"))
	return err == nil
}
