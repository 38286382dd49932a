package terminalbench

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/hermes-env/hermes-env/env/dataset/harbor"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// artifactsDir is where a run keeps what tasks want kept, below its directory.
const artifactsDir = "artifacts"

// standardArtifacts is kept of every task that leaves something there.
const standardArtifacts = "/logs/artifacts"

// keptArtifact is what a record says of one.
type keptArtifact struct {
	Source  string `json:"source"`
	File    string `json:"file,omitempty"` // below the run directory
	Problem string `json:"problem,omitempty"`
}

// keepArtifacts copies what the task wants kept from the agent's container into the run
// directory. Nothing of that decides a score: what can't be had is noted.
func (v *verification) keepArtifacts(ctx context.Context) {
	left := v.e.own.MaxArtifactsMB << 20
	if v.e.runDir == "" || left == 0 {
		return
	}
	box, err := v.tc.Sandbox(ctx)
	if err != nil {
		return // the verification has said so
	}
	wanted := append([]harbor.Artifact{{Source: standardArtifacts}}, v.task.config.Artifacts...)
	wanted = append(wanted, v.part.artifacts...)
	base := filepath.Join(artifactsDir, v.tc.Spec().Rollout, v.part.name)
	for _, a := range wanted {
		kept := keptArtifact{Source: a.Source}
		target := path.Clean("/" + a.Destination)
		if a.Destination == "" {
			target = path.Clean("/" + a.Source)
		}
		if a.Source == standardArtifacts {
			target = "/"
		}
		switch {
		case a.Service != "" && a.Service != "main":
			kept.Problem = "it is in the service " + a.Service + ", of which nothing is kept"
		case !path.IsAbs(a.Source):
			kept.Problem = "its path is not absolute"
		case left <= 0:
			kept.Problem = "what came before it used up env.max_artifacts_mb"
		default:
			at := filepath.Join(base, filepath.FromSlash(target))
			n, err := copyArtifact(ctx, box, a, filepath.Join(v.e.runDir, at), left)
			left -= n
			if a.Source == standardArtifacts && n == 0 && err == nil {
				continue
			}
			kept.File = filepath.ToSlash(at)
			if err != nil {
				kept.Problem = err.Error()
			}
		}
		v.report.Artifacts = append(v.report.Artifacts, kept)
	}
}

// copyArtifact copies a path to a path of this machine: what is below a directory, or a
// file. It returns the bytes of the files, also of those copied before an error.
func copyArtifact(ctx context.Context, box sandbox.Sandbox, a harbor.Artifact, target string, most int64) (n int64, err error) {
	stream, err := box.Download(ctx, a.Source)
	if errors.Is(err, fs.ErrNotExist) {
		if a.Source == standardArtifacts {
			return 0, nil
		}
		return 0, errors.New("it is not there")
	}
	if err != nil {
		return 0, err
	}
	defer stream.Close()
	r, w := io.Pipe()
	counted := make(chan int64, 1)
	go func() {
		n, err := filterArtifact(tar.NewReader(stream), tar.NewWriter(w), a.Exclude, filepath.Base(target))
		_ = w.CloseWithError(err) // nil means end of file
		counted <- n
	}()
	parent := filepath.Dir(target)
	err = sandbox.ExtractTar(ctx, r, parent, sandbox.TarLimits{MaxBytes: most, MaxEntries: 20_000})
	_ = r.CloseWithError(errStopped)
	return <-counted, err
}

// filterArtifact passes an archive on under another name, without what is excluded and
// without what is neither a file nor a directory: links may lead anywhere.
func filterArtifact(in *tar.Reader, out *tar.Writer, exclude []string, name string) (n int64, err error) {
	for first := true; ; first = false {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return n, out.Close()
		}
		if err != nil {
			return n, err
		}
		_, inner, _ := strings.Cut(strings.Trim(h.Name, "/"), "/")
		switch {
		case h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeDir:
			if first {
				return n, fmt.Errorf("it is neither a file nor a directory")
			}
			continue
		case excluded(inner, exclude), first && h.Typeflag == tar.TypeDir:
			continue // the directory itself comes with what is in it
		}
		kept := tar.Header{Typeflag: h.Typeflag, Name: path.Join(name, inner), Size: h.Size, Mode: h.Mode&0o777 | 0o600, ModTime: h.ModTime}
		if h.Typeflag == tar.TypeDir {
			kept.Name, kept.Mode = kept.Name+"/", 0o755
		}
		if err := out.WriteHeader(&kept); err != nil {
			return n, err
		}
		size, err := io.Copy(out, in)
		if n += size; err != nil {
			return n, err
		}
	}
}

// excluded says whether a name below an artifact matches one of the patterns, itself or
// through a directory above it.
func excluded(name string, patterns []string) bool {
	for ; name != "" && name != "."; name = path.Dir(name) {
		for _, p := range patterns {
			p = strings.Trim(p, "/")
			whole, _ := path.Match(p, name)
			last, _ := path.Match(p, path.Base(name))
			if whole || last {
				return true
			}
		}
	}
	return false
}
