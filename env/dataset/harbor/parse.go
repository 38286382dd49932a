package harbor

import (
	"errors"
	"fmt"
	"math"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// Parse reads a task.toml. file is what problems call it. The notes are keys that are
// ignored and spellings that are out of date; the error is an *Error with every problem.
func Parse(file string, data []byte) (*Config, []Problem, error) {
	var doc map[string]any
	// A byte order mark is no part of TOML, but some editors write it.
	text := strings.TrimPrefix(string(data), "\ufeff")
	meta, err := toml.Decode(text, &doc)
	if err != nil {
		p := Problem{File: file, Text: err.Error()}
		var syntax toml.ParseError
		if errors.As(err, &syntax) {
			p.Line, p.Key, p.Text = syntax.Position.Line, syntax.LastKey, strings.TrimSuffix(syntax.Message, ".")
		}
		return nil, nil, &Error{[]Problem{p}}
	}
	r := &reader{file: file, lines: positions(text), given: map[string]bool{}}
	c := r.config(doc)
	c.Metadata.Raw = metadataJSON(doc["metadata"], meta)
	c.given = r.given
	sortProblems(r.problems)
	sortProblems(r.notes)
	if len(r.problems) > 0 {
		return nil, r.notes, &Error{r.problems}
	}
	return c, r.notes, nil
}

func (r *reader) config(doc map[string]any) *Config {
	t := r.newTable("", doc)
	c := &Config{
		SchemaVersion:  t.version(),
		Source:         t.text("source", ""),
		Artifacts:      t.artifacts("artifacts"),
		RewardStrategy: t.oneOf("multi_step_reward_strategy", "mean", "mean", "final"),
		Metadata:       t.metadata(),
		Agent:          t.sub("agent").agent(Agent{}),
		Environment:    t.sub("environment").environment(),
		SolutionEnv:    t.solution(),
	}
	if t.has("task") {
		c.Package = t.sub("task").packageInfo()
	}
	t.used["task"] = true
	c.Verifier = t.sub("verifier").verifier(Verifier{})
	c.Steps = t.steps(c)
	t.done()
	return c
}

// version reads schema_version, or version in older files. It is text, but a bare
// number is meant often enough.
func (t *table) version() string {
	for _, key := range []string{"schema_version", "version"} {
		v, ok := t.take(key)
		switch v := v.(type) {
		case string:
			return v
		case float64:
			t.note(t.name(key), "should be a string")
			return tomlNumber(v)
		case int64:
			t.note(t.name(key), "should be a string")
			return strconv.FormatInt(v, 10)
		}
		if ok {
			t.mustBe(key, "a string", v)
		}
	}
	return DefaultSchemaVersion
}

func (t *table) solution() map[string]string {
	sub := t.sub("solution")
	defer sub.done()
	return sub.variables("env")
}

var packageName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*$`)

func (t *table) packageInfo() *Package {
	p := &Package{
		Name:        t.required("name"),
		Version:     t.text("version", ""),
		Description: t.text("description", ""),
		Keywords:    t.texts("keywords"),
	}
	if p.Name != "" && (!packageName.MatchString(p.Name) || strings.Contains(p.Name, "..")) {
		t.wrong(t.name("name"), "must look like org/name, of letters, digits, '-', '_' and '.', not %q", p.Name)
	}
	for _, a := range t.tables("authors") {
		p.Authors = append(p.Authors, Author{Name: a.required("name"), Email: a.text("email", "")})
		a.done()
	}
	t.done()
	return p
}

// metadata picks what is used of the free-form table; other types are no problem.
func (t *table) metadata() Metadata {
	sub := t.sub("metadata")
	pick := func(key string) string {
		s, _ := sub.values[key].(string)
		return s
	}
	number := func(key string) float64 {
		switch v := sub.values[key].(type) {
		case int64:
			return float64(v)
		case float64:
			if !math.IsNaN(v) && !math.IsInf(v, 0) {
				return v
			}
		}
		return 0
	}
	m := Metadata{
		AuthorName: pick("author_name"), AuthorEmail: pick("author_email"),
		Difficulty: pick("difficulty"), Category: pick("category"),
		ExpertMinutes: number("expert_time_estimate_min"), JuniorMinutes: number("junior_time_estimate_min"),
	}
	if s := number("estimated_duration_sec"); s > 0 && s <= maxSeconds {
		m.EstimatedDuration = time.Duration(s * float64(time.Second))
	}
	switch tags := sub.values["tags"].(type) {
	case string:
		m.Tags = []string{tags}
	case []any:
		for _, tag := range tags {
			if s, ok := tag.(string); ok {
				m.Tags = append(m.Tags, s)
			}
		}
	}
	m.KeepProcesses = sub.keepProcesses()
	m.WorkDirectories = sub.workDirectories()
	if sub.has("verify_in") {
		m.VerifyIn = sub.oneOf("verify_in", "same", "same", "fresh", "clean")
	}
	m.IsolateTests = sub.truth("isolate_tests")
	if readable := sub.truth("tests_readable"); readable != nil {
		m.TestsReadable = *readable
	}
	sub.misspeltKeys()
	return m
}

// keepProcesses reads the key of that name: a word, or a truth value for two of them.
func (t *table) keepProcesses() string {
	const key = "keep_processes"
	v, ok := t.take(key)
	if !ok {
		return ""
	}
	switch v := v.(type) {
	case bool:
		if v {
			return "always"
		}
		return "never"
	case string:
		if v == "auto" || v == "always" || v == "services" || v == "never" {
			return v
		}
	}
	t.mustBe(key, `"auto", "always", "services" or "never"`, v)
	return ""
}

// truth reads a key whose value is true or false; nil if it is not there.
func (t *table) truth(key string) *bool {
	v, ok := t.take(key)
	if !ok {
		return nil
	}
	if b, ok := v.(bool); ok {
		return &b
	}
	t.mustBe(key, "true or false", v)
	return nil
}

// workDirectories reads the key of that name: absolute paths below the root.
func (t *table) workDirectories() []string {
	const key = "work_directories"
	v, ok := t.take(key)
	if !ok {
		return nil
	}
	list, ok := v.([]any)
	var dirs []string
	for _, item := range list {
		dir, text := item.(string)
		if !text || !path.IsAbs(dir) || path.Clean(dir) == "/" {
			ok = false
			break
		}
		dirs = append(dirs, path.Clean(dir))
	}
	if !ok {
		t.mustBe(key, "a list of absolute paths, not the root", v)
		return nil
	}
	return dirs
}

// agent reads [agent], or [steps.agent] over the task's.
func (t *table) agent(base Agent) Agent {
	a := base
	a.Timeout = t.seconds("timeout_sec", base.Timeout, true)
	if user := t.user("user"); user != "" {
		a.User = user
	}
	if mode, hosts := t.network(); mode != "" {
		a.NetworkMode, a.AllowedHosts = mode, hosts
	}
	t.done()
	return a
}

// verifier reads [verifier], or [steps.verifier]: there user, variables, mode and environment
// are the task's unless given, the timeout is the default again, as in Harbor.
func (t *table) verifier(base Verifier) Verifier {
	v := base
	v.Timeout = t.seconds("timeout_sec", DefaultVerifierTimeout, true)
	if t.has("env") {
		v.Env = t.variables("env")
	}
	t.used["env"] = true
	if user := t.user("user"); user != "" {
		v.User = user
	}
	if mode, hosts := t.network(); mode != "" {
		v.NetworkMode, v.AllowedHosts = mode, hosts
	}
	if t.has("environment") {
		environment := t.sub("environment").environment()
		v.Environment, v.Separate = &environment, true
	}
	t.used["environment"] = true
	if t.has("environment_mode") {
		v.Separate = t.oneOf("environment_mode", "shared", "shared", "separate") == "separate"
		if !v.Separate {
			if t.has("environment") {
				t.wrong(t.name("environment"), "needs environment_mode = \"separate\"")
			}
			v.Environment = nil
		}
	}
	t.used["environment_mode"] = true
	if t.has("collect") {
		v.Collect = nil
	}
	for _, c := range t.tables("collect") {
		v.Collect = append(v.Collect, Collect{
			Command: c.required("command"), Service: c.text("service", "main"), User: c.user("user"),
			Timeout: c.seconds("timeout_sec", 600*time.Second, true),
		})
		c.done()
	}
	t.done()
	return v
}

func (t *table) environment() Environment {
	e := Environment{
		BuildTimeout: t.seconds("build_timeout_sec", DefaultBuildTimeout, true),
		DockerImage:  t.text("docker_image", ""),
		CPUs:         t.number("cpus", DefaultCPUs),
		MemoryMB:     t.megabytes("memory_mb", "memory", DefaultMemoryMB),
		StorageMB:    t.megabytes("storage_mb", "storage", DefaultStorageMB),
		GPUs:         int(t.whole("gpus", 0, 0)),
		GPUTypes:     t.texts("gpu_types"),
		Env:          t.variables("env"),
		SkillsDir:    t.text("skills_dir", ""),
		Workdir:      t.text("workdir", ""),
		OS:           t.text("os", "linux"),
	}
	if e.CPUs <= 0 || e.CPUs > 1<<20 {
		t.wrong(t.name("cpus"), "must be more than 0")
	}
	if strings.ContainsAny(e.DockerImage, " \t\r\n") {
		t.wrong(t.name("docker_image"), "is no name of an image: %q", e.DockerImage)
	}
	if e.Workdir != "" && !strings.HasPrefix(e.Workdir, "/") && !strings.EqualFold(e.OS, "windows") {
		t.wrong(t.name("workdir"), "must be an absolute path in the container, not %q", e.Workdir)
	}
	e.NetworkMode, e.AllowedHosts = t.network()
	if allowed := t.boolean("allow_internet", true); e.NetworkMode == "" {
		e.NetworkMode = Public
		if !allowed {
			e.NetworkMode = NoNetwork
		}
	} else if t.has("allow_internet") && allowed != (e.NetworkMode != NoNetwork) {
		t.note(t.name("allow_internet"), "is deprecated and gives way to network_mode = %q", e.NetworkMode)
	}
	if t.has("tpu") {
		tpu := t.sub("tpu")
		e.TPU = &TPU{Type: tpu.text("type", ""), Topology: tpu.text("topology", "")}
		tpu.done()
	}
	t.used["tpu"] = true
	for _, s := range t.tables("mcp_servers") {
		e.MCPServers = append(e.MCPServers, s.mcpServer())
	}
	e.Healthcheck = t.healthcheck("healthcheck")
	t.done()
	return e
}

func (t *table) mcpServer() MCPServer {
	s := MCPServer{
		Name: t.required("name"), Transport: t.oneOf("transport", "sse", "sse", "streamable-http", "stdio"),
		URL: t.text("url", ""), Command: t.text("command", ""), Args: t.texts("args"),
	}
	switch {
	case s.Transport == "stdio" && s.Command == "":
		t.wrong(t.path, "needs a \"command\" for transport \"stdio\"")
	case s.Transport != "stdio" && s.URL == "":
		t.wrong(t.path, "needs a \"url\" for transport %q", s.Transport)
	}
	t.done()
	return s
}

func (t *table) healthcheck(key string) *Healthcheck {
	if !t.has(key) {
		t.used[key] = true
		return nil
	}
	h := t.sub(key)
	defer h.done()
	return &Healthcheck{
		Command:       h.required("command"),
		Interval:      h.seconds("interval_sec", 5*time.Second, false),
		Timeout:       h.seconds("timeout_sec", 30*time.Second, true),
		StartPeriod:   h.seconds("start_period_sec", 0, false),
		StartInterval: h.seconds("start_interval_sec", 5*time.Second, false),
		Retries:       int(h.whole("retries", 3, 1)),
	}
}

// artifacts reads an array of paths or tables.
func (t *table) artifacts(key string) []Artifact {
	v, ok := t.take(key)
	if !ok {
		return nil
	}
	list, ok := v.([]any)
	if tables, isTables := v.([]map[string]any); isTables {
		for _, m := range tables {
			list = append(list, m)
		}
	} else if !ok {
		t.mustBe(key, "an array of paths or tables", v)
		return nil
	}
	var out []Artifact
	for i, e := range list {
		path := fmt.Sprintf("%s[%d]", t.name(key), i)
		switch e := e.(type) {
		case string:
			out = append(out, Artifact{Source: e})
		case map[string]any:
			a := t.newTable(path, e)
			out = append(out, Artifact{
				Source: a.required("source"), Destination: a.text("destination", ""),
				Service: a.text("service", ""), Exclude: a.texts("exclude"),
			})
			a.done()
		default:
			t.wrong(path, "must be a path or a table, not %s", kind(e))
		}
	}
	return out
}

var stepName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

func (t *table) steps(c *Config) []StepConfig {
	var out []StepConfig
	seen := map[string]bool{}
	for _, s := range t.tables("steps") {
		step := StepConfig{
			Name:        s.required("name"),
			Agent:       s.sub("agent").agent(c.Agent),
			Verifier:    s.sub("verifier").verifier(c.Verifier),
			MinReward:   s.minReward(),
			Healthcheck: s.healthcheck("healthcheck"),
			Artifacts:   s.artifacts("artifacts"),
		}
		switch {
		case step.Name == "":
		case !stepName.MatchString(step.Name):
			s.wrong(s.name("name"), "must be the name of a folder below steps/, not %q", step.Name)
		case seen[step.Name]:
			s.wrong(s.name("name"), "is the name of an earlier step too: %q", step.Name)
		}
		seen[step.Name] = true
		s.done()
		out = append(out, step)
	}
	return out
}

// minReward reads a number, or a table of numbers by the name of the reward.
func (t *table) minReward() map[string]float64 {
	const key = "min_reward"
	m, isTable := t.values[key].(map[string]any)
	if !isTable {
		if !t.has(key) {
			t.used[key] = true
			return nil
		}
		return map[string]float64{"reward": t.number(key, 0)}
	}
	sub := t.sub(key)
	out := make(map[string]float64, len(m))
	for name := range m {
		out[name] = sub.number(name, 0)
	}
	return out
}
