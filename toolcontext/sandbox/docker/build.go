package docker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// Labels of images built here. They differ from those of containers, because
// containers inherit the labels of their image.
const (
	labelBuild      = "hermes-env.build" // digest of what it was built from
	labelBuildRun   = "hermes-env.build.run"
	labelBuildPID   = "hermes-env.build.owner-pid"
	labelBuildStart = "hermes-env.build.owner-start"
	labelBuildBoot  = "hermes-env.build.boot-id"
	labelBuildPlace = "hermes-env.build.place"
)

// buildLabels are what images built here carry, from what containers carry.
func buildLabels(container map[string]string) map[string]string {
	return renameKeys(container, map[string]string{
		labelRun: labelBuildRun, labelPID: labelBuildPID, labelStart: labelBuildStart, labelBoot: labelBuildBoot, labelPlace: labelBuildPlace,
	})
}

// buildOwner is the reverse of buildLabels.
func buildOwner(image map[string]string) map[string]string {
	return renameKeys(image, map[string]string{
		labelBuildRun: labelRun, labelBuildPID: labelPID, labelBuildStart: labelStart, labelBuildBoot: labelBoot, labelBuildPlace: labelPlace,
	})
}

func renameKeys(m, names map[string]string) map[string]string {
	renamed := map[string]string{}
	for from, to := range names {
		if v, ok := m[from]; ok {
			renamed[to] = v
		}
	}
	return renamed
}

// buildRepository is what built images are called; the digest of what they are built
// from is their tag.
const buildRepository = "hermes-env/build"

// built returns the image built from a folder. Its name carries the digest of all that
// goes into it, so that what did not change is not built again.
func (i *images) built(ctx context.Context, dir string, o sandbox.BuildOptions) (imageInfo, error) {
	asked := buildKey(dir, o)
	o.Force = o.Force || i.config.ForceBuild
	folder, err := readBuildFolder(ctx, dir, o)
	if err != nil {
		return imageInfo{}, fmt.Errorf("read the folder %s to build an image from: %w", dir, err)
	}
	tag := buildRepository + ":" + folder.digest[:32]
	own := ""
	if o.Force {
		own = fmt.Sprintf("%p\x00", i) // once for each provider
	}
	key := "build\x00" + own + tag
	i.budget.named(asked, key)
	return i.once(ctx, key, own, func(ctx context.Context) (imageInfo, error) {
		info, err := i.engine.image(ctx, tag)
		had := err == nil
		switch {
		case err != nil && !errors.Is(err, errNoImage):
			return imageInfo{}, fmt.Errorf("look for the image %s: %w", tag, err)
		case had && !o.Force:
			return info, nil
		}
		old := info.ID
		if info, err = i.buildImage(ctx, folder, tag, o); err != nil {
			return imageInfo{}, err
		}
		if had && old != info.ID {
			_ = i.engine.untag(ctx, old) // it lost its name; one that is in use is left to cleanup
		}
		if !had {
			i.budget.brought(key, tag, info)
		}
		return info, nil
	})
}

// buildImage gets what a folder starts from, builds it and checks that it did not
// change meanwhile.
func (i *images) buildImage(ctx context.Context, folder *buildFolder, tag string, o sandbox.BuildOptions) (imageInfo, error) {
	recipe, err := folder.recipe(o)
	if err != nil {
		return imageInfo{}, fmt.Errorf("read the Dockerfile of %s: %w", folder.dir, err)
	}
	logins, syntax, err := i.getBases(ctx, folder, recipe)
	if err != nil {
		return imageInfo{}, fmt.Errorf("build an image from %s: %w", folder.dir, err)
	}
	folder.dropSyntax = !syntax
	if err := i.share.builds.Acquire(ctx, 1); err != nil {
		return imageInfo{}, context.Cause(ctx)
	}
	defer i.share.builds.Release(1)
	limit := i.config.ImageLimit
	if o.Timeout > 0 {
		limit = o.Timeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("building an image from %s took longer than %v", folder.dir, limit))
	defer cancel()
	i.config.Progress(tag, "building "+folder.dir)
	b := &buildRun{
		images: i, folder: folder, recipe: recipe,
		request: buildRequest{Dockerfile: folder.dockerfile, Tag: tag, Args: o.Args, Target: o.Target, Logins: logins, NoCache: o.Force, Labels: maps.Clone(i.labels)},
	}
	b.request.Labels[labelBuild] = folder.digest
	if err := b.run(ctx); err != nil {
		return imageInfo{}, err
	}
	i.config.Progress(tag, "built")
	info, err := i.engine.image(ctx, tag)
	if err != nil {
		return imageInfo{}, fmt.Errorf("look for the image %s after building it: %w", tag, err)
	}
	return info, nil
}

// getBases pulls the images that a Dockerfile starts from, with the policy, logins
// and patience of all pulls, which the engine's builders lack. What can't be had is
// left to the builder when only it can know whether it is needed. It reports whether
// the image that the Dockerfile's syntax line names is there.
func (i *images) getBases(ctx context.Context, folder *buildFolder, r recipe) (all map[string]login, syntax bool, err error) {
	all = map[string]login{}
	for _, ref := range r.bases {
		if _, err := i.named(ctx, ref); err != nil {
			return nil, false, err
		}
		l := i.logins.lookup(ctx, ref)
		if !l.isZero() {
			all[l.Server] = l
		}
	}
	if r.syntax == "" {
		return all, true, nil
	}
	if _, err := i.named(ctx, r.syntax); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, false, cause
		}
		i.config.Progress(folder.dir, fmt.Sprintf("the syntax %s of the Dockerfile can't be had, so the builder's own is used: %v", r.syntax, err))
		return all, false, nil
	}
	return all, true, nil
}

// buildRun is one build of a folder, by one builder after the other.
type buildRun struct {
	images  *images
	folder  *buildFolder
	recipe  recipe
	request buildRequest
	last    []string // lines of the build
}

// How often a build is tried whose trouble may pass, and how many of its lines go into
// an error.
const (
	buildTries = 3
	lastLines  = 20
)

func (b *buildRun) run(ctx context.Context) error {
	i := b.images
	b.request.BuildKit = i.engine.hasBuildKit() && !i.classic.Load()
	if !b.request.BuildKit && b.recipe.needs != "" {
		return b.lacksBuildKit(nil)
	}
	for try := 1; ; try++ {
		err := b.once(ctx)
		switch {
		case err == nil:
			return nil
		case context.Cause(ctx) != nil:
			return b.describe(context.Cause(ctx))
		case b.request.BuildKit && refusesBuildKit(err):
			i.classic.Store(true)
			if b.recipe.needs != "" {
				return b.lacksBuildKit(err)
			}
			i.config.Progress(b.request.Tag, fmt.Sprintf("the engine's BuildKit can't be used, so its classic builder is: %v", err))
			b.request.BuildKit = false
			try--
			continue
		}
		kind := diagnose(err)
		if kind == diskFull && try == 1 && i.budget.clear(ctx) > 0 {
			i.config.Progress(b.request.Tag, "the engine's disk was full: removed images that are not needed now, building again")
			continue
		}
		// What a step of the Dockerfile did is not tried again: only what the builder
		// itself could not get.
		if b.failedStep(err) || (kind != transient && kind != rateLimited) || !passing(err) || try >= buildTries {
			return b.explain(kind, err)
		}
		pause := i.pause(kind, try)
		i.config.Progress(b.request.Tag, fmt.Sprintf("building again in %v: %v", pause.Round(100*time.Millisecond), err))
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// once sends the folder to the builder and waits for the image.
func (b *buildRun) once(ctx context.Context) error {
	stream := b.folder.stream(ctx)
	defer stream.Close() // ends its writer, also after a failure
	r := b.request
	r.Context = stream
	b.last = nil
	report := b.images.report(r.Tag)
	trace := newBuildTrace()
	err := b.images.watched(ctx, func(ctx context.Context, progress func(jsonMessage)) error {
		return b.images.engine.build(ctx, r, progress)
	}, func(m jsonMessage) {
		lines := []string{m.Stream}
		if m.ID == traceID {
			lines = trace.lines(m.Aux)
		}
		for _, line := range lines {
			if line = strings.TrimSpace(line); line == "" {
				continue
			}
			b.last = append(b.last, line)
			b.last = b.last[max(0, len(b.last)-lastLines):]
			report(jsonMessage{Stream: line})
		}
	})
	if err != nil {
		return err
	}
	_ = stream.Close() // a builder need not read the padding
	if stream.content() != b.folder.content && !b.folder.dropSyntax {
		if err := b.images.engine.untag(ctx, r.Tag); err != nil {
			return fmt.Errorf("remove the image of a folder that changed: %w", err)
		}
		return errFolderChanged
	}
	return nil
}

// errFolderChanged says that a folder was written to while it was built.
var errFolderChanged = errors.New("the folder changed while it was being built; leave it alone meanwhile")

// stepFailures are how builders say that a command of the Dockerfile failed.
var stepFailures = []string{"returned a non-zero code", "executor failed running", "did not complete successfully", "process \"/"}

// failedStep reports whether a command of the Dockerfile failed, not the builder.
func (b *buildRun) failedStep(err error) bool {
	return slices.ContainsFunc(stepFailures, func(s string) bool { return strings.Contains(err.Error(), s) })
}

// passing reports whether a builder's error is of the network.
func passing(err error) bool {
	text := strings.ToLower(err.Error())
	return slices.ContainsFunc([]string{"timeout", "connection re", "eof", "500 ", "502 ", "503 ", "504 ", "temporary", "tls handshake", "toomanyrequests", "too many requests", "unexpected http status"},
		func(s string) bool { return strings.Contains(text, s) })
}

// refusesBuildKit reports whether an engine's error means that it has no BuildKit, or
// one that wants to talk to its client.
func refusesBuildKit(err error) bool {
	text := strings.ToLower(err.Error())
	return strings.Contains(text, "no active session") || strings.Contains(text, "session not found") || strings.Contains(text, "invalid version") ||
		(strings.Contains(text, "buildkit") && (strings.Contains(text, "not supported") || strings.Contains(text, "not enabled") || strings.Contains(text, "only supported") || strings.Contains(text, "unavailable")))
}

// lacksBuildKit says that a Dockerfile needs what the engine does not have.
func (b *buildRun) lacksBuildKit(err error) error {
	text := ""
	if err != nil {
		text = fmt.Sprintf(" (%v)", err)
	}
	return fmt.Errorf("build an image from %s: %s needs BuildKit, which the engine %s does not offer%s; use Docker 23 or newer, or build the image by hand (docker build) and name it", b.folder.dir, b.recipe.needs, b.images.engine.info.Version, text)
}

// explain says what a failed build means and what to do about it.
func (b *buildRun) explain(kind trouble, err error) error {
	if kind == diskFull && !b.failedStep(err) {
		return b.images.explainFull("build an image from "+b.folder.dir, b.describe(err))
	}
	if b.recipe.heredoc > 0 && strings.Contains(err.Error(), "parse error") {
		err = fmt.Errorf("%w (line %d begins a here-document, which the BuildKit of engine %s does not know by itself; use Docker 23 or newer, or begin the Dockerfile with # syntax=docker/dockerfile:1)", err, b.recipe.heredoc, b.images.engine.info.Version)
	}
	return b.describe(err)
}

// describe adds the last lines of a build to its error.
func (b *buildRun) describe(err error) error {
	if len(b.last) == 0 {
		return fmt.Errorf("build an image from %s: %w", b.folder.dir, err)
	}
	return fmt.Errorf("build an image from %s: %w\nlast lines of the build:\n  %s", b.folder.dir, err, strings.Join(b.last, "\n  "))
}
