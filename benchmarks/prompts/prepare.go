package prompts

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/toolcontext"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// preparing is an Environment whose sandboxes get something before the agent starts.
type preparing struct{ *Environment }

// Prepare puts the files into the sandbox and runs the scripts.
func (p *preparing) Prepare(ctx context.Context, it env.Item, tc *toolcontext.Context) error {
	box, err := tc.Sandbox(ctx)
	if err != nil {
		return err
	}
	data := it.Value.(row).data
	if err := upload(ctx, box, p.files, true); err != nil {
		return err
	}
	if p.own.FilesField != "" {
		files, err := rowFiles(data, p.own.FilesField, p.own.FilesRoot)
		if err != nil {
			return err
		}
		if err := upload(ctx, box, files, false); err != nil {
			return err
		}
	}
	scripts := []string{p.own.SetupCommand, ""}
	if scripts[1], err = p.setupScript(data); err != nil {
		return err
	}
	for i, script := range scripts {
		if strings.TrimSpace(script) == "" {
			continue
		}
		name := []string{"setup_command", "setup_command_field"}[i]
		r, err := box.Exec(ctx, sandbox.Command{Script: script, Timeout: p.own.SetupTimeout.Duration(), Merge: true, MaxOutput: 8000})
		switch {
		case err != nil:
			return fmt.Errorf("run %s: %w", name, err)
		case r.Cancelled:
			return context.Cause(ctx)
		case r.TimedOut:
			return fmt.Errorf("%s did not end within %s", name, p.own.SetupTimeout.Duration())
		case r.ExitCode != 0:
			return fmt.Errorf("%s ended with exit code %d: %s", name, r.ExitCode, strings.TrimSpace(r.Stdout.String()))
		}
	}
	return nil
}

func (e *Environment) setupScript(data []byte) (string, error) {
	text, err := optional(data, e.own.SetupCommandField)
	if err != nil {
		return "", fmt.Errorf("setup_command_field: %w", err)
	}
	return text, nil
}

// upload puts files into a sandbox. On this machine only trusted files may go to absolute paths: others could replace the
// user's own.
func upload(ctx context.Context, box sandbox.Sandbox, files []setupFile, trusted bool) error {
	info := box.Info()
	isolated := info.Backend != "local" && info.Backend != "ssh"
	for _, f := range files {
		if strings.HasPrefix(f.path, "/") && !trusted && !isolated {
			return fmt.Errorf("files_field: the row wants to write %s, which is outside its sandbox with terminal_backend %s; use a relative path or one below ~/", f.path, info.Backend)
		}
	}
	packed, err := archives(files)
	if err != nil {
		return err
	}
	for _, base := range slices.Sorted(maps.Keys(packed)) {
		dir := base
		switch {
		case base == "" || base == ".":
			dir = info.Dir
		case base == "~" || strings.HasPrefix(base, "~/"):
			dir = path.Join(info.Home, strings.TrimPrefix(base, "~"))
		case !strings.HasPrefix(base, "/"):
			dir = path.Join(info.Dir, base)
		}
		if err := box.Upload(ctx, packed[base], dir); err != nil {
			return fmt.Errorf("put files into %s: %w", dir, err)
		}
	}
	return nil
}
