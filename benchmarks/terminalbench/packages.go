package terminalbench

import (
	"archive/tar"
	"context"
	"io"
	"slices"
	"strings"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// packageDatabases change when packages are installed or upgraded.
var packageDatabases = []string{"/var/lib/dpkg/status", "/lib/apk/db/installed", "/usr/lib/apk/db/installed", "/var/lib/rpm", "/usr/lib/sysimage/rpm", "/var/lib/pacman/local"}

// readableDatabases are those that list packages as text.
var readableDatabases = packageDatabases[:3]

// maxDatabase bounds what is read of a list of packages.
const maxDatabase = 64 << 20

// upgraded says whether the database of a package manager changed.
func upgraded(changes []sandbox.Change) bool {
	return slices.ContainsFunc(changes, func(c sandbox.Change) bool { return slices.Contains(packageDatabases, c.Path) })
}

// findPackages finds out whether the agent installed packages of the distribution: a list
// of packages has one, or a version, that the image's list lacks. A list that the image
// does not have proves nothing.
func (v *verification) findPackages(ctx context.Context) error {
	v.installed = false
	var lists []string
	for _, c := range v.changes {
		switch {
		case slices.Contains(readableDatabases, c.Path):
			if c.Kind == sandbox.Modified {
				lists = append(lists, c.Path)
			}
		case slices.Contains(packageDatabases, c.Path):
			v.installed = true // not a text
		}
	}
	if len(lists) == 0 || v.installed {
		return nil
	}
	image, err := v.tc.Another(ctx, func(s *sandbox.Spec) { s.Healthcheck = nil })
	if err != nil {
		return err
	}
	defer func() { _ = image.Close(ctx) }() // it goes with the rollout's
	for _, name := range lists {
		before, err := readPackages(ctx, image, name)
		if err != nil {
			return infra("read "+name+" of the image", err)
		}
		now, err := readPackages(ctx, v.box, name)
		if err != nil {
			return infra("read "+name, err)
		}
		v.installed = v.installed || before != nil && addsPackages(before, now)
	}
	return nil
}

// readPackages reads a list of packages; nil if it is not a file that can be read.
func readPackages(ctx context.Context, box sandbox.Sandbox, name string) (map[string]bool, error) {
	stream, err := box.Download(ctx, name)
	if notThere(err) || isPermission(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	archive := tar.NewReader(stream)
	h, err := archive.Next()
	if err != nil {
		return nil, err
	}
	if h.Typeflag != tar.TypeReg || h.Size > maxDatabase {
		return nil, nil
	}
	text, err := io.ReadAll(archive)
	if err != nil {
		return nil, err
	}
	return packagesOf(string(text)), nil
}

// packagesOf returns the packages of a list of dpkg or apk, each with version and
// architecture. Those that dpkg lists and that are not installed don't count.
func packagesOf(text string) map[string]bool {
	list := map[string]bool{}
	for stanza := range strings.SplitSeq(text, "\n\n") {
		var name, version, arch string
		installed := true
		for line := range strings.Lines(stanza) {
			key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
			value = strings.TrimSpace(value)
			switch key {
			case "Package", "P":
				name = value
			case "Version", "V":
				version = value
			case "Architecture", "A":
				arch = value
			case "Status":
				installed = strings.HasSuffix(value, " installed")
			}
		}
		if name != "" && version != "" && installed {
			list[name+" "+version+" "+arch] = true
		}
	}
	return list
}

// addsPackages says whether a list has packages that another one lacks.
func addsPackages(before, now map[string]bool) bool {
	for p := range now {
		if !before[p] {
			return true
		}
	}
	return false
}
