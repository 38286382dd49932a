package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/hermes-env/hermes-env/env"
)

// Bounds of the runs that get their report without being asked.
const (
	autoReportRollouts = 5000
	autoReportBytes    = 256 << 20
)

// report writes the HTML report of a run that is over into its directory, or says how
// to have it written.
func (j *job) report(dir string, s *env.Summary, runErr error) {
	command := j.typed("report " + shellWord(dir))
	switch when := j.cfg.Env.Report; {
	case when == "never" || s.Rollouts == 0:
		return
	case when == "auto" && runErr != nil:
		j.out.Note("a report of what there is: " + command)
		return
	case when == "auto" && (s.Rollouts > autoReportRollouts || sizeOf(filepath.Join(dir, "rollouts.jsonl")) > autoReportBytes):
		j.out.Note("the run is too large for a report of its own accord: " + command)
		return
	}
	app := *j.app
	app.Stdout, app.Stderr = io.Discard, io.Discard // the summary has said it all
	quiet := *j.session
	quiet.app = &app
	c := reportCommand{Directory: dir, Transcripts: 1000, Size: 40}
	if err := c.Run(&quiet); err != nil {
		j.out.Warn(fmt.Sprintf("no report was written: %v (try again with: %s)", err, command))
		return
	}
	j.out.Note("report: " + filepath.Join(dir, "report.html"))
}

// offer tells of what there is beside the results: figures to upload, "" for none, and
// a report.
func (j *job) offer(dir, uploading string, s *env.Summary, runErr error) {
	if uploading != "" {
		j.out.Note(uploading)
	}
	j.report(dir, s, runErr)
}

func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}
