package docker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// fakeEngine answers what building needs; builder says how each version of the
// builder ends.
type fakeEngine struct {
	mu     sync.Mutex
	builds []string // versions asked for
	built  bool
}

func (f *fakeEngine) connect(t *testing.T, builder func(version string, try int) string) *images {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Api-Version", "1.41")
		path := q.URL.Path[max(0, strings.Index(q.URL.Path[1:], "/")+1):]
		switch {
		case strings.HasSuffix(q.URL.Path, "/info"):
			fmt.Fprint(w, `{"ServerVersion":"20.10.0","OSType":"linux","Architecture":"x86_64"}`)
		case strings.HasSuffix(path, "/build"):
			version := q.URL.Query().Get("version")
			f.builds = append(f.builds, version)
			_, _ = io.Copy(io.Discard, q.Body)
			if text := builder(version, len(f.builds)); text != "" {
				_ = json.NewEncoder(w).Encode(map[string]any{"error": text, "errorDetail": map[string]any{"message": text}})
				return
			}
			f.built = true
			fmt.Fprint(w, `{"stream":"done\n"}`)
		case strings.HasSuffix(path, "/json") && f.built:
			fmt.Fprint(w, `{"Id":"sha256:built"}`)
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"message":"No such image"}`)
		}
	}))
	t.Cleanup(s.Close)
	e, err := connect(t.Context(), endpoint{host: "tcp://" + strings.TrimPrefix(s.URL, "http://")})
	require.NoError(t, err)
	c, err := (Config{ImageLimit: time.Minute}).WithQuickRetries().withDefaults()
	require.NoError(t, err)
	i := newImages(t.Context(), e, c, map[string]string{})
	t.Cleanup(func() {
		i.close()
		require.NoError(t, e.close())
	})
	return i
}

func TestTheClassicBuilderStepsInWhereBuildKitCanNotBeUsed(t *testing.T) {
	const plain, kit = "FROM scratch\nCOPY a /\n", "FROM scratch\nRUN --mount=type=cache,target=/c true\n"
	for name, c := range map[string]struct {
		dockerfile string
		builder    func(version string, try int) string
		builds     string
		want       string
	}{
		"BuildKit works":       {kit, func(string, int) string { return "" }, "2", ""},
		"it wants a session":   {plain, refuse2("failed to solve: no active sessions"), "2 1", ""},
		"there is none":        {plain, refuse2("buildkit is not supported by this daemon"), "2 1", ""},
		"it is needed":         {kit, refuse2("no active session for abc"), "2", "RUN --mount in line 2 needs BuildKit"},
		"the network fails":    {plain, func(_ string, try int) string { return map[bool]string{true: "unexpected HTTP status: 503"}[try < 3] }, "2 2 2", ""},
		"a step fails":         {plain, func(string, int) string { return "executor failed running [/bin/sh -c x]: exit code: 9" }, "2", "exit code: 9"},
		"the disk is full":     {plain, func(string, int) string { return "write /var/lib/docker/x: no space left on device" }, "2", "docker image prune"},
		"an unknown heredoc":   {"FROM scratch\nRUN <<EOF\ntrue\nEOF\n", func(string, int) string { return "dockerfile parse error line 3: unknown instruction: TRUE" }, "2", "line 2 begins a here-document"},
		"a Dockerfile's error": {plain, func(string, int) string { return "failed to compute cache key: \"/a\" not found" }, "2", "not found"},
	} {
		t.Run(name, func(t *testing.T) {
			var f fakeEngine
			i := f.connect(t, c.builder)
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(c.dockerfile), 0o600))
			info, err := i.built(t.Context(), dir, sandbox.BuildOptions{})
			require.Equal(t, c.builds, strings.Join(f.builds, " "))
			if c.want != "" {
				require.ErrorContains(t, err, c.want)
				return
			}
			require.NoError(t, err)
			require.Equal(t, "sha256:built", info.ID)
		})
	}
}

func refuse2(text string) func(string, int) string {
	return func(version string, _ int) string {
		if version == "2" {
			return text
		}
		return ""
	}
}

func TestADockerfileTellsWhatItStartsFromAndNeeds(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		args map[string]string
		want recipe
	}{
		"stages":         {"FROM a:1 AS one\nFROM b@sha256:00\nCOPY --from=one x y\nCOPY --from=0 x y\nCOPY --from=c:2 x y\nFROM scratch\nFROM a:1\n", nil, recipe{bases: []string{"a:1", "b@sha256:00", "c:2"}}},
		"arguments":      {"ARG V=1\nARG W=\"2\"\nFROM a:$V\nFROM b:${W}\nFROM c:${X:-3}\nFROM d:${Y}\nFROM e:${V:+x}\n", nil, recipe{bases: []string{"a:1", "b:2", "c:3", "e:x"}}},
		"given values":   {"ARG V=1\nFROM a:$V\n", map[string]string{"V": "9"}, recipe{bases: []string{"a:9"}}},
		"a platform":     {"FROM --platform=linux/arm64 a\nFROM b\n", nil, recipe{bases: []string{"b"}}},
		"directives":     {"# syntax=docker/dockerfile:1\n# escape=`\nFROM a\nRUN x `\n  FROM y\n", nil, recipe{bases: []string{"a"}, syntax: "docker/dockerfile:1"}},
		"continued":      {"FROM a\nRUN true \\\n# a comment\n\n  && FROM\nFROM b\n", nil, recipe{bases: []string{"a", "b"}}},
		"a mount":        {"FROM a\nRUN --mount=type=bind,from=img:1,target=/x true\n", nil, recipe{bases: []string{"a", "img:1"}, needs: "RUN --mount in line 2"}},
		"a mode":         {"FROM a\nCOPY --chmod=755 x y\n", nil, recipe{bases: []string{"a"}, needs: "COPY --chmod in line 2"}},
		"here-documents": {"FROM a\nRUN <<EOF cat <<-'X'\nFROM no\nEOF\nFROM no\nX\nFROM b\n", nil, recipe{bases: []string{"a", "b"}, needs: "the here-document of line 2", heredoc: 2}},
		"a mark":         {"\ufefffrom a\n", nil, recipe{bases: []string{"a"}}},
		"nonsense":       {"FROM\nCOPY\n\x00\nFROM --x\n", nil, recipe{}},
	} {
		require.Equal(t, c.want, readRecipe([]byte(c.text), sandbox.BuildOptions{Args: c.args}), name)
	}
}

func FuzzDockerfilesAreReadWithoutAPanic(f *testing.F) {
	f.Add("# syntax=x\nARG A=1\nFROM a:${A:-2} AS b\nRUN <<E\nx\nE\nCOPY --from=b x y\n")
	f.Add("FROM a \\\n")
	f.Fuzz(func(t *testing.T, text string) {
		readRecipe([]byte(text), sandbox.BuildOptions{})
		out, err := io.ReadAll(withoutSyntax(strings.NewReader(text)))
		if err != nil || len(out) != len(text) {
			t.Fatalf("%d bytes became %d, %v", len(text), len(out), err)
		}
	})
}

func TestTheSyntaxLineIsDroppedAndNothingElse(t *testing.T) {
	const text = "# escape=`\n#syntax = docker/dockerfile:1\nFROM a\n# syntax=no\n"
	out, err := io.ReadAll(withoutSyntax(strings.NewReader(text)))
	require.NoError(t, err)
	require.Equal(t, strings.Replace(text, "syntax =", "syntax  ", 1), string(out))
	require.Empty(t, readRecipe(out, sandbox.BuildOptions{}).syntax)
}

// field encodes one field of a message.
func field(number protowire.Number, content string) string {
	return string(protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), content))
}

func TestBuildKitsReportsBecomeLines(t *testing.T) {
	step := field(vertexDigest, "sha256:1") + field(vertexName, "[1/2] RUN x")
	report := func(parts ...string) json.RawMessage {
		data, err := json.Marshal([]byte(strings.Join(parts, "")))
		require.NoError(t, err)
		return data
	}
	trace := newBuildTrace()
	require.Empty(t, trace.lines(report(field(statusVertex, step))), "it has not begun")
	begun := step + field(vertexStarted, "\x08\x01")
	require.Equal(t, []string{"[1/2] RUN x"}, trace.lines(report(field(statusVertex, begun))))
	require.Equal(t, []string{"out", "more"}, trace.lines(report(field(statusVertex, begun), field(statusLog, field(logMessage, "out\nmore\r\n")))))
	require.Equal(t, []string{"failed: exit 1"}, trace.lines(report(field(statusVertex, begun+field(vertexError, "exit 1")))))
	cached := field(vertexDigest, "2") + field(vertexName, "COPY") + string(protowire.AppendVarint(protowire.AppendTag(nil, vertexCached, protowire.VarintType), 1)) + field(vertexStarted, "")
	require.Equal(t, []string{"COPY (cached)"}, trace.lines(report(field(statusVertex, cached))))
	require.Empty(t, trace.lines(json.RawMessage(`{}`)))
}

func FuzzBuildReportsNeverPanic(f *testing.F) {
	f.Add([]byte(field(statusVertex, field(vertexDigest, "d")+field(vertexName, "n")+field(vertexStarted, ""))))
	f.Add([]byte{0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, report []byte) {
		aux, err := json.Marshal(report)
		require.NoError(t, err)
		for _, line := range newBuildTrace().lines(aux) {
			require.LessOrEqual(t, len(line), 2*maxTraceLine)
		}
	})
}

func TestHostileFoldersAreNotBuilt(t *testing.T) {
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "Dockerfile"), []byte("FROM x\n"), 0o600))
	for want, prepare := range map[string]func(dir string) error{
		"escapes": func(dir string) error {
			return os.Symlink(filepath.Join(outside, "Dockerfile"), filepath.Join(dir, "Dockerfile"))
		},
		"no file":   func(dir string) error { return os.Mkdir(filepath.Join(dir, "Dockerfile"), 0o700) },
		"is no fil": func(dir string) error { return syscall.Mkfifo(filepath.Join(dir, "Dockerfile"), 0o600) },
	} {
		dir := t.TempDir()
		require.NoError(t, prepare(dir))
		_, err := readBuildFolder(t.Context(), dir, sandbox.BuildOptions{})
		require.ErrorContains(t, err, want)
	}
}

func TestImagesAreRemovedInTheOrderInWhichTheyWereLeft(t *testing.T) {
	var removed []string
	b := newBudget(25, time.Nanosecond)
	b.remove = func(_ context.Context, ref string) error {
		if ref == "held" {
			return fmt.Errorf("a container uses it")
		}
		removed = append(removed, ref)
		return nil
	}
	b.forget, b.tell = func(string) {}, func(string, string) {}
	for _, name := range []string{"held", "a", "b", "c", "needed", "named"} {
		b.brought(name, name, imageInfo{Size: 10})
	}
	release := b.retain("needed")
	b.named("other", "named")
	releaseOther := b.retain("other")
	time.Sleep(time.Microsecond)
	b.trim(t.Context(), b.limit, b.idle)
	require.Equal(t, []string{"a", "b", "c"}, removed, "what is needed and what can't be removed stay, although it is too much")
	release()
	releaseOther()
	releaseOther()
	require.Equal(t, 2, b.clear(t.Context()))
	require.EqualValues(t, 10, b.held())
}

func TestLabelsOfBuiltImagesTellTheirOwner(t *testing.T) {
	container := map[string]string{labelPID: "1", labelStart: "2", labelBoot: "b", labelPlace: "p", labelRun: "r"}
	image := buildLabels(container)
	require.Len(t, image, 5)
	require.Equal(t, container, buildOwner(image))
	for name := range container {
		require.NotContains(t, image, name, "containers inherit the labels of their image")
	}
}

func TestALoginDoesNotPrintItself(t *testing.T) {
	l := login{Username: "me", Password: "secret"}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		require.NotContains(t, fmt.Sprintf(verb, l), "secret")
	}
}

func FuzzComposeFilesNeverReachTheMachine(f *testing.F) {
	f.Add("services:\n  main: {image: x, privileged: true, volumes: ['/:/x']}\n")
	f.Add("a: &a {<<: *a}\n")
	f.Add("services: {main: {image: '${A:-x}', cap_add: [ALL]}}\nvolumes: {v: {driver_opts: {device: /}}}\n")
	f.Fuzz(func(t *testing.T, text string) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "compose.yaml"), []byte(text), 0o600))
		spec := sandbox.Spec{Image: "x", Compose: &sandbox.Compose{File: dir}}
		p := &Provider{config: Config{PIDs: 1, MemoryBytes: 1}, engine: &engine{}}
		j, err := p.newProject(spec)
		if err != nil {
			return
		}
		rendered, err := j.render(map[string]string{"l": "v"})
		require.NoError(t, err)
		var parsed struct {
			Services map[string]map[string]any
		}
		require.NoError(t, yaml.Unmarshal(rendered, &parsed), "%s", rendered)
		for _, s := range parsed.Services {
			for _, key := range []string{"privileged", "devices", "ports", "container_name", "build", "env_file", "volumes_from", "cgroup_parent", "userns_mode"} {
				require.NotContains(t, s, key)
			}
			require.Equal(t, []any{"ALL"}, s["cap_drop"])
		}
	})
}
