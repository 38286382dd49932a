package terminalbench

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/hermes-env/hermes-env/internal/textutil"
	"github.com/hermes-env/hermes-env/toolcontext"
	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// setupFailures are lines that a verifier prints when its own tools could not be
// installed, by what failed. They are conservative: each names the network, a
// package index or a tool that is missing right after its installation, none is
// something that a test of an agent's work prints by itself.
var setupFailures = []struct {
	what    string
	pattern *regexp.Regexp
}{
	{"names could not be resolved", regexp.MustCompile(`(?m)^(?:curl: \(6\) Could not resolve host|wget: (?:unable to resolve host address|bad address)|Err:\d+ .*$\n.*Temporary failure resolving|W: Failed to fetch .*Temporary failure resolving|E: .*Temporary failure resolving)`)},
	{"a download failed", regexp.MustCompile(`(?m)^curl: \((?:5|7|18|22|28|35|52|56|60)\) .*(?:astral\.sh|github\.com|githubusercontent\.com|pypi\.org|pythonhosted\.org|debian\.org|ubuntu\.com)`)},
	{"packages could not be installed", regexp.MustCompile(`(?m)^E: (?:Unable to (?:locate package (?:curl|wget|ca-certificates|git|python3\S*|build-essential|tmux)|fetch some archives)|Failed to fetch|Package '\S+' has no installation candidate|The repository '.*' (?:does not have|no longer has) a Release file)`)},
	{"uv could not be installed or did not find its packages", regexp.MustCompile(`(?mi)^(?:error: (?:failed to (?:download|fetch)|request failed after|could not connect)|\s*×? ?failed to (?:download|fetch|resolve (?:dependencies|requirements)).*(?:$\n.*){0,6}(?:dns error|error sending request|connection (?:refused|reset)|timed? ?out|client error \(connect\)))`)},
	{"uv is missing", regexp.MustCompile(`(?m)(?:^|: )(?:uvx?): (?:command )?not found$`)},
	{"the installer of uv is missing", regexp.MustCompile(`(?m)(?:\.local/bin/env): No such file or directory$`)},
	{"pip could not reach its index", regexp.MustCompile(`(?m)^(?:WARNING: Retrying \(Retry\(total=0|ERROR: Could not (?:install packages due to an OSError: HTTPSConnectionPool|find a version that satisfies the requirement pytest)|ERROR: No matching distribution found for pytest)`)},
	{"curl is missing", regexp.MustCompile(`(?m)^.*test\.sh: (?:line )?\d+: (?:curl|wget|pip3?): (?:command )?not found$`)},
}

// testsRan are what pytest prints once it has run something: then its tools were
// there, and a reward of 0 is a verdict.
var testsRan = regexp.MustCompile(`(?m)^(?:=+ .*\b\d+ (?:passed|failed|error|skipped)\b.* =+$|(?:PASSED|FAILED) \S*test\S*::|collected [1-9]\d* items?)`)

// setupFailure says in words how a verifier's own preparations failed, "" when its
// output does not show that.
func setupFailure(output string) string {
	why, _ := findSetupFailure(output)
	return why
}

// findSetupFailure returns in addition the text that shows it, without the rest of its
// line.
func findSetupFailure(output string) (why, phrase string) {
	if testsRan.MatchString(output) {
		return "", ""
	}
	for _, f := range setupFailures {
		if at := f.pattern.FindString(output); at != "" {
			line, _, _ := strings.Cut(strings.TrimSpace(at), "\n")
			return f.what + ": " + textutil.Quote(line, 60), line
		}
	}
	return "", ""
}

// networkFiles are made by the engine for every container, so that what an agent does
// to them is no change of the image's files. They decide whether a name is found.
var networkFiles = []string{"/etc/resolv.conf", "/etc/hosts"}

// noteNetworkFiles remembers what they are before the agent starts.
func noteNetworkFiles(ctx context.Context, box sandbox.Sandbox, tc *toolcontext.Context) error {
	for _, name := range networkFiles {
		digest, err := digestOf(ctx, box, name)
		if err != nil {
			return infra("read "+name, err)
		}
		tc.Note(name, digest)
	}
	return nil
}

// maxNetworkFile bounds what is read of one.
const maxNetworkFile = 1 << 20

// digestOf returns a digest of a file's beginning, "" where there is no such file.
func digestOf(ctx context.Context, box sandbox.Sandbox, name string) (string, error) {
	stream, err := box.Download(ctx, name)
	if notThere(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer stream.Close()
	archive := tar.NewReader(stream)
	if h, err := archive.Next(); errors.Is(err, io.EOF) || err == nil && h.Typeflag != tar.TypeReg {
		return "", nil // neither a file nor a link to one
	} else if err != nil {
		return "", err
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.LimitReader(archive, maxNetworkFile)); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// decidesDownloads says whether a change can make downloads fail, or come from
// somewhere else: an agent that broke them is no trouble of the network's.
func decidesDownloads(c sandbox.Change, packages bool) bool {
	switch {
	case strings.HasPrefix(c.Path, "/etc/apt/"):
		return true
	case slices.Contains([]string{"/etc/nsswitch.conf", "/etc/host.conf", "/etc/gai.conf", "/etc/gitconfig", "/root/.gitconfig", "/root/.netrc"}, c.Path):
		return c.Kind != sandbox.Deleted
	case slices.Contains([]string{"/etc/ssl/certs/ca-certificates.crt", "/etc/ssl/cert.pem", "/etc/ssl/openssl.cnf", "/usr/lib/ssl/openssl.cnf"}, c.Path):
		return c.Kind != sandbox.Added && !packages
	}
	return strings.HasPrefix(c.Path, "/root/.config/uv/") || strings.HasPrefix(c.Path, "/root/.config/pip/")
}

// installerDirs are directories that installers make where they are missing.
var installerDirs = []string{"/root/.local", "/root/.local/bin", "/root/.local/share", "/root/.cache", "/root/.cache/uv", "/root/.config", "/root/.cargo"}

// blocksInstallers says whether a change seems to have put something else in place of one of
// their directories: nothing is in it.
func blocksInstallers(changes []sandbox.Change, c sandbox.Change) bool {
	return slices.Contains(installerDirs, c.Path) && c.Kind != sandbox.Deleted && !slices.ContainsFunc(changes, func(in sandbox.Change) bool { return strings.HasPrefix(in.Path, c.Path+"/") })
}

// brokenDownloads names what the agent changed that decides about downloads, as far as
// it is where the tests ran.
func (v *verification) brokenDownloads(ctx context.Context) ([]string, error) {
	var found []string
	packages := v.installed
	for _, c := range v.changes {
		if (decidesDownloads(c, packages) || blocksInstallers(v.changes, c)) && len(found) < 5 {
			found = append(found, c.Path)
		}
	}
	if v.report.In != "" {
		return found, nil // with files of the engine's own
	}
	for _, name := range networkFiles {
		before, noted := v.tc.Noted(name)
		now, err := digestOf(ctx, v.root, name)
		if err != nil {
			return nil, infra("read "+name, err)
		}
		if noted && now != before {
			found = append(found, name)
		}
	}
	return found, nil
}

// setupFailed says how the tests' own preparations failed, "" when they did not or
// when the agent has changed what they rely on.
func (v *verification) setupFailed(ctx context.Context, ran sandbox.Result) (string, error) {
	if !v.e.own.DetectSetupFailures {
		return "", nil
	}
	why, phrase := findSetupFailure(ran.Stdout.String())
	if why == "" {
		return "", nil
	}
	source, err := v.foundIn(ctx, phrase)
	if err != nil {
		return "", err
	}
	if source != "" {
		v.report.Notes = append(v.report.Notes, "the output of the tests looks as if they could not install their tools ("+why+"), but "+source+", a file of the agent's, holds that text")
		return "", nil
	}
	changed, err := v.brokenDownloads(ctx)
	if err != nil {
		return "", err
	}
	for _, t := range v.tampered {
		changed = append(changed, t.Path)
	}
	if len(changed) > 0 {
		v.report.Notes = append(v.report.Notes, "the tests could not install their tools ("+why+"), after the agent had changed what they rely on: "+strings.Join(changed[:min(len(changed), 5)], ", "))
		return "", nil
	}
	return why, nil
}

// Bounds of the search for a text in the agent's files.
const (
	maxSearched      = 5000
	maxSearchedBytes = 256 << 20
)

// foundIn names a file of the agent's that holds a text, "" for none: tests that compare or
// print such a file print the text. The first files are searched, up to the bounds.
func (v *verification) foundIn(ctx context.Context, text string) (string, error) {
	changer, ok := v.box.(sandbox.Changer)
	if !ok {
		return "", nil
	}
	var files []sandbox.Change
	for _, c := range v.changes {
		tests := strings.HasPrefix(c.Path, testsDir+"/") || strings.HasPrefix(c.Path, "/logs/")
		if c.Kind != sandbox.Deleted && !v.undone[c.Path] && !tests && len(files) < maxSearched {
			files = append(files, c)
		}
	}
	// Those in the task's directories come first.
	dirs := v.task.workDirs()
	work := func(c sandbox.Change) bool {
		return slices.ContainsFunc(dirs, func(dir string) bool { return strings.HasPrefix(c.Path, dir+"/") })
	}
	slices.SortStableFunc(files, func(a, b sandbox.Change) int {
		switch {
		case work(a) == work(b):
			return 0
		case work(a):
			return -1
		}
		return 1
	})
	if len(files) == 0 {
		return "", nil
	}
	r, w := io.Pipe()
	go func() { _ = w.CloseWithError(changer.Export(ctx, files, w)) }() // nil means end of file
	defer r.Close()
	name, err := fileWith(io.LimitReader(r, maxSearchedBytes), text)
	if err != nil {
		return "", infra("search the agent's files", err)
	}
	return name, nil
}

// fileWith names the first file of an archive that holds a text, "" for none. An archive
// may be cut short.
func fileWith(r io.Reader, text string) (string, error) {
	archive := tar.NewReader(r)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		found, err := holds(archive, []byte(text))
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return "", err
		}
		if found {
			return path.Join("/", h.Name), nil
		}
	}
}

// holds says whether a text is in what a reader has.
func holds(r io.Reader, text []byte) (bool, error) {
	const block = 64 << 10
	buffer := make([]byte, 0, block+len(text))
	for {
		n, err := r.Read(buffer[len(buffer):min(cap(buffer), len(buffer)+block)])
		buffer = buffer[:len(buffer)+n]
		switch {
		case bytes.Contains(buffer, text):
			return true, nil
		case errors.Is(err, io.EOF):
			return false, nil
		case err != nil:
			return false, err
		}
		kept := copy(buffer, buffer[max(0, len(buffer)-len(text)):])
		buffer = buffer[:kept]
	}
}
