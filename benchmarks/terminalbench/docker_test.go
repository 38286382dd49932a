package terminalbench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/hermes-env/hermes-env/agentloop/chat"
	"github.com/hermes-env/hermes-env/agentloop/model"
	"github.com/hermes-env/hermes-env/agentloop/model/modeltest"
	"github.com/hermes-env/hermes-env/env"
	"github.com/hermes-env/hermes-env/env/config"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker/dockertest"
	"github.com/hermes-env/hermes-env/toolcontext/tools"
	"github.com/hermes-env/hermes-env/trajectories"
)

// honest is a test script that passes when /work/answer holds 42. It looks only with
// programs found through the PATH.
const honest = `#!/bin/sh
if [ "$(cat /work/answer 2>/dev/null)" = 42 ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
`

// files are the files of a task; those not given are what a small task has.
type files map[string]string

// writeTask makes a task folder whose solution is what the agent does.
func writeTask(t *testing.T, root, name, agent string, own files) {
	t.Helper()
	all := files{
		"task.toml":              "[metadata]\ncategory = \"attacks\"\ndifficulty = \"easy\"\n[agent]\ntimeout_sec = 20\n[verifier]\ntimeout_sec = 20\n[environment]\nallow_internet = false\n",
		"instruction.md":         "Write 42 into /work/answer.\n",
		"environment/Dockerfile": "FROM " + dockertest.Image + "\n",
		"tests/test.sh":          honest,
		"solution/solve.sh":      agent,
	}
	for file, content := range own {
		all[file] = content
	}
	if all["environment/Dockerfile"] == "FROM "+dockertest.Image+"\n" {
		all["task.toml"] = strings.Replace(all["task.toml"], "[environment]\n", "[environment]\ndocker_image = \""+dockertest.Image+"\"\n", 1)
	}
	for file, content := range all {
		if content == "" {
			continue
		}
		path := filepath.Join(root, name, filepath.FromSlash(file))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o755))
	}
}

// bench runs tasks in containers.
type bench struct {
	t      *testing.T
	root   string
	change func(*Config)
	agent  env.Agent
	script modeltest.Script                 // of the model, for AgentModel
	dir    string                           // of the last run
	stored map[string]*trajectories.Rollout // what AgentStored scores again
	plain  bool                             // no server in the containers
	tried  func(env.Forgery) bool           // which forgeries AgentForger tries
}

func newBench(t *testing.T) *bench {
	dockertest.RequireEngine(t)
	dockertest.MakeImage(t)
	return &bench{t: t, root: filepath.Join(t.TempDir(), "tasks"), agent: env.AgentOracle}
}

var serverBinary string // built once by TestMain's first user

func binary(t *testing.T) string {
	t.Helper()
	if serverBinary == "" {
		serverBinary = dockertest.BuildServer(t, sharedDir)
	}
	return serverBinary
}

// environment makes the environment as the command line would.
func (b *bench) environment() *Environment {
	own := Config{Tasks: b.root, TimeoutMode: timeoutTask, TaskTimeout: 1800, TestTimeout: 600, AgentTimeoutFactor: 1, VerifierTimeoutFactor: 1,
		VerifierRetries: 0, Network: "task", VerifyIn: verifySame, KeepProcesses: keepAuto, IsolateTests: true, RestoreTools: tamperingCore, DetectSetupFailures: true, MaxDiffMB: 64, MaxArtifactsMB: 1}
	if b.change != nil {
		b.change(&own)
	}
	return &Environment{name: NameTasks, own: own, getenv: func(string) (string, bool) { return "", false }}
}

// run runs every task once and returns the records by task.
func (b *bench) run() map[string]*trajectories.Rollout {
	t := b.t
	t.Helper()
	e := b.environment()
	require.NoError(t, e.Setup(t.Context()))
	provider, err := docker.New(docker.Config{Binary: binary(t), PlainExec: b.plain, Run: filepath.Base(t.TempDir()),
		Capabilities: sandbox.Capabilities{Base: sandbox.CapabilitiesEngine}, AllowNewPrivileges: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, provider.Close(context.Background())) }()
	registry, err := tools.NewRegistry(tools.Builtin()...)
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "run")
	if b.stored != nil {
		e.RestoreFrom(b.dir)
	}
	b.dir = dir
	store, err := trajectories.Create(dir, trajectories.Info{Command: "evaluate", Environment: NameTasks, Config: []byte(`{}`)})
	require.NoError(t, err)
	var client model.Client
	if b.agent == env.AgentModel {
		server := modeltest.NewServer(t, b.script)
		chatClient, err := model.NewChat(model.Server{BaseURL: server.URL, Model: "mock", Timeout: time.Minute})
		require.NoError(t, err)
		defer chatClient.CloseIdleConnections()
		client = chatClient
	}
	attempts := 1
	var environment env.Environment = e
	if b.agent == env.AgentForger {
		environment = chosenForgeries{e, b.tried}
		attempts = len(forgeries())
	}
	runner, err := env.New(env.Options{
		Model:  client,
		Stored: func(k trajectories.Key) *trajectories.Rollout { return b.stored[k.ItemID] }, StoredPlanned: len(b.stored),
		Mode: config.Evaluate, Environment: environment, Agent: b.agent, ModelName: "test", Provider: provider, Registry: registry, Store: store,
		Config: config.Env{GroupSize: 1, Attempts: attempts, MaxEvalWorkers: 8, MaxAgentTurns: 5, MaxTokenLength: 100, PassThreshold: 1, VerifyTimeout: 60, TerminalTimeout: 10, ToolPoolSize: 16},
	})
	require.NoError(t, err)
	_, err = runner.Run(t.Context())
	require.NoError(t, err)
	require.NoError(t, store.Close(trajectories.StatusDone))
	done, err := trajectories.OpenReadOnly(dir)
	require.NoError(t, err)
	records := map[string]*trajectories.Rollout{}
	require.NoError(t, done.Each(func(r *trajectories.Rollout) error {
		records[strings.TrimSpace(r.ItemID+" "+gjson.GetBytes(r.Metadata, "forgery").String())] = r
		return nil
	}))
	return records
}

// outcome says in one word how a rollout ended.
func outcome(r *trajectories.Rollout) string {
	switch {
	case r == nil:
		return "missing"
	case r.Score != nil:
		return fmt.Sprintf("%g", *r.Score)
	}
	return r.Error.Class
}

func verifierOf(r *trajectories.Rollout) gjson.Result { return gjson.GetBytes(r.Metadata, "verifier") }

func TestNoRewardCanBePlanted(t *testing.T) {
	b := newBench(t)
	const crash = "#!/bin/sh\nexit 1\n"
	attacks := map[string]struct {
		agent string
		files files
		want  string
	}{
		"honest work":                    {agent: "echo 42 > /work/answer", want: "1"},
		"no work":                        {agent: "true", want: "0"},
		"a reward before dead tests":     {agent: "echo 1 > /logs/verifier/reward.txt; echo 1 > /logs/verifier/reward.json", files: files{"tests/test.sh": crash}, want: classNoReward},
		"a reward nobody may write":      {agent: "echo 1 > /logs/verifier/reward.txt; chmod 444 /logs/verifier/reward.txt; chmod 555 /logs/verifier", want: "0"},
		"a second kind of reward":        {agent: "echo 1 > /logs/verifier/reward.json", want: "0"},
		"a background writer":            {agent: "(setsid sh -c 'while :; do echo 1 > /logs/verifier/reward.txt; echo 1 > /logs/verifier/reward.json; done' > /dev/null 2>&1 &)", want: "0"},
		"a writer twice removed":         {agent: "(setsid sh -c '(setsid sh -c \"while :; do echo 1 > /logs/verifier/reward.txt; done\" &) ' > /dev/null 2>&1 &); cd /", want: "0"},
		"a writer for dead tests":        {agent: "(setsid sh -c 'while :; do echo 1 > /logs/verifier/reward.txt; done' > /dev/null 2>&1 &)", files: files{"tests/test.sh": crash}, want: classNoReward},
		"a link in place of the results": {agent: "mkdir /plant; echo 1 > /plant/reward.txt; rm -rf /logs/verifier; ln -s /plant /logs/verifier", files: files{"tests/test.sh": crash}, want: classNoReward},
		"a link in place of the logs":    {agent: "mkdir -p /plant/verifier; echo 1 > /plant/verifier/reward.txt; rm -rf /logs; ln -s /plant /logs", files: files{"tests/test.sh": crash}, want: classNoReward},
		"a file in place of the results": {agent: "rm -rf /logs/verifier; echo 1 > /logs/verifier", want: "0"},
		"no logs at all":                 {agent: "rm -rf /logs", want: "0"},
		"a directory for a reward":       {agent: "mkdir -p /logs/verifier/reward.txt/x", want: "0"},
		"a pipe for a reward":            {agent: "mkfifo /logs/verifier/reward.txt", want: "0"},
		"tests of its own":               {agent: "mkdir -p /tests; printf '#!/bin/sh\\necho 1 > /logs/verifier/reward.txt\\n' > /tests/test.sh; chmod 555 /tests/test.sh", want: "0"},
		"a link in place of the tests":   {agent: "mkdir /mine; ln -s /mine /tests", want: "0"},
		"a file in place of the tests":   {agent: "echo x > /tests", want: "0"},
		"exported variables":             {agent: "export PATH=/mine:$PATH ENV=/mine/rc BASH_ENV=/mine/rc LD_PRELOAD=/mine/lib.so; mkdir /mine; printf '#!/bin/sh\\necho 42\\n' > /mine/cat; chmod 755 /mine/cat; echo 'echo 1 > /logs/verifier/reward.txt; exit' > /mine/rc", want: "0"},
		"start files of shells":          {agent: "for f in /root/.profile /root/.bashrc /root/.shrc /etc/profile /etc/bash.bashrc; do mkdir -p ${f%/*}; echo 'echo 1 > /logs/verifier/reward.txt; exit' > $f; done", want: "0"},
		"a shell that forges":            {agent: "cp /bin/busybox /bin/real; printf '#!/bin/real sh\\necho 1 > /logs/verifier/reward.txt\\n' > /tmp/fake; chmod 755 /tmp/fake; mv /tmp/fake /bin/sh", want: "0"},
		"no shell":                       {agent: "rm -f /bin/sh /bin/ash /bin/bash", want: "0"},
		"no shell after honest work":     {agent: "echo 42 > /work/answer; rm -f /bin/sh /bin/ash /bin/bash", want: "1"},
		"no programs at all":             {agent: "echo 42 > /work/answer; rm -f /bin/busybox", want: "1"},
		"a preloaded library":            {agent: "echo /mine.so > /etc/ld.so.preload; echo 42 > /work/answer", want: "1"},
		"a fork bomb at the end":         {agent: "(setsid sh -c 'b() { b | b & }; b' > /dev/null 2>&1 &)", want: "0"},
		"a full disk":                    {agent: "i=0; while [ $i -lt 40 ] && head -c 1000000 /dev/zero > /work/fill$i; do i=$((i+1)); done; true", want: "0"},
		"a script without a first line":  {agent: "echo 42 > /work/answer", files: files{"tests/test.sh": "echo 0.5 > /logs/verifier/reward.txt\n"}, want: "0.5"},
		"garbage":                        {agent: "true", files: files{"tests/test.sh": "#!/bin/sh\necho nan > /logs/verifier/reward.txt\n"}, want: classBadReward},
		"an empty reward":                {agent: "true", files: files{"tests/test.sh": "#!/bin/sh\n: > /logs/verifier/reward.txt\n"}, want: classEmptyReward},
		"a link written by the tests":    {agent: "echo 1 > /plant", files: files{"tests/test.sh": "#!/bin/sh\nln -s /plant /logs/verifier/reward.txt\n"}, want: classBadReward},
		"an interpreter nobody has":      {agent: "true", files: files{"tests/test.sh": "#!/usr/bin/nobody-has-this\n"}, want: classNoShell},
		"tests without end":              {agent: "true", files: files{"task.toml": "[agent]\ntimeout_sec = 20\n[verifier]\ntimeout_sec = 1\n[environment]\n", "tests/test.sh": "#!/bin/sh\nsleep 600\n"}, want: classTestsTimeout},
		"tools that can't be installed":  {agent: "true", files: files{"tests/test.sh": "#!/bin/sh\necho 'curl: (6) Could not resolve host: astral.sh'\necho 0 > /logs/verifier/reward.txt\n"}, want: classSetup},
		"an answer like a failed setup":  {agent: "echo 'x: uv: not found' > /work/answer", files: files{"tests/test.sh": "#!/bin/sh\ncat /work/answer\necho 0 > /logs/verifier/reward.txt\n"}, want: "0"},
		"names that the agent broke":     {agent: "echo nameserver 127.0.0.9 > /etc/resolv.conf; touch -r /etc/hostname /etc/resolv.conf", files: files{"tests/test.sh": "#!/bin/sh\necho 'curl: (6) Could not resolve host: astral.sh'\necho 0 > /logs/verifier/reward.txt\n"}, want: "0"},
		"packages that the agent broke":  {agent: "mkdir -p /etc/apt/apt.conf.d; echo 'Acquire::http::Proxy \"http://127.0.0.1:1\";' > /etc/apt/apt.conf.d/9", files: files{"tests/test.sh": "#!/bin/sh\necho 'E: Failed to fetch http://deb.debian.org/x'\necho 0 > /logs/verifier/reward.txt\n"}, want: "0"},
		"a file in place of the logs":    {agent: "true", files: files{"tests/test.sh": "#!/bin/sh\nrm -rf /logs\necho 1 > /logs\n"}, want: classNoReward},
		"deeper than anybody can follow": {agent: "cd /work; i=0; while [ $i -lt 40 ]; do d=$(printf %0200d $i); mkdir $d && cd $d || break; i=$((i+1)); done; true", want: classTampered},
		"lines that end as on Windows":   {agent: "true", files: files{"tests/test.sh": "#!/bin/sh\r\necho 1 > /logs/verifier/reward.txt\r\n"}, want: classNoShell},
		"writers that tests leave":       {agent: "true", files: files{"tests/test.sh": "#!/bin/sh\n(setsid sh -c 'sleep 0.3; while :; do echo 1 > /logs/verifier/reward.txt; done' > /dev/null 2>&1 &)\necho 0 > /logs/verifier/reward.txt\n"}, want: "0"},
		"a flood of output":              {agent: "echo 42 > /work/answer", files: files{"tests/test.sh": honest + "yes | head -c 30000000\n"}, want: "1"},
	}
	for name, a := range attacks {
		writeTask(t, b.root, strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), "'", ""), "#!/bin/sh\n"+a.agent+"\n", a.files)
	}
	writeTask(t, b.root, "links-out", "#!/bin/sh\ntrue\n", nil)
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(b.root, "links-out", "tests", "users")))
	records := b.run()
	require.Equal(t, classBadTask, outcome(records["links-out"]), "the task's own fault, the same in every attempt")
	for name, a := range attacks {
		r := records[strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), "'", "")]
		if got := outcome(r); got != a.want {
			message := ""
			if r != nil && r.Error != nil {
				message = r.Error.Message
			}
			t.Errorf("%s: got %s, want %s: %s %s", name, got, a.want, message, r.Metadata)
		}
	}
	forged := verifierOf(records["a-shell-that-forges"])
	require.Contains(t, forged.Get("tampering").Raw, `{"path":"/bin/sh","what":"replaced"}`)
	require.Equal(t, "fresh", forged.Get("verified_in").String())
	require.Equal(t, "attacks", gjson.GetBytes(records["no-work"].Metadata, "category").String())
	require.True(t, verifierOf(records["a-flood-of-output"]).Get("test_stdout_cut").Bool())
	require.Less(t, len(records["a-flood-of-output"].Metadata), 40_000)
	require.Contains(t, records["lines-that-end-as-on-Windows"].Error.Message, "end as on Windows")
	require.Equal(t, "reward.txt", verifierOf(records["honest-work"]).Get("reward_file").String())
	require.Equal(t, trajectories.OutcomeSandboxError, records["tools-that-cant-be-installed"].Outcome)
}

func TestReplacedToolsAreNotedRestoredOrRefused(t *testing.T) {
	const forge = "#!/bin/sh\nrm /bin/cat; printf '#!/bin/sh\\necho 42\\n' > /bin/cat; chmod 755 /bin/cat\n"
	for policy, want := range map[string]string{tamperingCore: "1", tamperingNote: "1", tamperingFail: classTampering, tamperingRestore: "0"} {
		t.Run(policy, func(t *testing.T) {
			b := newBench(t)
			b.change = func(c *Config) {
				if c.StrictTampering = policy == tamperingFail; !c.StrictTampering {
					c.RestoreTools = policy
				}
			}
			tests := files{"tests/test.sh": strings.Replace(honest, "cat", "/bin/cat", 1)} // not the one built into the shell
			writeTask(t, b.root, "forge", forge, tests)
			writeTask(t, b.root, "work", "#!/bin/sh\necho 42 > /work/answer; rm -r /home/agent; ln -s answer /work/link\n", tests)
			records := b.run()
			require.Equal(t, want, outcome(records["forge"]), "%s", records["forge"].Metadata)
			require.Equal(t, "/bin/cat", verifierOf(records["forge"]).Get("tampering.0.path").String(), "never silently")
			require.Equal(t, "1", outcome(records["work"]))
			require.False(t, verifierOf(records["work"]).Get("tampering").Exists())
		})
	}
}

func TestAFreshContainerHasTheAgentsFilesAndNothingElse(t *testing.T) {
	b := newBench(t)
	b.change = func(c *Config) { c.VerifyIn = verifyFresh }
	writeTask(t, b.root, "fresh", "#!/bin/sh\necho 42 > /work/answer; chown agent /work/answer; (setsid sleep 1000 > /dev/null 2>&1 &)\n", files{
		"tests/test.sh": "#!/bin/sh\nps | grep -q '[s]leep 1000' && exit 1\n[ $(stat -c %U /work/answer) = agent ] || exit 1\npwd | grep -qx /work || exit 1\n" + strings.TrimPrefix(honest, "#!/bin/sh\n"),
	})
	// What is in a volume belongs to no image, so a fresh container would lack it.
	writeTask(t, b.root, "volume", "#!/bin/sh\necho 42 > /data/answer\n", files{
		"environment/Dockerfile": "FROM " + dockertest.Image + "\nVOLUME /data\n",
		"tests/test.sh":          "#!/bin/sh\n[ -e /data/answer ]; echo $((1 - $?)) > /logs/verifier/reward.txt\n",
	})
	before := dockertest.Command(t, "images", "-aq", "--filter", "label=hermes-env.snapshot")
	records := b.run()
	require.Equal(t, classNoFresh, outcome(records["volume"]), "never a 0 that the copy is to blame for")
	require.Contains(t, records["volume"].Error.Message, "/data")
	require.Equal(t, "1", outcome(records["fresh"]), "%s", records["fresh"].Metadata)
	require.Equal(t, "fresh", verifierOf(records["fresh"]).Get("verified_in").String())
	require.Equal(t, before, dockertest.Command(t, "images", "-aq", "--filter", "label=hermes-env.snapshot"), "images left behind")
}

func TestUsersEnvironmentsAndDirectoriesAreThoseOfTheTask(t *testing.T) {
	b := newBench(t)
	writeTask(t, b.root, "users", "#!/bin/sh\nid -un > /work/agent 2>/dev/null || id -un > /tmp/agent; env | sort > /tmp/env; pwd > /tmp/pwd; echo $FROM_SOLUTION > /tmp/solution\n", files{
		"task.toml": `[metadata]
category = "c"
[agent]
user = "agent"
timeout_sec = 20
[verifier]
user = "root"
timeout_sec = 20
env = { WORD = "tests", OTHER = "${NOT_SET:-default}" }
[environment]
env = { WORD = "container" }
workdir = "/home/agent"
[solution]
env = { FROM_SOLUTION = "yes" }
`,
		"tests/test.sh": `#!/bin/sh
fail() { echo "$@"; echo 0 > /logs/verifier/reward.txt; exit; }
[ "$(id -un)" = root ] || fail user $(id)
[ "$WORD" = tests ] || fail word $WORD
[ "$OTHER" = default ] || fail other
[ "$(cat /tmp/agent)" = agent ] || fail agent
grep -qx WORD=container /tmp/env || fail env
[ "$(cat /tmp/pwd)" = /home/agent ] || fail pwd
[ "$(pwd)" = /home/agent ] || fail cwd $(pwd)
[ "$(cat /tmp/solution)" = yes ] || fail solution
[ "$(stat -c %a /logs/agent /logs/artifacts /logs/verifier | sort -u)" = 777 ] || fail modes
[ -f /logs/agent/oracle.txt ] || fail oracle
echo 1 > /logs/verifier/reward.txt
`,
	})
	records := b.run()
	require.Equal(t, "1", outcome(records["users"]), "%s", records["users"].Metadata)
}

func TestTheFixedModeIsTheOriginals(t *testing.T) {
	b := newBench(t)
	b.change = func(c *Config) {
		c.TimeoutMode, c.TaskTimeout, c.TestTimeout = timeoutFixed, 3, 2
	}
	writeTask(t, b.root, "slow-agent", "#!/bin/sh\necho 42 > /work/answer; sleep 60\n", nil)
	writeTask(t, b.root, "slow-tests", "#!/bin/sh\ntrue\n", files{"tests/test.sh": "#!/bin/sh\nsleep 60\n"})
	writeTask(t, b.root, "in-time", "#!/bin/sh\necho 42 > /work/answer\n", nil)
	records := b.run()
	require.Equal(t, "0", outcome(records["slow-agent"]))
	require.Equal(t, trajectories.OutcomeLimit, records["slow-agent"].Outcome)
	require.Equal(t, "the agent's time was up", verifierOf(records["slow-agent"]).Get("skipped").String())
	require.Equal(t, classTestsTimeout, outcome(records["slow-tests"]))
	require.Equal(t, "1", outcome(records["in-time"]))
	// With each task's own limits the tests run after an agent's timeout.
	b.change = nil
	require.NoError(t, os.WriteFile(filepath.Join(b.root, "slow-agent", "task.toml"), []byte("[agent]\ntimeout_sec = 1\n[environment]\ndocker_image = \""+dockertest.Image+"\"\n"), 0o644))
	require.NoError(t, os.RemoveAll(filepath.Join(b.root, "slow-tests")))
	records = b.run()
	require.Equal(t, "1", outcome(records["slow-agent"]))
	require.Equal(t, trajectories.OutcomeLimit, records["slow-agent"].Outcome)
}

func TestTheExitCodeCountsOnlyWhereThatIsAskedFor(t *testing.T) {
	b := newBench(t)
	b.change = func(c *Config) { c.ExitCodeFallback = true }
	writeTask(t, b.root, "zero", "#!/bin/sh\n", files{"tests/test.sh": "#!/bin/sh\nexit 0\n"})
	writeTask(t, b.root, "one", "#!/bin/sh\n", files{"tests/test.sh": "#!/bin/sh\necho rubbish > /logs/verifier/reward.txt; exit 1\n"})
	records := b.run()
	require.Equal(t, "1", outcome(records["zero"]))
	require.Equal(t, "0", outcome(records["one"]))
	require.True(t, verifierOf(records["zero"]).Get("exit_code_fallback").Bool())
}

func TestNobodySolvesNothingAndBrokenTasksAreNamed(t *testing.T) {
	b := newBench(t)
	b.agent = env.AgentNop
	writeTask(t, b.root, "nop", "", nil)
	records := b.run()
	require.Equal(t, "0", outcome(records["nop"]))
	b.agent = env.AgentOracle
	records = b.run()
	require.ErrorContains(t, fmt.Errorf("%s", records["nop"].Error.Message), "came without a solution")
	writeTask(t, b.root, "gpu", "", files{"task.toml": "[environment]\ngpus = 1\n"})
	err := b.environment().Setup(t.Context())
	require.ErrorContains(t, err, "task gpu: it wants 1 GPUs")
	require.ErrorContains(t, err, "env.skip_tasks")
	b.change = func(c *Config) { c.SkipTasks = config.Words{"gpu"} }
	require.NoError(t, b.environment().Setup(t.Context()))
}

func TestImagesAreThePublishedOnesUnlessBuildingIsForced(t *testing.T) {
	b := newBench(t)
	writeTask(t, b.root, "a", "", nil)
	e := b.environment()
	require.NoError(t, e.Setup(t.Context()))
	spec, err := e.Sandbox(e.tasks[0].item())
	require.NoError(t, err)
	require.Equal(t, dockertest.Image, spec.Image)
	require.Equal(t, sandbox.NetworkNone, spec.Network)
	require.EqualValues(t, 2048<<20, spec.MemoryBytes)
	require.Equal(t, 1.0, spec.CPUs)
	b.change = func(c *Config) { c.ForceBuild, c.CPUs, c.MemoryMB, c.Network = true, 2, 64, "public" }
	e = b.environment()
	require.NoError(t, e.Setup(t.Context()))
	spec, err = e.Sandbox(e.tasks[0].item())
	require.NoError(t, err)
	require.Equal(t, filepath.Join(b.root, "a", "environment"), spec.Build)
	require.True(t, spec.BuildOptions.Force)
	require.Equal(t, sandbox.NetworkBridge, spec.Network)
	require.EqualValues(t, 64<<20, spec.MemoryBytes)
	require.Equal(t, 2.0, spec.CPUs)
}

func TestWhatAnAgentLeftCanBeScoredAgainByOtherTests(t *testing.T) {
	b := newBench(t)
	b.change = func(c *Config) { c.KeepSandboxDiff, c.MaxDiffMB = true, 1 }
	writeTask(t, b.root, "answer", "#!/bin/sh\necho 42 > /work/answer; rm /bin/printenv; mkdir /opt; echo x > /opt/file; chmod 700 /opt/file; chown agent /opt/file\n", nil)
	writeTask(t, b.root, "huge", "#!/bin/sh\nhead -c 3000000 /dev/urandom > /work/huge\n", nil)
	writeTask(t, b.root, "service", "#!/bin/sh\n(setsid sleep 500 > /dev/null 2>&1 &)\n", nil)
	records := b.run()
	require.Equal(t, "1", outcome(records["answer"]))
	d := diffOf(records["answer"])
	require.FileExists(t, filepath.Join(b.dir, d.File))
	require.Positive(t, d.Bytes)

	// Other tests, which look at all that the agent did.
	require.NoError(t, os.WriteFile(filepath.Join(b.root, "answer", "tests", "test.sh"), []byte(`#!/bin/sh
[ "$(cat /work/answer)" = 42 ] && [ ! -e /bin/printenv ] && [ "$(stat -c '%a %U' /opt/file)" = "700 agent" ] && echo 0.25 > /logs/verifier/reward.txt
`), 0o755))
	e := b.environment()
	require.NoError(t, e.Setup(t.Context()))
	e.RestoreFrom(b.dir)
	for name, why := range map[string]string{"huge": "more than 1 MiB", "service": "running processes"} {
		require.ErrorContains(t, e.Restorable(e.byName[name].item(), records[name]), why)
	}
	require.NoError(t, e.Restorable(e.byName["answer"].item(), records["answer"]))
	b.agent, b.stored = env.AgentStored, map[string]*trajectories.Rollout{"answer": records["answer"]}
	first := b.dir
	again := b.run()
	require.Len(t, again, 1)
	require.Equal(t, "0.25", outcome(again["answer"]), "%s", again["answer"].Metadata)
	require.Equal(t, records["answer"].ID, gjson.GetBytes(again["answer"].Metadata, "rescored_from").String())

	// A diff that was changed since is refused.
	b.dir = first
	path := filepath.Join(first, d.File)
	other, err := os.ReadFile(filepath.Join(first, diffOf(records["answer"]).File))
	require.NoError(t, err)
	other[len(other)/2] ^= 0xff
	require.NoError(t, os.WriteFile(path, other, 0o600))
	again = b.run()
	require.Equal(t, trajectories.OutcomeSandboxError, again["answer"].Outcome)
}

func TestWhatAModelLeavesInItsShellDoesNotReachTheTests(t *testing.T) {
	b := newBench(t)
	b.agent = env.AgentModel
	call := func(command string) modeltest.Reply {
		arguments, err := chat.Marshal(struct {
			Command string `json:"command"`
		}{command})
		require.NoError(t, err)
		return modeltest.Calls(chat.ToolCall{ID: "c", Name: "terminal", Arguments: string(arguments)})
	}
	b.script = modeltest.Turns(
		call("mkdir /mine; printf '#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n' > /mine/probe; chmod 755 /mine/probe; echo 'echo 1 > /logs/verifier/reward.txt; exit' > /mine/rc"),
		call("export PATH=/mine:$PATH ENV=/mine/rc BASH_ENV=/mine/rc PLANTED=1; cd /mine; alias cat=probe; umask 0; trap 'echo 1 > /logs/verifier/reward.txt' EXIT"),
		call("while :; do echo 1 > /logs/verifier/reward.txt; done & (setsid sh -c 'while :; do cp /mine/probe /tests/test.sh; done' > /dev/null 2>&1 &); pwd"),
		modeltest.Text("done"))
	writeTask(t, b.root, "shell", "", files{"tests/test.sh": "#!/bin/sh\nprobe 2>/dev/null && exit\nif [ -n \"$PLANTED$ENV$BASH_ENV\" ] || [ \"$(pwd)\" != /work ] || [ \"$PATH\" != /bin ]; then echo wrong $PATH $PWD; exit 1; fi\necho 0.5 > /logs/verifier/reward.txt\n"})
	r := b.run()["shell"]
	require.Equal(t, "0.5", outcome(r), "%s", r.Metadata)
	require.Equal(t, 4, r.TurnsUsed)
	require.Contains(t, r.Messages[len(r.Messages)-2].Text(), "/mine", "the model's own shell kept its directory")
}

func TestTestsThatExceedTheirLimitRunOnceMore(t *testing.T) {
	b := newBench(t)
	b.change = func(c *Config) { c.VerifierRetries = 1 }
	writeTask(t, b.root, "slow-once", "#!/bin/sh\n", files{
		"task.toml":     "[verifier]\ntimeout_sec = 2\n[environment]\n",
		"tests/test.sh": "#!/bin/sh\nif mkdir /work/tried 2>/dev/null; then echo 0.1 > /logs/verifier/reward.txt; sleep 600; fi\necho 0.9 > /logs/verifier/reward.txt\n",
	})
	r := b.run()["slow-once"]
	require.Equal(t, "0.9", outcome(r), "%s", r.Metadata)
	require.EqualValues(t, 2, verifierOf(r).Get("tries").Int())
}
