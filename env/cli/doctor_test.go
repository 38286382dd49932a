package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/internal/owner"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run go test ./env/cli -update")
	require.Equal(t, string(want), string(got))
}

// fakeEngine answers what an engine of this description would, over a real socket.
type fakeEngine struct {
	api  string
	info map[string]any // changes of a sound engine's answer
	// missing are the paths below the version that it does not have.
	missing []string
	// containers is its list of containers as JSON.
	containers string
}

const soundInfo = `{"ServerVersion":"27.0.1","OSType":"linux","Architecture":"x86_64","Driver":"overlay2","DriverStatus":[["Backing Filesystem","xfs"]],
"CgroupVersion":"2","CgroupDriver":"systemd","MemoryLimit":true,"SwapLimit":true,"PidsLimit":true,"CpuCfsQuota":true,"NCPU":4,
"SecurityOptions":["name=seccomp,profile=builtin"],"DockerRootDir":"/","Name":"fake"}`

// start returns the URL of the engine's socket.
func (f fakeEngine) start(t *testing.T) string {
	t.Helper()
	if f.api == "" {
		f.api = "1.46"
	}
	var info map[string]any
	require.NoError(t, json.Unmarshal([]byte(soundInfo), &info))
	for k, v := range f.info {
		info[k] = v
	}
	encoded, err := json.Marshal(info)
	require.NoError(t, err)
	if f.containers == "" {
		f.containers = "[]"
	}
	answers := map[string]string{
		"/_ping":           "OK",
		"/info":            string(encoded),
		"/version":         fmt.Sprintf(`{"ApiVersion":%q}`, f.api),
		"/networks":        "[]",
		"/networks/bridge": `{"Name":"bridge","IPAM":{"Config":[{"Subnet":"172.17.0.0/16"}]}}`,
		"/containers/json": f.containers,
		"/images/json":     "[]",
	}
	for _, path := range f.missing {
		delete(answers, path)
	}
	dir, err := os.MkdirTemp("", "e") // short: the path of a socket has a limit
	require.NoError(t, err)
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	require.NoError(t, err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", f.api)
		w.Header().Set("Ostype", "linux")
		w.Header().Set("Content-Type", "application/json")
		path := r.URL.Path
		if rest, ok := strings.CutPrefix(path, "/v"); ok {
			_, after, _ := strings.Cut(rest, "/")
			path = "/" + after
		}
		answer, ok := answers[path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			answer = `{"message":"no such thing: ` + path + `"}`
		}
		_, _ = w.Write([]byte(answer))
	})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
		require.NoError(t, os.RemoveAll(dir))
	})
	return "unix://" + filepath.Join(dir, "s")
}

// newDoctor returns a doctor whose environment holds only these variables.
func newDoctor(variables map[string]string) *doctor {
	app := &App{Getenv: func(name string) (string, bool) { v, ok := variables[name]; return v, ok }}
	return &doctor{
		session: &session{app: app, name: "hermes-env"},
		space:   func(string) (diskUse, error) { return diskUse{Free: 100 << 30, Inode: 1 << 20}, nil },
	}
}

func findCheck(t *testing.T, findings []finding, check string) finding {
	t.Helper()
	for _, f := range findings {
		if f.Check == check {
			return f
		}
	}
	require.Fail(t, "no such check", "%s in %v", check, findings)
	return finding{}
}

func TestDoctorJudgesWhatAnEngineSaysOfItself(t *testing.T) {
	for name, c := range map[string]struct {
		engine fakeEngine
		free   uint64
		check  string
		level  level
		found  string
		fix    string
	}{
		"a sound engine":         {fakeEngine{}, 0, "version", levelOK, "27.0.1, API 1.46", ""},
		"the oldest engine":      {fakeEngine{api: "1.41"}, 0, "version", levelOK, "API 1.41", ""},
		"an engine too old":      {fakeEngine{api: "1.40", info: map[string]any{"ServerVersion": "19.03.15"}}, 0, "version", levelProblem, "19.03.15", "20.10"},
		"windows containers":     {fakeEngine{info: map[string]any{"OSType": "windows"}}, 0, "version", levelProblem, "windows", "linux containers"},
		"no limit of memory":     {fakeEngine{info: map[string]any{"MemoryLimit": false, "SwapLimit": false}}, 0, "limits", levelProblem, "memory, swap", "cgroup_enable=memory"},
		"no limit of processes":  {fakeEngine{info: map[string]any{"PidsLimit": false}}, 0, "limits", levelProblem, "processes", "cgroup_enable"},
		"no limit of swap":       {fakeEngine{info: map[string]any{"SwapLimit": false}}, 0, "limits", levelWarning, "swap", "swapaccount=1"},
		"rootless without cpu":   {fakeEngine{info: map[string]any{"CpuCfsQuota": false, "SecurityOptions": []string{"name=rootless"}}}, 0, "limits", levelWarning, "processors", "delegate"},
		"no filter":              {fakeEngine{info: map[string]any{"SecurityOptions": []string{"name=seccomp,profile=unconfined"}}}, 0, "isolation", levelWarning, "not filtered", "seccomp"},
		"user namespaces":        {fakeEngine{info: map[string]any{"SecurityOptions": []string{"name=seccomp,profile=builtin", "name=userns"}}}, 0, "isolation", levelOK, "user namespaces", ""},
		"copying storage":        {fakeEngine{info: map[string]any{"Driver": "vfs"}}, 0, "storage", levelWarning, "copies the whole image", "overlay2"},
		"storage of the past":    {fakeEngine{info: map[string]any{"Driver": "aufs"}}, 0, "storage", levelWarning, "no longer maintained", "overlay2"},
		"no bound on the disk":   {fakeEngine{info: map[string]any{"DriverStatus": [][2]string{{"Backing Filesystem", "extfs"}}}}, 0, "storage", levelOK, "overlay2 on extfs", ""},
		"no control groups":      {fakeEngine{info: map[string]any{"CgroupDriver": "none"}}, 0, "control groups", levelProblem, "can't be limited", "delegate"},
		"a full disk":            {fakeEngine{}, 200 << 20, "space", levelProblem, "200 MiB free in /", "docker system df"},
		"a nearly full disk":     {fakeEngine{}, 3 << 30, "space", levelWarning, "3.0 GiB", "prune"},
		"files elsewhere":        {fakeEngine{info: map[string]any{"DockerRootDir": "/no/such/folder"}}, 0, "space", levelOK, "not known", ""},
		"no bridge":              {fakeEngine{missing: []string{"/networks/bridge"}}, 0, "network", levelWarning, "no network named bridge", "--bridge=none"},
		"containers of the dead": {fakeEngine{containers: deadContainers()}, 0, "leftovers", levelWarning, "2 containers of dead runs", "hermes-env cleanup"},
		"an image to be pulled":  {fakeEngine{}, 0, "image", levelWarning, "does not have some:image", "docker pull some:image"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDoctor(map[string]string{"DOCKER_HOST": c.engine.start(t)})
			if c.free > 0 {
				d.space = func(string) (diskUse, error) { return diskUse{Free: c.free, Inode: 1 << 20}, nil }
			}
			findings := d.docker(t.Context(), "some:image")
			require.Equal(t, levelOK, findCheck(t, findings, "engine").Level)
			f := findCheck(t, findings, c.check)
			require.Equal(t, c.level, f.Level, f)
			require.Contains(t, f.Found, c.found)
			require.Contains(t, f.Fix, c.fix)
			require.Equal(t, c.level == levelOK, f.Fix == "", "whatever is not fine has a fix, and nothing else has")
		})
	}
}

func TestDiskLimit_SaysHowExactlyItIsKept(t *testing.T) {
	for tried, want := range map[docker.Tried]finding{
		{Disk: docker.DiskByEngine}:                           {Level: levelOK, Found: "by the engine's storage"},
		{Disk: docker.DiskByMount}:                            {Level: levelOK, Found: "a file system of its own"},
		{Disk: docker.DiskByWatch, NoMount: "it is not root"}: {Level: levelOK, Found: "a quarter and 256 MiB more can be written (it is not root)"},
		{Disk: docker.DiskByNone}:                             {Level: levelWarning, Found: "only the size of each file", Fix: "xfs with pquota"},
	} {
		got := diskLimit(tried)
		require.Equal(t, want.Level, got.Level)
		require.Contains(t, got.Found, want.Found)
		require.Contains(t, got.Fix, want.Fix)
	}
}

// deadContainers are two containers of this machine whose owner is no process, and
// one of a process that lives.
func deadContainers() string {
	living := owner.This()
	dead := living
	dead.PID = 4194305 // beyond the largest process id
	var list []string
	for i, o := range []owner.Owner{living, dead, dead} {
		list = append(list, fmt.Sprintf(`{"Id":"%d","Labels":{"hermes-env.owner-pid":"%d","hermes-env.owner-start":"%d","hermes-env.boot-id":%q,"hermes-env.place":%q}}`, i, o.PID, o.Start, o.Boot, o.Place))
	}
	return "[" + strings.Join(list, ",") + "]"
}

func TestDoctorSaysWhyNoEngineAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		host, found, fix string
	}{
		"nothing there":      {"unix:///no/such/socket", "no container engine answers", "apt-get install docker.io"},
		"a refused port":     {"tcp://127.0.0.1:1", "no container engine answers", "DOCKER_HOST"},
		"behind ssh":         {"ssh://host.invalid", "ask the engine at ssh://host.invalid", "DOCKER_HOST"},
		"without a scheme":   {"/var/run/docker.sock", "unix:///path", "docker context ls"},
		"no engine at all":   {fakeEngine{missing: []string{"/info"}}.start(t), "no such thing", "DOCKER_HOST"},
		"half of an engine":  {fakeEngine{missing: []string{"/version"}}.start(t), "for its version", "docker context ls"},
		"too little of one":  {fakeEngine{containers: "}"}.start(t), "containers of dead runs", "docker context ls"},
		"a host of nonsense": {"unix://", "lacks an address", "docker context ls"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDoctor(map[string]string{"DOCKER_HOST": c.host})
			findings := d.docker(t.Context(), "")
			require.Len(t, findings, 1)
			require.Equal(t, levelProblem, findings[0].Level)
			require.Contains(t, findings[0].Found, c.found)
			require.Contains(t, findings[0].Fix, c.fix)
		})
	}
}

func TestDoctorSaysWhyAContainerDoesNotStart(t *testing.T) {
	host := fakeEngine{missing: []string{"/images/create"}}.start(t)
	for name, c := range map[string]struct {
		binary, found, fix string
		level              level
	}{
		"no server":  {"/etc/passwd", "no program for Linux", "go build -o hermes-env-sandbox", levelProblem},
		"no program": {"/no/such/file", "no such file", binaryVariable, levelProblem},
		"not static": {"", "slow", "CGO_ENABLED=0", levelWarning},
	} {
		t.Run(name, func(t *testing.T) {
			f := findCheck(t, newDoctor(map[string]string{"DOCKER_HOST": host, binaryVariable: c.binary}).docker(t.Context(), ""), "start")
			level := c.level
			if c.binary == "" && f.Level == levelProblem {
				level, c.found, c.fix = levelProblem, "make an empty image", "docker info" // this test's own program is static
			}
			require.Equal(t, level, f.Level, f)
			require.Contains(t, f.Found, c.found)
			require.Contains(t, f.Fix, c.fix)
			require.NotEmpty(t, f.Fix)
		})
	}
}

// A socket that takes connections and says nothing must not hold the command up.
func TestDoctorEndsWhereAnEngineIsSilent(t *testing.T) {
	dir, err := os.MkdirTemp("", "e")
	require.NoError(t, err)
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		require.NoError(t, os.RemoveAll(dir))
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	findings := newDoctor(map[string]string{"DOCKER_HOST": "unix://" + l.Addr().String()}).docker(ctx, "")
	require.Len(t, findings, 1)
	require.Equal(t, levelProblem, findings[0].Level)
	require.Contains(t, findings[0].Fix, "does not answer")
}

func TestAPartThatHangsIsLeftBehindAndSaidSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		defer close(hang)
		findings := examineAll(t.Context(), []part{
			{name: "stuck", examine: func(context.Context) []finding { <-hang; return nil }},
			{name: "slow", examine: func(ctx context.Context) []finding {
				<-ctx.Done()
				return []finding{{Check: "self", Level: levelProblem, Found: "too slow"}}
			}},
			{name: "optional", lenient: true, examine: func(context.Context) []finding {
				return []finding{{Check: "a", Level: levelProblem}, {Check: "b", Level: levelOK}}
			}},
		}, partLimit)
		require.Equal(t, []finding{
			{Part: "stuck", Check: "time", Level: levelProblem, Found: "not examined within 9s", Fix: "look for a file system or service that hangs, and try again"},
			{Part: "slow", Check: "self", Level: levelProblem, Found: "too slow"},
			{Part: "optional", Check: "a", Level: levelWarning},
			{Part: "optional", Check: "b", Level: levelOK},
		}, findings)
	})
}

func TestDoctorJudgesTheMachinesLimits(t *testing.T) {
	const none = 1<<64 - 1
	for _, c := range []struct {
		n           uint64
		files, user level
	}{
		{none, levelOK, levelOK}, {65536, levelOK, levelOK}, {1000, levelWarning, levelWarning}, {100, levelProblem, levelProblem},
	} {
		require.Equal(t, c.files, openFiles(c.n).Level, c.n)
		require.Equal(t, c.user, processes(c.n, false).Level, c.n)
		require.Equal(t, levelOK, processes(c.n, true).Level, "root is not bound")
	}
	d := newDoctor(nil)
	for use, want := range map[diskUse]level{
		{Free: 50 << 30, Inode: 1 << 20}:   levelOK,
		{Free: 50 << 30, NoInodes: true}:   levelOK,
		{Free: 50 << 30, Inode: 12}:        levelProblem,
		{Free: 2 << 30, Inode: 1 << 20}:    levelWarning,
		{Free: 2 << 20, Inode: 1 << 20}:    levelProblem,
		{Free: 900 << 20, NoInodes: false}: levelProblem,
	} {
		d.space = func(string) (diskUse, error) { return use, nil }
		require.Equal(t, want, d.spaceFinding("/x", "fix").Level, use)
	}
	d.space = diskSpace
	require.Equal(t, levelWarning, d.spaceFinding("/no/such/place", "fix").Level)
	use, err := diskSpace(t.TempDir())
	require.NoError(t, err)
	require.Positive(t, use.Free)
}

func TestVersionsAreComparedByNumber(t *testing.T) {
	for version, old := range map[string]bool{"1.41": false, "1.46": false, "2.0": false, "1.40": true, "1.9": true, "": true, "new": true} {
		require.Equal(t, old, olderThan(version, oldestAPI), version)
	}
}

func TestASmallBridgeIsAWarning(t *testing.T) {
	require.Equal(t, levelWarning, engineNetwork(docker.Report{Bridge: true, Ranges: []string{"10.0.0.0/25"}}).Level)
	f := engineNetwork(docker.Report{Bridge: true, Ranges: []string{"172.17.0.0/16", "fd00::/64"}})
	require.Equal(t, levelOK, f.Level)
	require.Contains(t, f.Found, "65533")
}

// someFindings has every level, a fix, and text that came from elsewhere.
var someFindings = []finding{
	{Part: "program", Check: "version", Level: levelOK, Found: "hermes-env dev <&>"},
	{Part: "docker", Check: "engine", Level: levelProblem, Found: "no container\nengine \x1b[31manswers", Fix: "start one"},
	{Part: "docker", Check: "space", Level: levelWarning, Found: "3.0 GiB", Fix: "prune"},
}

func TestFindingsArePrintedForPeopleAndPrograms(t *testing.T) {
	r := newDoctorReport(someFindings)
	var b bytes.Buffer
	require.NoError(t, r.writeJSON(&b))
	golden(t, "doctor.json", b.Bytes())
	utf8 := func(name string) (string, bool) { return "de_DE.UTF-8", name == "LANG" }
	ascii := func(name string) (string, bool) {
		return map[string]string{"LANG": "de_DE.UTF-8", "LC_ALL": "C"}[name], true
	}
	for name, l := range map[string]look{
		"doctor.txt":       doctorLook(&b, utf8),
		"doctor_ascii.txt": doctorLook(&b, ascii),
		"doctor_color.txt": {marks: doctorLook(&b, utf8).marks, color: true},
	} {
		b.Reset()
		require.NoError(t, r.writeText(&b, l))
		golden(t, name, b.Bytes())
	}
}
