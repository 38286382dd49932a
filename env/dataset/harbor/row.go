package harbor

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// columns are those of the Terminal-Bench data sets, in their order, and what hermes-env
// adds for a task in a folder.
type columns struct {
	TaskName        string   `json:"task_name"`
	Instruction     string   `json:"instruction"`
	DockerImage     string   `json:"docker_image"`
	Category        string   `json:"category"`
	Difficulty      string   `json:"difficulty"`
	Tags            string   `json:"tags"`
	AgentTimeout    *float64 `json:"agent_timeout_sec"`
	TestTimeout     float64  `json:"test_timeout_sec"`
	EnvironmentTar  *string  `json:"environment_tar,omitempty"`
	TestsTar        *string  `json:"tests_tar,omitempty"`
	TestSh          *string  `json:"test_sh,omitempty"`
	Steps           int      `json:"steps,omitempty"`
	HasSolution     *bool    `json:"has_solution,omitempty"`
	TaskDir         string   `json:"task_dir,omitempty"`
	TaskDigest      string   `json:"task_digest,omitempty"`
	TaskPackageName string   `json:"task_package,omitempty"`
}

func (t *Task) columns() columns {
	c := columns{
		TaskName: t.Name, Instruction: t.Instruction, DockerImage: t.Config.Environment.DockerImage,
		Category: t.Config.Metadata.Category, Difficulty: t.Config.Metadata.Difficulty,
		Tags: strings.Join(t.Config.Metadata.Tags, ", "), TestTimeout: t.Config.Verifier.Timeout.Seconds(),
	}
	if t.Config.Agent.Timeout > 0 {
		seconds := t.Config.Agent.Timeout.Seconds()
		c.AgentTimeout = &seconds
	}
	return c
}

// Row returns a task as one compact JSON object: task_name, instruction (of the first step for
// a multi-step task), docker_image, category, difficulty, tags (joined by ", "), agent_timeout_sec (null: not
// limited) and test_timeout_sec as in the Terminal-Bench data sets; then steps (how many, if several), has_solution,
// task_dir (absolute, for Load), task_digest and task_package ("org/name", if any).
func Row(t *Task) ([]byte, error) {
	c := t.columns()
	c.Steps, c.HasSolution, c.TaskDir, c.TaskDigest = len(t.Steps), &t.HasSolution, t.Dir, t.Digest
	if len(t.Steps) > 0 {
		c.Instruction = t.Steps[0].Instruction
	}
	if p := t.Config.Package; p != nil {
		c.TaskPackageName = p.Name
	}
	return marshal(c)
}

// PackRow returns a task as a row that stands for itself, as the Terminal-Bench data sets have them:
// with environment_tar and tests_tar (base64 of tar.gz) and test_sh. As there, the solution and what
// the columns have no place for (resources, network, users, variables) are lost. Multi-step tasks do not fit.
func PackRow(ctx context.Context, t *Task) ([]byte, error) {
	if len(t.Steps) > 0 {
		return nil, fmt.Errorf("pack the task %s: a row has no place for several steps", t.Name)
	}
	c := t.columns()
	for _, part := range []struct {
		dir string
		to  **string
	}{{t.EnvironmentDir(), &c.EnvironmentTar}, {t.TestsDir(), &c.TestsTar}} {
		if _, err := os.Stat(part.dir); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		data, err := packFolder(ctx, part.dir)
		if err != nil {
			return nil, err
		}
		text := base64.StdEncoding.EncodeToString(data)
		*part.to = &text
	}
	script, err := os.ReadFile(filepath.Join(t.TestsDir(), "test.sh"))
	if err != nil {
		return nil, fmt.Errorf("pack the task %s: %w", t.Name, err)
	}
	if !utf8.Valid(script) {
		return nil, fmt.Errorf("pack the task %s: tests/test.sh is no UTF-8", t.Name)
	}
	text := string(script)
	c.TestSh = &text
	return marshal(c)
}

// marshal encodes without escapes for HTML.
func marshal(v columns) ([]byte, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode the task %s: %w", v.TaskName, err)
	}
	return []byte(strings.TrimSuffix(b.String(), "\n")), nil
}

// RowName returns the name of the task that a row holds: task_name, or the last part of
// path in the OpenThoughts form; "" when it has neither.
func RowName(row []byte) string {
	if name := gjson.GetBytes(row, "task_name").String(); name != "" {
		return name
	}
	if p := gjson.GetBytes(row, "path").String(); p != "" {
		return strings.TrimSuffix(strings.TrimSuffix(path.Base(path.Clean(p)), ".gz"), ".tar")
	}
	return ""
}

// FromRow makes the task folder that a row stands for in dir, which must not exist or be
// empty, and loads it. There are three forms:
//
//   - task_dir and task_digest (Row): a folder that is there already and has the digest;
//     dir is not used. Without the digest a foreign row could name any folder.
//   - task_binary and path (OpenThoughts): base64 of a tar.gz of the whole folder.
//   - environment_tar, tests_tar, test_sh, instruction and the other columns of the
//     Terminal-Bench data sets. test_sh goes before the tar's test.sh. A task.toml with
//     the columns' values is written.
//
// On failure nothing is left in dir.
func FromRow(ctx context.Context, row []byte, dir string, limits Limits) (*Task, error) {
	if !gjson.ValidBytes(row) || !gjson.ParseBytes(row).IsObject() {
		return nil, errors.New("read a task from a row: the row is no JSON object")
	}
	name := RowName(row)
	if at := gjson.GetBytes(row, "task_dir"); at.Type == gjson.String && at.String() != "" {
		return fromFolder(ctx, row, name, at.String())
	}
	if name == "" {
		return nil, errors.New("read a task from a row: it has neither task_name nor path")
	}
	t, err := fromColumns(ctx, row, name, dir, limits)
	if err != nil {
		return nil, fmt.Errorf("read the task %s from its row: %w", name, err)
	}
	t.Name = name
	return t, nil
}

// fromFolder loads the folder that a row made by Row names.
func fromFolder(ctx context.Context, row []byte, name, dir string) (*Task, error) {
	t, err := Load(ctx, dir)
	if err != nil {
		return nil, err
	}
	switch digest := gjson.GetBytes(row, "task_digest").String(); digest {
	case t.Digest:
	case "":
		return nil, fmt.Errorf("read the task %s from its row: task_dir counts only together with task_digest", name)
	default:
		return nil, fmt.Errorf("read the task %s from its row: %s was changed since the row was made (it had the digest %s): list the tasks again", name, dir, digest)
	}
	if name != "" {
		t.Name = name
	}
	return t, nil
}

func fromColumns(ctx context.Context, row []byte, name, dir string, limits Limits) (*Task, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	// Unpacked beside its place, so that the place never holds a part of a task.
	work, err := os.MkdirTemp(filepath.Dir(dir), ".unpack-*")
	if err != nil {
		return nil, err
	}
	defer removeAll(work)
	made := filepath.Join(work, "task")
	if binary := gjson.GetBytes(row, "task_binary"); binary.Exists() && binary.Type != gjson.Null {
		err = unpackColumn(ctx, binary, "task_binary", made, limits)
		if err == nil {
			made, err = taskInside(made)
		}
	} else {
		err = unpackParts(ctx, row, made, limits)
	}
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(made, 0o755); err != nil {
		return nil, err
	}
	if _, err := Load(ctx, made); err != nil {
		var e *Error
		if errors.As(err, &e) {
			for i := range e.Problems {
				if rel, relErr := filepath.Rel(made, e.Problems[i].File); relErr == nil {
					e.Problems[i].File = filepath.Join(name, rel)
				}
			}
		}
		return nil, err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("make room for the task: %w", err)
	}
	if err := os.Rename(made, dir); err != nil {
		return nil, err
	}
	return Load(ctx, dir)
}

// removeAll removes a folder also where an archive took the right to write from its
// folders.
func removeAll(dir string) {
	if os.RemoveAll(dir) == nil {
		return
	}
	_ = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if e != nil && e.IsDir() {
			_ = os.Chmod(name, 0o700)
		}
		return nil
	})
	_ = os.RemoveAll(dir)
}

// taskInside returns the folder with the task: the archive's top, or the single folder
// in it.
func taskInside(dir string) (string, error) {
	if _, err := os.Stat(filepath.Join(dir, "task.toml")); err == nil {
		return dir, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	if len(entries) == 1 && entries[0].IsDir() {
		return filepath.Join(dir, entries[0].Name()), nil
	}
	return dir, nil
}

// unpackColumn unpacks the archive in a column.
func unpackColumn(ctx context.Context, v gjson.Result, column, dir string, limits Limits) error {
	if v.Type != gjson.String {
		return fmt.Errorf("%s must be a string with base64, not %s", column, strings.ToLower(v.Type.String()))
	}
	decoded := base64.NewDecoder(base64.StdEncoding, strings.NewReader(v.String()))
	if err := UnpackTar(ctx, decoded, dir, limits); err != nil {
		return fmt.Errorf("unpack %s: %w", column, err)
	}
	return nil
}

// unpackParts makes a task folder from the columns of the Terminal-Bench data sets.
func unpackParts(ctx context.Context, row []byte, dir string, limits Limits) error {
	for column, part := range map[string]string{"environment_tar": "environment", "tests_tar": "tests"} {
		v := gjson.GetBytes(row, column)
		target := filepath.Join(dir, part)
		if !v.Exists() || v.Type == gjson.Null || v.String() == "" {
			if err := os.MkdirAll(target, 0o755); err != nil {
				return err
			}
			continue
		}
		if err := unpackColumn(ctx, v, column, target, limits); err != nil {
			return err
		}
	}
	files := []struct {
		name, text string
		mode       fs.FileMode
	}{{"instruction.md", gjson.GetBytes(row, "instruction").String(), 0o644}, {"task.toml", "", 0o644}}
	text, err := rowConfig(row)
	if err != nil {
		return err
	}
	files[1].text = text
	if script := gjson.GetBytes(row, "test_sh"); script.Type == gjson.String && script.String() != "" {
		files = append(files, struct {
			name, text string
			mode       fs.FileMode
		}{"tests/test.sh", script.String(), 0o755})
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	// The archives may have taken the right to write from the folders.
	for _, name := range []string{".", "tests"} {
		if err := root.Chmod(name, 0o755); err != nil {
			return fmt.Errorf("make %s writable: %w", name, err)
		}
	}
	for _, f := range files {
		// What the archive has under that name, maybe a link, makes way.
		if err := root.RemoveAll(f.name); err != nil {
			return fmt.Errorf("write %s: %w", f.name, err)
		}
		if err := root.WriteFile(f.name, []byte(f.text), f.mode); err != nil {
			return fmt.Errorf("write %s: %w", f.name, err)
		}
		if err := root.Chmod(f.name, f.mode); err != nil {
			return fmt.Errorf("write %s: %w", f.name, err)
		}
	}
	return nil
}

// rowConfig writes the task.toml of a row.
func rowConfig(row []byte) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "schema_version = %s\n\n[metadata]\n", tomlText(DefaultSchemaVersion))
	for _, key := range []string{"category", "difficulty"} {
		if s := gjson.GetBytes(row, key); s.Type == gjson.String && s.String() != "" {
			fmt.Fprintf(&b, "%s = %s\n", key, tomlText(s.String()))
		}
	}
	switch tags := gjson.GetBytes(row, "tags"); {
	case tags.IsArray():
		list := make([]string, 0, len(tags.Array()))
		for _, tag := range tags.Array() {
			list = append(list, tomlText(tag.String()))
		}
		fmt.Fprintf(&b, "tags = [%s]\n", strings.Join(list, ", "))
	case tags.Type == gjson.String && tags.String() != "":
		fmt.Fprintf(&b, "tags = %s\n", tomlText(tags.String()))
	}
	for _, part := range []struct{ table, column string }{{"agent", "agent_timeout_sec"}, {"verifier", "test_timeout_sec"}} {
		v := gjson.GetBytes(row, part.column)
		number, text := v.Float(), strings.TrimSpace(v.String())
		var err error
		switch {
		case !v.Exists(), v.Type == gjson.Null, v.Type == gjson.String && text == "":
			continue
		case v.Type == gjson.String: // every value of a CSV file is a text
			number, err = strconv.ParseFloat(text, 64)
		case v.Type != gjson.Number:
			err = strconv.ErrSyntax
		}
		switch {
		case err != nil:
			return "", fmt.Errorf("%s must be a number of seconds, not %s", part.column, v.Raw)
		case !(number > 0 && number <= maxSeconds):
			return "", fmt.Errorf("%s must be more than 0 and at most %.0f seconds, not %s", part.column, maxSeconds, v.Raw)
		}
		fmt.Fprintf(&b, "\n[%s]\ntimeout_sec = %s\n", part.table, tomlNumber(number))
	}
	if image := gjson.GetBytes(row, "docker_image"); image.Type == gjson.String && image.String() != "" {
		fmt.Fprintf(&b, "\n[environment]\ndocker_image = %s\n", tomlText(image.String()))
	}
	return b.String(), nil
}
