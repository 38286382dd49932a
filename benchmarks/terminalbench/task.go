package terminalbench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/env/dataset/harbor"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// task is one task as it is run.
type task struct {
	name, category, difficulty string
	digest                     string
	broken                     error // why it can't be run
	config                     harbor.Config
	dir                        string // its folder: environment/, tests/, solution/
	environmentDir             string // what the image is built from, "" where there is nothing
	compose                    bool
	parts                      []part // one, or one for each step
	staged                     bool   // the task has steps
	solved                     bool   // there is a reference solution
	env                        map[string]string
	solutionEnv                map[string]string
	notes                      []harbor.Problem // what of its files is ignored or unusual
}

// part is a task, or a step of one: what the agent is told and how that is scored.
type part struct {
	name                       string
	instruction                string
	tests                      string // folder that goes to /tests
	sharedTests                string // folder that goes there first; "" for none
	solution                   string // folder that goes to /solution
	workdir                    string // folder that is merged into the working directory; "" for none
	setup                      bool   // its setup.sh is run then
	agentTimeout               time.Duration
	verifierTimeout            time.Duration
	agentUser, verifierUser    string
	agentNetwork, testsNetwork harbor.NetworkMode
	agentHosts, testsHosts     []string
	verifierEnv                map[string]string
	minReward                  map[string]float64
	healthcheck                *harbor.Healthcheck
	keep                       string   // which of the agent's processes the tests find: keepAll, keepServices or keepNone
	secrets                    []string // names of the tests' variables that hold secrets
	last                       bool
	artifacts                  []harbor.Artifact // of the step, beside the task's
}

// stops says whether a reward is too low for the steps that follow.
func (p part) stops(r reward) bool {
	for name, least := range p.minReward {
		value, ok := r.parts[name]
		if !ok && name == "reward" {
			value, ok = r.value, true
		}
		if !ok || value < least { // one that the tests did not give falls short, as in Harbor
			return true
		}
	}
	return false
}

// newTask turns a Harbor task into one that can be run; lookup finds the variables
// that its templates name.
func (e *Environment) newTask(h *harbor.Task) (*task, error) {
	c := h.Config
	t := &task{
		name: h.Name, category: c.Metadata.Category, difficulty: c.Metadata.Difficulty, digest: h.Digest,
		config: c, dir: h.Dir, compose: h.HasCompose, solved: h.HasSolution, staged: len(h.Steps) > 0, notes: h.Notes,
	}
	if t.category == "" {
		t.category = "unknown"
	}
	if h.HasDockerfile {
		t.environmentDir = h.EnvironmentDir()
	}
	var errs []error
	expand := func(values map[string]string) map[string]string {
		out, err := harbor.Expand(values, e.lookup())
		if err != nil {
			errs = append(errs, err)
		}
		return out
	}
	t.env, t.solutionEnv = expand(c.Environment.Env), c.SolutionEnv
	if !t.staged {
		p := e.newPart(c.Agent, c.Verifier, expand)
		p.instruction, p.tests, p.solution, p.keep, p.last = h.Instruction, h.TestsDir(), h.SolutionDir(), e.keeps(c, p), true
		t.parts = []part{p}
	}
	for i, s := range h.Steps {
		p := e.newPart(s.Agent, s.Verifier, expand)
		p.name, p.instruction, p.keep, p.last = s.Name, s.Instruction, e.keeps(c, p), i == len(h.Steps)-1
		if dir := h.TestsDir(); isDir(dir) { // the steps may have tests of their own only
			p.sharedTests = dir
		}
		p.solution = filepath.Join(s.Dir, "solution")
		if s.HasTests {
			p.tests = filepath.Join(s.Dir, "tests")
		}
		if s.HasWorkdir {
			p.workdir, p.setup = filepath.Join(s.Dir, "workdir"), s.HasSetup
		}
		p.minReward, p.healthcheck, p.artifacts = s.MinReward, s.Healthcheck, s.Artifacts
		t.parts = append(t.parts, p)
	}
	if err := errors.Join(append(errs, t.unsupported())...); err != nil {
		return nil, fmt.Errorf("task %s: %w", t.name, err)
	}
	return t, nil
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// keeps says which of the agent's processes the tests of a part find.
func (e *Environment) keeps(c harbor.Config, p part) string {
	switch {
	case e.verifiesIn(c) != verifySame:
		return keepNone // none can survive
	case len(p.secrets) > 0:
		return keepNone // they could read the tests' variables
	case c.Metadata.KeepProcesses != "" && c.Metadata.KeepProcesses != keepAuto:
		return c.Metadata.KeepProcesses
	case e.own.KeepProcesses != keepAuto && e.own.KeepProcesses != "":
		return e.own.KeepProcesses
	}
	return keepAll
}

// verifiesIn says where the tests of a task run.
func (e *Environment) verifiesIn(c harbor.Config) string {
	switch {
	case c.Metadata.VerifyIn != "":
		return c.Metadata.VerifyIn
	case e.own.VerifyIn == verifyFresh || e.own.VerifyIn == verifyClean:
		return e.own.VerifyIn
	}
	return verifySame
}

// isolates says whether the tests of a task are kept apart from the agent's code.
func (e *Environment) isolates(c harbor.Config) bool {
	if c.Metadata.IsolateTests != nil {
		return *c.Metadata.IsolateTests
	}
	return e.own.IsolateTests
}

// secretName matches names of variables that hold secrets.
var secretName = regexp.MustCompile(`(?i)KEY|SECRET|TOKEN|PASSWORD|PASSWD|CREDENTIAL|AUTH`)

// secretNames returns the variables of the tests that hold secrets: those with a value
// from the harness's environment, and those named like one.
func secretNames(variables map[string]string) []string {
	var names []string
	for name, value := range variables {
		if strings.Contains(value, "${") || secretName.MatchString(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (e *Environment) newPart(agent harbor.Agent, verifier harbor.Verifier, expand func(map[string]string) map[string]string) part {
	p := part{
		agentTimeout: agent.Timeout, verifierTimeout: verifier.Timeout, agentUser: agent.User, verifierUser: verifier.User,
		agentNetwork: agent.NetworkMode, agentHosts: agent.AllowedHosts, testsNetwork: verifier.NetworkMode, testsHosts: verifier.AllowedHosts,
		verifierEnv: expand(verifier.Env), secrets: secretNames(verifier.Env),
	}
	if p.agentTimeout == 0 {
		p.agentTimeout = e.own.TaskTimeout.Duration()
	}
	if p.verifierTimeout == 0 {
		p.verifierTimeout = e.own.TestTimeout.Duration()
	}
	p.agentTimeout = scaled(p.agentTimeout, e.own.AgentTimeoutFactor)
	p.verifierTimeout = scaled(p.verifierTimeout, e.own.VerifierTimeoutFactor)
	if e.own.TimeoutMode == timeoutFixed {
		p.agentTimeout = e.own.TaskTimeout.Duration()
	}
	return p
}

// unsupported says what a task wants that can't be had here.
func (t *task) unsupported() error {
	c := t.config.Environment
	var wants []string
	if c.OS != "" && c.OS != "linux" {
		wants = append(wants, "the system "+c.OS)
	}
	if c.GPUs > 0 {
		wants = append(wants, fmt.Sprintf("%d GPUs", c.GPUs))
	}
	if c.TPU != nil {
		wants = append(wants, "a TPU")
	}
	if len(c.MCPServers) > 0 {
		wants = append(wants, "tool servers (mcp_servers)")
	}
	if t.config.Verifier.Separate {
		wants = append(wants, `a verifier with an image of its own (environment_mode "separate")`)
	}
	if len(wants) == 0 {
		return nil
	}
	return fmt.Errorf("it wants %s, which is not supported: leave it out with env.skip_tasks", strings.Join(wants, " and "))
}

// workdir is the directory of the agent's and the tests' commands: the image's
// unless the task names one.
func (t *task) workdir() string { return t.config.Environment.Workdir }

// sandboxSpec is the sandbox a task's rollout gets.
func (e *Environment) sandboxSpec(t *task) sandbox.Spec {
	c := t.config.Environment
	s := sandbox.Spec{
		Dir: c.Workdir, Env: t.env, User: t.parts[0].agentUser,
		CPUs: c.CPUs, MemoryBytes: c.MemoryMB << 20, DiskBytes: c.StorageMB << 20,
	}
	switch {
	case t.compose:
		s.Compose = &sandbox.Compose{File: filepath.Join(t.dir, "environment"), Service: "main"}
		s.Image = c.DockerImage
		if t.environmentDir != "" && (s.Image == "" || e.own.ForceBuild) {
			s.Image, s.Build = "", t.environmentDir
		}
	case t.environmentDir != "" && (e.own.ForceBuild || c.DockerImage == ""):
		s.Build = t.environmentDir
	default:
		s.Image = c.DockerImage
	}
	if s.Image != "" && t.environmentDir != "" {
		s.ImageHint = "the task also has a Dockerfile: env.force_build builds the image from it (the results are then not comparable with published ones)"
	}
	if s.Build != "" {
		s.BuildOptions = sandbox.BuildOptions{Timeout: c.BuildTimeout, Force: e.own.ForceBuild}
	}
	mode, hosts := t.parts[0].agentNetwork, t.parts[0].agentHosts
	if mode == "" {
		mode, hosts = c.NetworkMode, c.AllowedHosts
	}
	s.Network, s.AllowedHosts = networkOf(mode, hosts)
	switch e.own.Network {
	case "none":
		s.Network, s.AllowedHosts = sandbox.NetworkNone, nil
	case "public":
		s.Network, s.AllowedHosts = sandbox.NetworkBridge, nil
	}
	if e.own.CPUs > 0 {
		s.CPUs = e.own.CPUs
	}
	if e.own.MemoryMB > 0 {
		s.MemoryBytes = e.own.MemoryMB << 20
	}
	if e.own.StorageMB > 0 {
		s.DiskBytes = e.own.StorageMB << 20
	}
	s.Healthcheck = healthcheckOf(c.Healthcheck)
	return s
}

func healthcheckOf(h *harbor.Healthcheck) *sandbox.Healthcheck {
	if h == nil || h.Command == "" {
		return nil
	}
	return &sandbox.Healthcheck{
		Script: h.Command, Interval: h.Interval, Timeout: h.Timeout, Retries: h.Retries,
		StartPeriod: h.StartPeriod, StartInterval: h.StartInterval,
	}
}

func networkOf(mode harbor.NetworkMode, hosts []string) (sandbox.Network, []string) {
	switch mode {
	case harbor.NoNetwork:
		return sandbox.NetworkNone, nil
	case harbor.Allowlist:
		return sandbox.NetworkAllowlist, hosts
	}
	return sandbox.NetworkBridge, nil
}

// verifierNetwork is what the tests of a part can reach: what the task says of its
// verifier, else what the agent could.
func (t *task) verifierNetwork(p part, network sandbox.Network, hosts []string) (sandbox.Network, []string) {
	if p.testsNetwork == "" {
		return network, hosts
	}
	return networkOf(p.testsNetwork, p.testsHosts)
}

// description is what every record of the task says of it.
func (t *task) description() ([]byte, error) {
	return chat.Marshal(struct {
		Name       string   `json:"task_name"`
		Category   string   `json:"category"`
		Difficulty string   `json:"difficulty,omitempty"`
		Tags       []string `json:"tags,omitempty"`
		Agent      float64  `json:"agent_timeout_sec"`
		Verifier   float64  `json:"verifier_timeout_sec"`
	}{t.name, t.category, t.difficulty, t.config.Metadata.Tags, t.parts[0].agentTimeout.Seconds(), t.parts[0].verifierTimeout.Seconds()})
}
