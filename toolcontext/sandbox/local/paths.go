package local

import (
	"os"
	"path/filepath"
	"strings"
)

// resolve turns a path as a command's author writes it into an absolute one:
// ~ is the sandbox's home, anything relative starts in base.
func (s *Sandbox) resolve(path, base string) string {
	switch {
	case path == "":
		return base
	case path == "~":
		return s.info.Home
	case strings.HasPrefix(path, "~/"):
		return filepath.Join(s.info.Home, path[2:])
	case filepath.IsAbs(path):
		return filepath.Clean(path)
	}
	return filepath.Join(base, path)
}

// nearestDir returns dir, or the nearest directory above it that can be entered.
func nearestDir(dir, fallback string) string {
	for d := dir; ; d = filepath.Dir(d) {
		if canEnter(d) == nil {
			if d == filepath.Dir(d) && d != dir {
				return fallback
			}
			return d
		}
		if d == filepath.Dir(d) {
			return fallback
		}
	}
}

// canEnter reports why a process can't have dir as its working directory.
func canEnter(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return &os.PathError{Op: "chdir", Path: dir, Err: errNotDir}
	}
	return accessExecute(dir)
}
