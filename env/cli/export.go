package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/trajectories"
	"github.com/hermes-env/hermes-env/trajectories/atif"
	"github.com/hermes-env/hermes-env/trajectories/harbor"
	"github.com/hermes-env/hermes-env/trajectories/report"
)

type exportCommand struct {
	Harbor exportHarborCommand `cmd:"" help:"Write a run as a Harbor job: a directory per trial with its result, ATIF trajectory and verifier output."`
	ATIF   exportATIFCommand   `cmd:"" name:"atif" help:"Write the trajectories of a run as ATIF 1.7, a JSON file per rollout."`
	Check  exportCheckCommand  `cmd:"" help:"Check ATIF trajectories, of any version 1.x and by anyone."`
}

type exportHarborCommand struct {
	Directory string `arg:"" name:"run" help:"Run directory."`
	Out       string `name:"out" short:"o" placeholder:"DIR" help:"Directory for the job's directory [jobs]."`
	JobName   string `name:"job-name" placeholder:"NAME" help:"Name of the job [the time the run started]."`
	Dataset   string `name:"dataset" placeholder:"NAME" help:"Name of the dataset in the results [the run's]."`

	AgentName string `name:"agent-name" default:"hermes-env" help:"Name of the agent in the results."`
	Provider  string `name:"model-provider" placeholder:"NAME" help:"Who serves the model, for example openrouter."`

	Leaderboard  bool   `name:"leaderboard" help:"Write a Terminal-Bench 2.0 leaderboard entry around the job and say what would be rejected; exit code 1 if anything would."`
	AgentURL     string `name:"agent-url" placeholder:"URL" help:"Leaderboard: where the agent is described."`
	AgentDisplay string `name:"agent-display-name" placeholder:"NAME" help:"Leaderboard: the agent as it is shown."`
	AgentOrg     string `name:"agent-org" placeholder:"NAME" help:"Leaderboard: whose agent it is."`
	ModelDisplay string `name:"model-display-name" placeholder:"NAME" help:"Leaderboard: the model as it is shown."`
	ModelOrg     string `name:"model-org" placeholder:"NAME" help:"Leaderboard: whose model it is."`
	priceFlags
}

// Run exports a run as a Harbor job.
func (c *exportHarborCommand) Run(s *session) error {
	if err := c.check(); err != nil {
		return fail(ExitUsage, err)
	}
	run, err := openStored(c.Directory)
	if err != nil {
		return err
	}
	model := run.config.Get("openai.0.model_name").String()
	out := c.Out
	if out == "" {
		out = "jobs"
	}
	if c.Leaderboard {
		if c.Out == "" {
			out = "."
		}
		out = harbor.SubmissionDir(out, c.AgentName, model)
	}
	agent := c.AgentName
	if run.agent() != "model" {
		agent = run.agent()
	}
	job, err := harbor.Export(s.ctx, run, harbor.Config{
		Dir: out, JobName: c.JobName, AgentName: agent, AgentVersion: Version(), Provider: c.Provider, Dataset: c.Dataset, PassAtK: env.PassAtK, Cost: c.perRollout(),
	})
	if err != nil {
		return fail(ExitUsage, err)
	}
	fmt.Fprintf(s.app.Stdout, "%s: %d trials of %d tasks\n", job.Dir, job.Trials, len(job.Tasks))
	s.printLosses(job.Losses)
	if !c.Leaderboard {
		return nil
	}
	entry := &harbor.Submission{AgentURL: c.AgentURL, AgentDisplayName: c.AgentDisplay, AgentOrgDisplayName: c.AgentOrg,
		Models: []harbor.SubmissionModel{{Name: model, Provider: c.Provider, DisplayName: c.ModelDisplay, OrgDisplayName: c.ModelOrg}}}
	if err := entry.Write(out); err != nil {
		return fail(ExitStore, err)
	}
	fmt.Fprintf(s.app.Stdout, "%s\n", filepath.Join(out, "metadata.yaml"))
	problems := harbor.Rejections(run.manifest, job, entry)
	for _, p := range problems {
		fmt.Fprintf(s.app.Stdout, "would be rejected: %s\n", p)
	}
	if len(problems) > 0 {
		return fail(ExitBelow, fmt.Errorf("the leaderboard would reject this entry for %d reasons", len(problems)))
	}
	return nil
}

// perRollout returns what the agent of a rollout cost at the prices given, or else as it
// was recorded; nil where that is not known.
func (p *priceFlags) perRollout() func(*trajectories.Rollout) *float64 {
	if p.PromptPrice == 0 && p.CompletionPrice == 0 {
		return func(r *trajectories.Rollout) *float64 {
			if r.Spend == nil {
				return nil
			}
			return r.Spend.Agent.USD
		}
	}
	cached := p.CachedPrice
	if cached == 0 {
		cached = p.PromptPrice
	}
	return func(r *trajectories.Rollout) *float64 {
		u := r.Usage
		usd := (float64(u.PromptTokens-u.CachedTokens)*p.PromptPrice + float64(u.CachedTokens)*cached + float64(u.CompletionTokens)*p.CompletionPrice) / 1e6
		return &usd
	}
}

func (s *session) printLosses(losses []atif.Loss) {
	for _, l := range losses {
		fmt.Fprintf(s.app.Stderr, "lost: %d %s\n", l.Count, report.OneLine(l.What, 120))
	}
}

type exportATIFCommand struct {
	Directory string `arg:"" name:"run" help:"Run directory."`
	Out       string `name:"out" short:"o" required:"" placeholder:"DIR" help:"Directory to write, new or empty."`
	priceFlags
}

// Run writes the trajectories of a run as ATIF documents.
func (c *exportATIFCommand) Run(s *session) error {
	if err := c.check(); err != nil {
		return fail(ExitUsage, err)
	}
	run, err := openStored(c.Directory)
	if err != nil {
		return err
	}
	if err := newDirectory(c.Out); err != nil {
		return fail(ExitUsage, err)
	}
	price := c.perRollout()
	lost, written := map[string]int{}, 0
	err = run.Each(func(r *trajectories.Rollout) error {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		settings := atif.Config{AgentVersion: Version(), ToolDefinitions: run.manifest.Tools}
		if price != nil {
			settings.CostUSD = price(r)
		}
		name := safeName(r.ID)
		settings.SaveImage = func(image, _ string, data []byte) (string, error) {
			path := filepath.Join(name+"_images", image)
			if err := os.MkdirAll(filepath.Join(c.Out, filepath.Dir(path)), 0o755); err != nil {
				return "", err
			}
			return filepath.ToSlash(path), os.WriteFile(filepath.Join(c.Out, path), data, 0o644)
		}
		doc, losses, err := atif.FromRollout(r, settings)
		if err != nil {
			return err
		}
		for _, l := range losses {
			lost[l.What] += l.Count
		}
		raw, err := doc.JSON()
		if err != nil {
			return err
		}
		written++
		return os.WriteFile(filepath.Join(c.Out, name+".json"), raw, 0o644)
	})
	if err != nil {
		return fail(ExitStore, err)
	}
	fmt.Fprintf(s.app.Stdout, "%s: %d trajectories\n", c.Out, written)
	for what, n := range lost {
		s.printLosses([]atif.Loss{{What: what, Count: n}})
	}
	return nil
}

// newDirectory makes a directory, or takes one that is empty.
func newDirectory(path string) error {
	entries, err := os.ReadDir(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return os.MkdirAll(path, 0o755)
	case err != nil:
		return fmt.Errorf("write to %s: %w", path, err)
	case len(entries) > 0:
		return fmt.Errorf("write to %s: it is not empty; give a new directory", path)
	}
	return nil
}

// safeName reduces an id to what is safe as the name of a file.
func safeName(id string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '-'
	}, id)
	return name[:min(len(name), 100)]
}

type exportCheckCommand struct {
	Files  []string `arg:"" name:"file" help:"ATIF documents, or directories in which every trajectory.json, and every other .json file that says it is ATIF, is checked."`
	Strict bool     `name:"strict" help:"Report members the format does not have, as Harbor's own models do."`
}

// maxDocument bounds one document read by check.
const maxDocument = 1 << 30

// Run checks ATIF documents.
func (c *exportCheckCommand) Run(s *session) error {
	var files []string
	for _, path := range c.Files {
		info, err := os.Stat(path)
		if err != nil {
			return fail(ExitUsage, err)
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		err = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(p) != ".json" {
				return err
			}
			found := d.Name() == "trajectory.json"
			if !found {
				if found, err = namesATIF(p); err != nil {
					return err
				}
			}
			if found {
				files = append(files, p)
			}
			return nil
		})
		if err != nil {
			return fail(ExitUsage, err)
		}
	}
	if len(files) == 0 {
		return fail(ExitUsage, errors.New("there is no trajectory.json and no other document of ATIF in the given directories; name the files"))
	}
	bad := 0
	for _, path := range files {
		problems, err := checkATIF(path, c.Strict)
		if err != nil {
			return fail(ExitUsage, err)
		}
		if len(problems) > 0 {
			bad++
		}
		for _, p := range problems {
			fmt.Fprintf(s.app.Stdout, "%s: %s\n", path, report.OneLine(p.String(), 300))
		}
	}
	fmt.Fprintf(s.app.Stdout, "%d of %d documents are valid\n", len(files)-bad, len(files))
	if bad > 0 {
		return fail(ExitProblems, fmt.Errorf("%d documents are not valid ATIF", bad))
	}
	return nil
}

// namesATIF says whether a JSON file names the format near its beginning.
func namesATIF(path string) (named bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	head, err := io.ReadAll(io.LimitReader(f, 4<<10))
	return bytes.Contains(head, []byte(`"ATIF-v`)), err
}

func checkATIF(path string, strict bool) (problems []atif.Problem, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	raw, err := io.ReadAll(io.LimitReader(f, maxDocument+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if len(raw) > maxDocument {
		return nil, fmt.Errorf("%s is larger than %d MiB", path, maxDocument>>20)
	}
	return atif.Validate(raw, atif.Options{Strict: strict}), nil
}
