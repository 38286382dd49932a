package docker_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox/docker/dockertest"
)

// journal collects what a provider tells, from many goroutines.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) note(lines ...string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	fmt.Fprintln(&j.text, strings.Join(lines, ": "))
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// telling returns a config that tells the journal everything, tries again at once
// and finds its logins in dir.
func telling(j *journal, dir string) docker.Config {
	return docker.Config{
		Progress: func(image, line string) { j.note(image, line) },
		Warn:     func(m string) { j.note(m) },
		Getenv: func(name string) (string, bool) {
			if name == "DOCKER_CONFIG" {
				return dir, true
			}
			return os.LookupEnv(name)
		},
	}.WithQuickRetries()
}

func TestTroubleThatPassesIsWaitedForAndOtherTroubleIsNot(t *testing.T) {
	for name, c := range map[string]struct {
		fails          int // answers that fail; the engine asks once or twice each time
		status         int
		code, message  string
		is             error
		want           string
		atMost, tellOf string
	}{
		"a server that is down for a moment": {fails: 2, status: 503, code: "UNAVAILABLE", message: "come back later", tellOf: "pulling again in"},
		"a server that stays down":           {fails: 1000, status: 500, code: "UNKNOWN", message: "broken", want: "check the network", tellOf: "pulling again in"},
		"a rate limit that passes":           {fails: 2, status: 429, code: "TOOMANYREQUESTS", message: "You have reached your pull rate limit", tellOf: "pulling again in"},
		"a rate limit that stays":            {fails: 1000, status: 429, code: "TOOMANYREQUESTS", message: "You have reached your pull rate limit", is: docker.ErrRateLimited, want: "env.max_image_pulls"},
		"no such image":                      {fails: 1000, status: 404, code: "MANIFEST_UNKNOWN", message: "manifest unknown", is: docker.ErrImageNotFound, want: "check its name"},
		"a name nobody may have":             {fails: 1000, status: 403, code: "DENIED", message: "requested access to the resource is denied", is: docker.ErrImageDenied, want: "docker login"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var j journal
			p := newProvider(t, telling(&j, t.TempDir()))
			r := newRegistry(t)
			var failed atomic.Int64
			r.answer = func(w http.ResponseWriter, _ *http.Request, _, what string) bool {
				if what != "manifests" || failed.Add(1) > int64(c.fails) {
					return false
				}
				refuse(w, c.status, c.code, c.message)
				return true
			}
			err := p.Prepare(t.Context(), sandbox.Spec{Image: r.image("x")})
			if c.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.want)
			}
			if c.is != nil {
				require.ErrorIs(t, err, c.is)
			}
			if c.tellOf == "" && c.is != docker.ErrRateLimited {
				require.NotContains(t, j.String(), "again")
			}
			require.Contains(t, j.String(), c.tellOf)
		})
	}
}

func TestALayerThatIsNotWhatItShouldBeIsAnError(t *testing.T) {
	t.Parallel()
	var j journal
	p := newProvider(t, telling(&j, t.TempDir()))
	r := newRegistry(t)
	r.answer = func(w http.ResponseWriter, q *http.Request, _, what string) bool {
		if what == "layer" && q.Method == http.MethodGet {
			_, _ = w.Write([]byte("something else"))
			return true
		}
		return false
	}
	err := p.Prepare(t.Context(), sandbox.Spec{Image: r.image("broken")})
	require.ErrorContains(t, err, "pull the image "+r.ref("broken"))
	_, err = p.Create(t.Context(), sandbox.Spec{Image: r.ref("broken")})
	require.Error(t, err)
}

func TestLoginsComeFromTheFileAndFromHelpersAndAreNeverTold(t *testing.T) {
	const secret = "very-secret-password"
	bin := t.TempDir()
	helper := func(name, script string) {
		require.NoError(t, os.WriteFile(filepath.Join(bin, "docker-credential-"+name), []byte("#!/bin/sh\n"+script), 0o755))
	}
	helper("good", `read host; [ "$1" = get ] && printf '{"ServerURL":"%s","Username":"me","Secret":"`+secret+`"}' "$host"`)
	helper("none", `echo "credentials not found in native keychain"; exit 1`)
	helper("bad", `echo "`+secret+`"; echo "`+secret+`" >&2; exit 3`)
	helper("garbage", `echo "`+secret+`"`)
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	stored := base64.StdEncoding.EncodeToString([]byte("me:" + secret))
	for name, c := range map[string]struct {
		config string // HOST stands for the registry
		want   string // in the error
		told   string
	}{
		"no file":                   {"", "docker login", ""},
		"auths":                     {`{"auths":{"HOST":{"auth":"` + stored + `"}}}`, "", ""},
		"auths by URL":              {`{"auths":{"https://HOST/v1/":{"auth":"` + stored + `"}}}`, "", ""},
		"user and password apart":   {`{"auths":{"HOST":{"username":"me","password":"` + secret + `"}}}`, "", ""},
		"auths of another registry": {`{"auths":{"r.example":{"auth":"` + stored + `"}}}`, "docker login", ""},
		"a wrong password":          {`{"auths":{"HOST":{"auth":"bWU6d3Jvbmc="}}}`, "docker login", ""},
		"auths that are no base64":  {`{"auths":{"HOST":{"auth":"` + secret + `"}}}`, "docker login", "not base64"},
		"no JSON":                   {secret, "docker login", "not the JSON"},
		"a store":                   {`{"credsStore":"good"}`, "", ""},
		"a helper":                  {`{"credHelpers":{"HOST":"good"},"credsStore":"bad"}`, "", ""},
		"a helper without a login":  {`{"credsStore":"none","auths":{"HOST":{"auth":"` + stored + `"}}}`, "", ""},
		"a helper that fails":       {`{"credsStore":"bad"}`, "docker login", "exit code 3"},
		"a helper that is no JSON":  {`{"credsStore":"garbage"}`, "docker login", "did not answer with JSON"},
		"a helper that is missing":  {`{"credsStore":"missing"}`, "docker login", "docker-credential-missing"},
		"a helper's name as a path": {`{"credsStore":"../../bin/sh"}`, "docker login", "can't be a program's name"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRegistry(t)
			r.user = "me:" + secret
			dir := t.TempDir()
			if c.config != "" {
				require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(strings.ReplaceAll(c.config, "HOST", r.host())), 0o600))
			}
			var j journal
			p := newProvider(t, telling(&j, dir))
			err := p.Prepare(t.Context(), sandbox.Spec{Image: r.image("private")})
			if c.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, docker.ErrImageDenied)
				require.ErrorContains(t, err, c.want)
				require.NotContains(t, err.Error(), secret)
			}
			require.Contains(t, j.String(), c.told)
			require.NotContains(t, j.String(), secret)
			require.NotContains(t, j.String(), stored)
		})
	}
}

func TestThePolicyDecidesWhenImagesArePulled(t *testing.T) {
	var j journal
	r := newRegistry(t)
	image := r.image("policy")
	with := func(policy docker.PullPolicy) *docker.Provider {
		c := telling(&j, t.TempDir())
		c.Pull = policy
		return newProvider(t, c)
	}
	err := with(docker.PullNever).Prepare(t.Context(), sandbox.Spec{Image: image})
	require.ErrorIs(t, err, docker.ErrImageNotFound)
	require.ErrorContains(t, err, "env.image_pull is never")
	require.Zero(t, r.asked("policy"))
	require.NoError(t, with(docker.PullMissing).Prepare(t.Context(), sandbox.Spec{Image: image}))
	once := r.asked("policy")
	require.NoError(t, with(docker.PullMissing).Prepare(t.Context(), sandbox.Spec{Image: image}))
	require.NoError(t, with(docker.PullNever).Prepare(t.Context(), sandbox.Spec{Image: image}))
	require.Equal(t, once, r.asked("policy"))
	always := with(docker.PullAlways)
	require.NoError(t, always.Prepare(t.Context(), sandbox.Spec{Image: image}))
	require.Greater(t, r.asked("policy"), once)
	twice := r.asked("policy")
	require.NoError(t, always.Prepare(t.Context(), sandbox.Spec{Image: image}), "once for each provider")
	require.Equal(t, twice, r.asked("policy"))
	_, err = docker.New(docker.Config{Pull: "sometimes"})
	require.ErrorContains(t, err, "missing, always and never")
}

// slow makes a registry that holds layers back until proceed is called, and tells
// when one is asked for. Engines of version 20 don't hang up on an answer that does
// not come, so that nothing here tells that they have lost interest.
func slow(t *testing.T) (r *registry, begun chan string, proceed func()) {
	r = newRegistry(t)
	begun = make(chan string, 100)
	hold := make(chan struct{})
	proceed = sync.OnceFunc(func() { close(hold) })
	t.Cleanup(proceed)
	r.answer = func(_ http.ResponseWriter, q *http.Request, image, what string) bool {
		if what != "layer" || q.Method != http.MethodGet {
			return false
		}
		begun <- image
		<-hold
		return false
	}
	return r, begun, proceed
}

func TestWhoLeavesLastEndsAPullAndNobodyBefore(t *testing.T) {
	var j journal
	share := docker.NewShare(0, 0)
	config := telling(&j, t.TempDir())
	config.Share = share
	one, two := newProvider(t, config), newProvider(t, config)
	r, begun, proceed := slow(t)
	begin := func(p *docker.Provider, image string) (context.CancelCauseFunc, chan error) {
		ctx, cancel := context.WithCancelCause(t.Context())
		t.Cleanup(func() { cancel(nil) })
		ended := make(chan error, 1)
		go func() { ended <- p.Prepare(ctx, sandbox.Spec{Image: image}) }()
		return cancel, ended
	}
	gone := errors.New("gone")
	leave1, ended1 := begin(one, r.image("alone"))
	<-begun
	leave1(gone)
	require.ErrorIs(t, <-ended1, gone)
	require.Zero(t, share.Waiting(), "nobody else wanted it, so it has ended")

	image := r.image("shared")
	leave1, ended1 = begin(one, image)
	<-begun
	asked := r.asked("shared")
	_, ended2 := begin(two, image)
	// The second has joined when the first may leave without an end of the pull.
	require.Eventually(t, func() bool { return share.Waiting() == 2 }, waitLimit, waitStep)
	leave1(gone)
	require.ErrorIs(t, <-ended1, gone)
	proceed()
	require.NoError(t, <-ended2)
	require.Equal(t, asked, r.asked("shared"), "one pull for both providers")
}

func TestNoMoreImagesArePulledAtOnceThanAllowed(t *testing.T) {
	var j journal
	config := telling(&j, t.TempDir())
	config.Share = docker.NewShare(1, 1)
	p := newProvider(t, config)
	r, begun, proceed := slow(t)
	ended := make(chan error, 3)
	for i := range 3 {
		image := r.image(fmt.Sprint("image", i))
		go func() { ended <- p.Prepare(t.Context(), sandbox.Spec{Image: image}) }()
	}
	first := <-begun
	require.Eventually(t, func() bool { return config.Share.Waiting() == 3 }, waitLimit, waitStep)
	require.Equal(t, 1, strings.Count(j.String(), ": pulling\n"), "only %s", first)
	proceed()
	for range 3 {
		require.NoError(t, <-ended)
	}
}

func TestClosingAProviderEndsItsPulls(t *testing.T) {
	var j journal
	p := newProvider(t, telling(&j, t.TempDir()))
	r, begun, _ := slow(t)
	image := r.image("x")
	ended := make(chan error, 1)
	go func() { ended <- p.Prepare(t.Context(), sandbox.Spec{Image: image}) }()
	<-begun
	require.NoError(t, p.Close(t.Context()))
	require.ErrorIs(t, <-ended, sandbox.ErrClosed)
	require.ErrorIs(t, p.Prepare(t.Context(), sandbox.Spec{Image: image}), sandbox.ErrClosed)
}

// has reports whether the engine has an image.
func has(t *testing.T, image string) bool {
	return dockertest.Command(t, "images", "-q", image) != ""
}

func TestImagesBeyondTheBudgetGoWhenNobodyNeedsThem(t *testing.T) {
	var j journal
	r := newRegistry(t)
	before := r.image("before")
	dockertest.Command(t, "pull", before)
	config := telling(&j, t.TempDir())
	config.ImageBudget, config.ImageIdle = 1, 1 // one byte, one nanosecond
	p := newProvider(t, config)
	planned, used, free := r.image("planned"), r.image("used"), r.image("free")
	release := p.Retain(sandbox.Spec{Image: planned})
	s := open(t, p, sandbox.Spec{Image: used})
	for _, image := range []string{before, planned, free} {
		require.NoError(t, p.Prepare(t.Context(), sandbox.Spec{Image: image}))
	}
	require.Eventually(t, func() bool { return !has(t, free) }, waitLimit, waitStep)
	require.True(t, has(t, used), "a sandbox uses it")
	require.True(t, has(t, planned), "an attempt is planned")
	require.Eventually(t, func() bool { return strings.Contains(j.String(), free+": removed") }, waitLimit, waitStep)

	// What was removed comes back when it is wanted again.
	again := open(t, p, sandbox.Spec{Image: free})
	require.NoError(t, again.Close(t.Context()))
	require.NoError(t, s.Close(t.Context()))
	release()
	release()
	require.Eventually(t, func() bool { return !has(t, used) && !has(t, planned) && !has(t, free) }, waitLimit, waitStep)
	require.NoError(t, p.Close(t.Context()))
	require.True(t, has(t, before), "it was there before")
}
