package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/trajectories"
	"github.com/hermes-env/hermes-env/trajectories/convert"
	"github.com/hermes-env/hermes-env/trajectories/report"
	"github.com/hermes-env/hermes-env/trajectories/stats"
)

type statsCommand struct {
	Source string `arg:"" name:"run-or-file" help:"Run directory, or a JSONL file of rollouts, ShareGPT rows or rows with messages (.gz and .zst too)."`
	HTML   string `name:"html" placeholder:"FILE" help:"Write a self-contained page as well; - for standard output."`
	JSON   bool   `name:"json" help:"Print JSON instead of the page for the terminal."`
	Top    int    `name:"top" default:"10" help:"How many slow, expensive and tampered rollouts to name."`
	tamperedFlag
	priceFlags
}

// Run describes a run or a file.
func (c *statsCommand) Run(s *session) error {
	if c.Top < 1 || c.Top > 1000 {
		return fail(ExitUsage, fmt.Errorf("--top is %d: want 1 to 1000", c.Top))
	}
	if err := c.check(); err != nil {
		return fail(ExitUsage, err)
	}
	files, subtitle, tools, err := c.input()
	if err != nil {
		return fail(ExitUsage, err)
	}
	settings := c.config()
	settings.Top, settings.KnownTools = c.Top, tools
	if settings.Tampered, err = c.filter(); err != nil {
		return fail(ExitUsage, err)
	}
	collector := stats.New(settings)
	for _, file := range files {
		if err := collector.File(s.ctx, file); err != nil {
			return fail(ExitUsage, err)
		}
	}
	result := collector.Result()
	result.Source = c.Source
	if run, err := trajectories.OpenReadOnly(c.Source); err == nil {
		if err := describeGroups(result, run); err != nil {
			return fail(ExitUsage, err)
		}
	}
	if result.Rows == 0 {
		problem := "it has no rows"
		if result.Skipped > 0 {
			problem = fmt.Sprintf("none of its %s is taken by --tampered %s", count(result.Skipped, "row"), settings.Tampered)
		}
		if len(result.Problems) > 0 {
			problem = fmt.Sprintf("none of its %d lines could be read; line %d: %s", result.Broken, result.Problems[0].Line, result.Problems[0].Problem)
		}
		if result.Broken > 0 || !c.JSON {
			return fail(ExitUsage, fmt.Errorf("%s: %s", files[0], problem))
		}
	}
	switch {
	case c.JSON:
		line, err := chat.Marshal(result)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(s.app.Stdout, "%s\n", line); err != nil {
			return err
		}
	case c.HTML != "-":
		p := statsPrinter{color: useColor(s.app.Stdout, s.app.Getenv)}
		if _, err := io.WriteString(s.app.Stdout, p.page(c.Source, subtitle, result)); err != nil {
			return err
		}
	}
	if c.HTML == "" {
		return nil
	}
	return s.writeFile(c.HTML, func(w io.Writer) error {
		return report.WriteStatistics(w, c.Source, subtitle, Version(), s.app.now(), result)
	})
}

// input returns the files to read, what they are, and the tools of the run they are of.
func (c *statsCommand) input() (files []string, subtitle string, tools []string, err error) {
	info, err := os.Stat(c.Source)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, "", nil, fmt.Errorf("%s does not exist%s", c.Source, runsNear(c.Source))
		}
		return nil, "", nil, err
	}
	if !info.IsDir() {
		return []string{c.Source}, "", nil, nil
	}
	reader, err := trajectories.OpenReadOnly(c.Source)
	if err == nil {
		run, err := openStored(c.Source)
		if err != nil {
			return nil, "", nil, err
		}
		m := run.manifest
		files, err := trajectories.RecordFiles(reader.Dir())
		return files, strings.Join([]string{m.Environment, m.Command, run.model(), string(m.Status)}, " · "), m.ToolNames, err
	}
	if !errors.Is(err, trajectories.ErrNotRun) {
		return nil, "", nil, err
	}
	for _, name := range []string{"rollouts.jsonl", "trajectories.jsonl", "samples.jsonl"} {
		if path := filepath.Join(c.Source, name); isFile(path) {
			return []string{path}, name, nil, nil
		}
	}
	if files, err = convert.FilesIn(c.Source); err != nil {
		return nil, "", nil, fmt.Errorf("%w%s", err, runsNear(c.Source))
	}
	return files, count(len(files), "file"), nil, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
