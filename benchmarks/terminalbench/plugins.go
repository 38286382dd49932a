package terminalbench

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/hermes-env/hermes-env/toolcontext/sandbox"
)

// Bounds of what is read of the packages that an agent installed.
const (
	maxEntryPoints     = 5000    // lists of entry points
	maxEntryPointBytes = 1 << 20 // of one
)

// listsPlugins says whether a path can be a list of entry points of a Python package, or a
// package's directory of such lists.
func listsPlugins(name string) bool {
	if !sandbox.InPackages(name) && !standardLibrary(name) {
		return false
	}
	return path.Base(name) == "entry_points.txt" || slices.Contains([]string{".dist-info", ".egg-info"}, path.Ext(name))
}

// readEntryPoints looks for plug-ins of pytest among the Python packages that the agent
// installed: they are known by what their list of entry points says. A list that can't be
// read is taken for one of a plug-in.
func (v *verification) readEntryPoints(ctx context.Context, changer sandbox.Changer) error {
	var lists []sandbox.Change
	for _, c := range v.changes {
		switch {
		case c.Kind == sandbox.Deleted || !listsPlugins(c.Path):
		case len(lists) < maxEntryPoints:
			lists = append(lists, c)
		default:
			v.addTampering(c.Path, "plugin")
		}
	}
	if len(lists) == 0 {
		return nil
	}
	r, w := io.Pipe()
	go func() { _ = w.CloseWithError(changer.Export(ctx, lists, w)) }() // nil means end of file
	defer r.Close()
	found, err := pluginLists(r)
	if err != nil {
		return infra("read the entry points of installed packages", err)
	}
	for _, name := range found {
		v.addTampering(name, "plugin")
	}
	return nil
}

// pluginLists returns the files of an archive that list plug-ins of pytest, that are too
// large, or that are links.
func pluginLists(r io.Reader) ([]string, error) {
	var found []string
	archive := tar.NewReader(r)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		plugin := false
		switch {
		case h.Typeflag == tar.TypeDir:
		case h.Typeflag != tar.TypeReg, h.Size > maxEntryPointBytes:
			plugin = true
		default:
			text, err := io.ReadAll(archive)
			if err != nil {
				return nil, err
			}
			plugin = bytes.Contains(text, []byte("pytest11"))
		}
		if plugin {
			found = append(found, path.Join("/", h.Name))
		}
	}
}

// addTampering adds an entry, each path once.
func (v *verification) addTampering(name, what string) {
	if slices.ContainsFunc(v.tampered, func(t tampering) bool { return t.Path == name }) {
		return
	}
	v.tampered = append(v.tampered, tampering{name, what})
	v.report.Tampering = v.tampered[:min(len(v.tampered), maxTampering)]
}

// libraryRoot matches the directories in which Python looks for its own modules.
var libraryRoot = regexp.MustCompile(`/lib/python3\.\d+(?:/lib-dynload)?$`)

// shadowedModules returns new modules in the image's Python libraries that come before, or
// stand for, a module of Python's or pytest's.
func shadowedModules(changes []sandbox.Change) []tampering {
	var found []tampering
	added := "\x00"
	for _, c := range changes { // what is in a directory comes after it
		if c.Kind != sandbox.Added {
			continue
		}
		if strings.HasPrefix(c.Path, added) {
			continue // of a Python that the agent installed
		}
		dir := moduleDir(c.Path)
		if libraryRoot.MatchString(c.Path) {
			added = c.Path + "/"
		}
		if libraryRoot.MatchString(dir) && slices.Contains(pythonModules, moduleName(c.Path)) && judgeChange(c) == "" {
			found = append(found, tampering{c.Path, "patched"})
		}
	}
	return found
}

// nameServices returns new libraries that the C library loads into programs which look up
// names, if their configuration changed.
func nameServices(changes []sandbox.Change) []tampering {
	if !slices.ContainsFunc(changes, func(c sandbox.Change) bool {
		return c.Path == "/etc/nsswitch.conf" && c.Kind != sandbox.Deleted
	}) {
		return nil
	}
	var found []tampering
	for _, c := range changes {
		if c.Kind == sandbox.Added && strings.HasPrefix(path.Base(c.Path), "libnss_") && strings.Contains(path.Base(c.Path), ".so") {
			found = append(found, tampering{c.Path, "loader"})
		}
	}
	return found
}

// maxShadowing bounds the new libraries that are compared with those of the system.
const maxShadowing = 200

// findShadowingLibraries looks for new libraries that the dynamic loader takes in place of
// those of the system: its list is new, and a library of the same name is in one of the
// system's directories.
func (v *verification) findShadowingLibraries(ctx context.Context) error {
	if v.installed || !slices.ContainsFunc(v.changes, func(c sandbox.Change) bool { return c.Path == loaderCache }) {
		return nil
	}
	looked := 0
	for _, c := range v.changes {
		base := path.Base(c.Path)
		if c.Kind == sandbox.Deleted || !strings.HasPrefix(base, "lib") || !strings.Contains(base, ".so.") || !localLibraryDir(path.Dir(c.Path)) {
			continue
		}
		if looked++; looked > maxShadowing {
			v.addTampering(c.Path, "loader")
			return nil
		}
		for _, dir := range []string{"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64", "/lib"} {
			there, err := exists(ctx, v.box, path.Join(dir, base))
			if err != nil {
				return infra("look for libraries of the system", err)
			}
			if there {
				v.addTampering(c.Path, "loader")
				break
			}
		}
	}
	return nil
}

// localLibraryDir says whether the loader's own list names a directory before those of the
// system.
func localLibraryDir(dir string) bool {
	return slices.Contains([]string{"/usr/local/lib", "/usr/local/lib64"}, strings.TrimSuffix(dir, "/"+multiarch(dir)))
}

// exists says whether a path is there, without following a link.
func exists(ctx context.Context, box sandbox.Sandbox, name string) (bool, error) {
	stream, err := box.Download(ctx, name)
	if notThere(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, stream.Close()
}
