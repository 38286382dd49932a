package terminalbench

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/toolcontext"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/trajectories"
)

var (
	_ env.Restorer       = (*Environment)(nil)
	_ env.RunDirUser     = (*Environment)(nil)
	_ env.RestoreDirUser = (*Environment)(nil)
)

// storedDiff says where what a rollout changed is kept. A file in that place is a
// tar archive compressed with zstd: first changesEntry, a JSON list of all changes,
// then the content of those that have some.
type storedDiff struct {
	File    string `json:"file,omitempty"`   // below the directory of its run
	Digest  string `json:"digest,omitempty"` // of the archive before compression
	Bytes   int64  `json:"bytes,omitempty"`  // of the archive before compression
	Changes int    `json:"changes"`
	Skipped string `json:"skipped,omitempty"` // why there is no file
}

// diffsDir is the folder of a run directory with what its rollouts changed.
const diffsDir = "diffs"

// changesEntry is the first entry of a stored diff; no path of a sandbox has that name.
const changesEntry = ".hermes-env-changes.json"

// maxChangesBytes bounds that entry when it is read.
const maxChangesBytes = 256 << 20

// UseRunDir says where diffs are kept.
func (e *Environment) UseRunDir(dir string) {
	e.runDir = dir
	// What a killed process was writing is of no use.
	torn, _ := filepath.Glob(filepath.Join(dir, diffsDir, ".new-*")) // fails only for a bad pattern
	for _, name := range torn {
		_ = os.Remove(name)
	}
}

// errTooLarge says that a diff is over its bound.
var errTooLarge = errors.New("too large")

// bounded passes on what is written until there is too much of it.
type bounded struct {
	w    io.Writer
	n    int64
	most int64
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.n += int64(len(p)); b.n > b.most {
		return 0, errTooLarge
	}
	return b.w.Write(p)
}

// keepDiff stores what the agent changed beside the records, under the name of its
// content, so that equal results are stored once.
func (v *verification) keepDiff(ctx context.Context, from sandbox.Changer) error {
	if !v.e.own.KeepSandboxDiff || v.e.runDir == "" {
		return nil
	}
	v.report.Diff = &storedDiff{Changes: len(v.changes)}
	switch {
	case v.task.staged:
		v.report.Diff.Skipped = "the task has steps, which can't be scored again one by one"
		return nil
	case v.keptServices():
		v.report.Diff.Skipped = "running processes are part of the task's result"
		return nil
	}
	apart, err := v.volumes(ctx)
	if err != nil {
		return err
	}
	if apart != "" {
		v.report.Diff.Skipped = "the image keeps " + apart + " in a volume, which is not among the changes"
		return nil
	}
	dir := filepath.Join(v.e.runDir, diffsDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return failure("store", "make the folder for what rollouts change: %w", err)
	}
	f, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return failure("store", "store what the rollout changed: %w", err)
	}
	defer func() { _ = os.Remove(f.Name()) }() // renamed when all went well
	defer f.Close()
	err = v.writeDiff(ctx, from, f)
	switch {
	case errors.Is(err, errTooLarge):
		v.report.Diff.Skipped = fmt.Sprintf("the changes have more than %d MiB (env.max_sandbox_diff_mb)", v.e.own.MaxDiffMB)
		return nil
	case toolcontext.IsInfrastructure(err):
		return err
	case err != nil:
		return failure("store", "store what the rollout changed in %s: %w; free space or set env.keep_sandbox_diff to false", dir, err)
	}
	name := strings.TrimPrefix(v.report.Diff.Digest, "sha256:") + ".tar.zst"
	if err := os.Rename(f.Name(), filepath.Join(dir, name)); err != nil {
		return failure("store", "store what the rollout changed: %w", err)
	}
	v.report.Diff.File = diffsDir + "/" + name
	return nil
}

func (v *verification) writeDiff(ctx context.Context, from sandbox.Changer, f *os.File) error {
	packed, err := zstd.NewWriter(f, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	defer packed.Close()
	sum := sha256.New()
	out := &bounded{w: io.MultiWriter(packed, sum), most: v.e.own.MaxDiffMB << 20}
	list, err := chat.Marshal(v.changes)
	if err != nil {
		return err
	}
	// One archive of two: the list goes before what the sandbox writes.
	head := tar.NewWriter(out)
	if err := head.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: changesEntry, Mode: 0o644, Size: int64(len(list))}); err != nil {
		return err
	}
	if _, err := head.Write(list); err != nil {
		return err
	}
	if err := head.Flush(); err != nil {
		return err
	}
	if err := from.Export(ctx, v.changes, out); err != nil {
		if errors.Is(err, errTooLarge) {
			return errTooLarge
		}
		return infra("read what the agent changed", err)
	}
	if err := packed.Close(); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	v.report.Diff.Digest = "sha256:" + hex.EncodeToString(sum.Sum(nil))
	v.report.Diff.Bytes = out.n
	return nil
}

// diffOf returns what a record says of its stored diff.
func diffOf(rec *trajectories.Rollout) storedDiff {
	var d storedDiff
	found := gjson.GetBytes(rec.Metadata, "verifier.sandbox_diff")
	if found.IsObject() {
		_ = json.Unmarshal([]byte(found.Raw), &d) // what is not as expected counts as missing
	}
	return d
}

func (v *verification) keptServices() bool {
	kept, _ := v.tc.Services()
	return len(kept) > 0
}

// Restorable says why a record can't be scored again.
func (e *Environment) Restorable(item env.Item, rec *trajectories.Rollout) error {
	t := item.Value.(*task)
	d := diffOf(rec)
	switch {
	case t.staged:
		return errors.New("the task has steps, which can't be scored again one by one")
	case gjson.GetBytes(rec.Metadata, "verifier.kept_processes").Exists():
		return errors.New("running processes are part of the task's result")
	case d.Skipped != "":
		return errors.New(d.Skipped)
	case d.File == "":
		return errors.New("the run kept nothing of what it changed (env.keep_sandbox_diff)")
	case !filepath.IsLocal(d.File):
		return fmt.Errorf("the file %q with what it changed lies outside of its run", d.File)
	}
	if _, err := os.Stat(filepath.Join(e.restoreDir, d.File)); err != nil {
		return fmt.Errorf("what it changed is gone: %w", err)
	}
	return nil
}

// RestoreFrom says in which run directory Restore finds diffs.
func (e *Environment) RestoreFrom(dir string) { e.restoreDir = dir }

// Restore makes a fresh sandbox's files those that a recorded agent left.
func (e *Environment) Restore(ctx context.Context, item env.Item, rec *trajectories.Rollout, tc *toolcontext.Context) error {
	d := diffOf(rec)
	box, err := tc.Sandbox(ctx)
	if err != nil {
		return err
	}
	f, err := os.Open(filepath.Join(e.restoreDir, d.File))
	if err != nil {
		return fmt.Errorf("open what rollout %s changed: %w", rec.ID, err)
	}
	defer f.Close()
	unpacked, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
	if err != nil {
		return fmt.Errorf("read %s: %w", d.File, err)
	}
	defer unpacked.Close()
	sum := sha256.New()
	content := io.TeeReader(unpacked, sum)
	changes, rest, err := readChanges(content)
	if err != nil {
		return fmt.Errorf("read %s: %w", d.File, err)
	}
	if err := applyChanges(ctx, box, changes, rest); err != nil {
		return infra("restore what the agent had changed", err)
	}
	if _, err := io.Copy(io.Discard, content); err != nil {
		return fmt.Errorf("read %s: %w", d.File, err)
	}
	if got := "sha256:" + hex.EncodeToString(sum.Sum(nil)); got != d.Digest {
		return fmt.Errorf("%s was changed since it was stored: its digest is %s, recorded is %s", d.File, got, d.Digest)
	}
	return nil
}

// readChanges reads the list at the beginning of a stored diff and returns what
// follows it.
func readChanges(r io.Reader) ([]sandbox.Change, io.Reader, error) {
	archive := tar.NewReader(r)
	h, err := archive.Next()
	if err != nil {
		return nil, nil, err
	}
	if h.Name != changesEntry || h.Typeflag != tar.TypeReg || h.Size > maxChangesBytes {
		return nil, nil, fmt.Errorf("it does not begin with %s", changesEntry)
	}
	text, err := io.ReadAll(archive)
	if err != nil {
		return nil, nil, err
	}
	var changes []sandbox.Change
	if err := json.Unmarshal(text, &changes); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", changesEntry, err)
	}
	// The archive goes on at the next block.
	if pad := (512 - h.Size%512) % 512; pad > 0 {
		if _, err := io.CopyN(io.Discard, r, pad); err != nil {
			return nil, nil, err
		}
	}
	return changes, r, nil
}
