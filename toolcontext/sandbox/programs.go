package sandbox

import (
	"path"
	"slices"
	"strings"
)

// StartsInterpreters says whether Python reads a file whenever it starts, from what it is
// called.
func StartsInterpreters(name string) bool {
	return slices.Contains([]string{"sitecustomize.py", "usercustomize.py"}, path.Base(name))
}

// InPackages says whether a path is below a directory of installed Python packages.
func InPackages(name string) bool {
	return strings.Contains(name, "/site-packages/") || strings.Contains(name, "/dist-packages/")
}
