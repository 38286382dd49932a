package reward

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/internal/textutil"
	"github.com/hermes-env/hermes-env/toolcontext"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/tools"
)

// command runs a script in the rollout's sandbox.
type command struct {
	script, result, dir string
	environment         map[string]string
	timeout             time.Duration
	files               []memoryFile
}

type memoryFile struct {
	name    string
	mode    int64
	content []byte
}

// maxCommandFiles bounds what is put into every sandbox, in bytes.
const maxCommandFiles = 256 << 20

// commandOutput bounds the output kept of a script, in bytes per stream.
const commandOutput = 1 << 20

func newCommand(p Part) (*command, error) {
	c := &command{script: p.Script, result: p.Result, dir: p.Directory, environment: p.Environment, timeout: p.Timeout.Duration()}
	total := 0
	for _, name := range slices.Sorted(maps.Keys(p.Files)) {
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			return nil, fmt.Errorf("files: %q must be a path below $REWARD_DIR", name)
		}
		files, err := readFiles(name, p.Files[name])
		if err != nil {
			return nil, fmt.Errorf("files: %w", err)
		}
		for _, f := range files {
			total += len(f.content)
		}
		if total > maxCommandFiles {
			return nil, fmt.Errorf("files: together more than %d MiB, which every rollout would have to upload", maxCommandFiles>>20)
		}
		c.files = append(c.files, files...)
	}
	return c, nil
}

// readFiles reads a file, or the regular files of a folder, under a new name.
func readFiles(name, local string) ([]memoryFile, error) {
	var files []memoryFile
	err := filepath.WalkDir(local, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Stat(at) // a link given by name is followed
		if err != nil || info.IsDir() {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is not a regular file", at)
		}
		if info.Size() > maxCommandFiles {
			return fmt.Errorf("%s is larger than %d MiB", at, maxCommandFiles>>20)
		}
		content, err := os.ReadFile(at)
		if err != nil {
			return err
		}
		below, err := filepath.Rel(local, at)
		if err != nil {
			return err
		}
		files = append(files, memoryFile{path.Join(name, filepath.ToSlash(below)), int64(info.Mode().Perm()), content})
		return nil
	})
	return files, err
}

func (c *command) check([]byte) error { return nil }
func (c *command) close() error       { return nil }

func (c *command) score(ctx context.Context, in Input) (result, error) {
	box, err := in.Tools.Sandbox(ctx)
	if err != nil {
		return result{}, err
	}
	var secret [12]byte
	_, _ = rand.Read(secret[:]) // never fails, as crypto/rand documents
	dir := path.Join(box.Info().TempDir, "reward-"+hex.EncodeToString(secret[:]))
	archive, err := c.archive(in)
	if err != nil {
		return result{}, failing(classCommand, "%w", err)
	}
	if err := box.Upload(ctx, archive, dir); err != nil {
		return result{}, infrastructure(ctx, "put the reward's files into the sandbox", err)
	}
	values := maps.Clone(c.environment)
	if values == nil {
		values = map[string]string{}
	}
	values["REWARD_DIR"] = dir
	r, err := box.Exec(ctx, sandbox.Command{Script: c.script, Dir: c.dir, Env: values, Timeout: c.timeout, MaxOutput: commandOutput})
	if err != nil {
		return result{}, infrastructure(ctx, "run the reward's script", err)
	}
	if r.Cancelled || ctx.Err() != nil {
		return result{}, context.Cause(ctx)
	}
	// Left behind it does no harm: the sandbox is removed after this. But another part's script shall not read it.
	if _, err := box.Exec(ctx, sandbox.Command{Args: []string{"rm", "-rf", dir}, Timeout: 30 * time.Second}); err != nil {
		return result{}, infrastructure(ctx, "remove the reward's files", err)
	}
	return c.read(r)
}

func infrastructure(ctx context.Context, op string, err error) error {
	if ctx.Err() != nil || toolcontext.IsInfrastructure(err) {
		return fmt.Errorf("%s: %w", op, err)
	}
	return &tools.InfrastructureError{Op: op, Err: err}
}

// archive packs the configured files and what the script may want to know of the rollout.
func (c *command) archive(in Input) (io.Reader, error) {
	messages := chat.AppendMessages(nil, in.Result.Messages)
	files := append(slices.Clone(c.files),
		memoryFile{"answer.txt", 0o644, []byte(in.Result.FinalText())},
		memoryFile{"row.json", 0o644, in.Row},
		memoryFile{"messages.json", 0o644, messages})
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	made := map[string]bool{}
	for _, f := range files {
		for _, dir := range parents(f.name) {
			if made[dir] {
				continue
			}
			made[dir] = true
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}); err != nil {
				return nil, fmt.Errorf("pack the reward's files: %w", err)
			}
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.content))}); err != nil {
			return nil, fmt.Errorf("pack the reward's files: %s: %w", f.name, err)
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, fmt.Errorf("pack the reward's files: %s: %w", f.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("pack the reward's files: %w", err)
	}
	return &out, nil
}

// parents lists the directories a slash-separated path lies in, the outermost first.
func parents(name string) []string {
	var dirs []string
	for i, c := range name {
		if c == '/' && i > 0 {
			dirs = append(dirs, name[:i])
		}
	}
	return dirs
}

// read makes a score of how a script ended.
func (c *command) read(r sandbox.Result) (result, error) {
	details := chat.Object{}
	details.Set("exit_code", strconv.AppendInt(nil, int64(r.ExitCode), 10))
	stdout, stderr := r.Stdout.String(), r.Stderr.String()
	if text := strings.TrimSpace(stdout); text != "" {
		details.Set("stdout", chat.AppendString(nil, tail(text, 2000)))
	}
	if text := strings.TrimSpace(stderr); text != "" {
		details.Set("stderr", chat.AppendString(nil, tail(text, 2000)))
	}
	found := result{details: details}
	switch {
	case r.TimedOut:
		return found, failing(classCommand, "the script did not end within %s%s", c.timeout, toldBy(stderr))
	case c.result == "exit_code" && (r.ExitCode == 126 || r.ExitCode == 127 || r.ExitCode > 128):
		return found, failing(classCommand, "the script could not be run: exit code %d%s", r.ExitCode, toldBy(stderr))
	case c.result == "exit_code":
		if r.ExitCode == 0 {
			found.score = 1
		}
		return found, nil
	case r.ExitCode != 0:
		return found, failing(classCommand, "the script ended with exit code %d%s", r.ExitCode, toldBy(stderr))
	case r.Stdout.Omitted() > 0:
		return found, failing(classCommand, "the script wrote more than %d bytes", commandOutput)
	}
	line, _ := lastLine(stdout)
	if c.result == "number" {
		value, err := strconv.ParseFloat(line, 64)
		if err != nil {
			return found, failing(classCommand, "want a number on the last line of the output, got %s%s", textutil.Quote(line, 60), toldBy(stderr))
		}
		found.score = value
		return found, nil
	}
	verdict, err := readVerdict([]byte(strings.TrimSpace(stdout)))
	if err != nil {
		verdict, err = readVerdict([]byte(line))
	}
	if err != nil {
		return found, failing(classCommand, "want a JSON object with score in the output: %w%s", err, toldBy(stderr))
	}
	found.score, found.parts = verdict.score, verdict.parts
	if len(verdict.details) > 0 {
		found.details.Set("details", verdict.details)
	}
	return found, nil
}

func toldBy(stderr string) string {
	if text := strings.TrimSpace(stderr); text != "" {
		return "; it said: " + tail(text, 500)
	}
	return ""
}

// tail returns the end of a text.
func tail(s string, limit int) string {
	if r := []rune(s); len(r) > limit {
		return "…" + string(r[len(r)-limit:])
	}
	return s
}

// verdict is the JSON object in which scripts, programs and judges say their score.
type verdict struct {
	score   float64
	parts   map[string]float64
	details []byte // any JSON value; nil for none
}

// readVerdict reads {"score": 0.5, "parts": {"style": 1}, "details": …}; reward stands for score.
func readVerdict(text []byte) (verdict, error) {
	var v verdict
	if !chat.Valid(text) {
		return v, errors.New("not JSON: " + textutil.Quote(string(text), 60))
	}
	object := gjson.ParseBytes(text)
	if !object.IsObject() {
		return v, errors.New("not a JSON object: " + textutil.Quote(string(text), 60))
	}
	score := object.Get("score")
	if !score.Exists() {
		score = object.Get("reward")
	}
	switch {
	case !score.Exists():
		return v, errors.New("it has no score")
	case score.Type == gjson.True || score.Type == gjson.False:
		if score.Bool() {
			v.score = 1
		}
	case score.Type != gjson.Number:
		return v, fmt.Errorf("its score is %s, want a number", textutil.Shorten(score.Raw, 60))
	default:
		v.score = score.Num
	}
	parts := object.Get("parts")
	if parts.Exists() && parts.Type != gjson.Null {
		if !parts.IsObject() {
			return v, fmt.Errorf("its parts are %s, want an object of numbers", textutil.Shorten(parts.Raw, 60))
		}
		v.parts = map[string]float64{}
		var wrong error
		parts.ForEach(func(key, value gjson.Result) bool {
			if value.Type != gjson.Number {
				wrong = fmt.Errorf("its part %q is %s, want a number", key.String(), textutil.Shorten(value.Raw, 60))
				return false
			}
			v.parts[key.String()] = value.Num
			return true
		})
		if wrong != nil {
			return v, wrong
		}
	}
	if d := object.Get("details"); d.Exists() && d.Type != gjson.Null && len(d.Raw) <= 64<<10 {
		v.details = []byte(d.Raw)
	}
	return v, nil
}
